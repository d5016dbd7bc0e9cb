"""The result of a validation, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gdsurgeon.errors import GdsurgeonError, Json, printable
from gdsurgeon.operation.validate import Verdict
from gdsurgeon.proof.cost import Coverage, Profile
from gdsurgeon.proof.differences import summed_up
from gdsurgeon.proof.divergence import Divergence, Guilty, Reduced
from gdsurgeon.proof.proof import DiffersError, OutputProof, Proof, rounded_up
from gdsurgeon.runtime.compare import Statistics
from gdsurgeon.text import Entry, counted, listed, size
from gdsurgeon.view.report import to_json
from gdsurgeon.view.summary import (
    chance,
    compared_counts,
    equality,
    input_sets,
    largest,
    left_out,
    output_label,
    returned,
)

MOST_GUILTY = 8
"""Nodes at which graphs diverge that are shown."""


def verdict_summary(verdict: Verdict, error: GdsurgeonError | None = None) -> tuple[list[str], list[Entry]]:
    """Returns the graphs, one per line, and the results by level; `error` is the error that ended the validation."""
    heads = [
        f"{printable(graph.name)}  {size(graph.bytes)}, {counted(graph.nodes, 'node')}" for graph in verdict.graphs
    ]
    return heads, list(_entries(verdict, error))


def _entries(verdict: Verdict, error: GdsurgeonError | None) -> Iterator[Entry]:
    if verdict.graphs:
        yield Entry("checked", "the structure is sound")
    if verdict.loaded:
        yield Entry("loaded", verdict.loaded)
    proof = verdict.proof
    if proof is not None:
        yield from _proof(verdict, proof, error)
    if verdict.coverage is not None:
        yield from _coverage(verdict.coverage)
    yield from _differences(verdict)
    found = verdict.surroundings
    if found:
        yield Entry("metadata", f"{counted(len(found), 'difference')} outside the graphs:")
        yield from (Entry("", f"  {item.text}") for item in found)
    for name, profile in verdict.profiles.items():
        yield from _profile(name, profile)
    if verdict.divergence is not None:
        yield from _divergence(verdict.divergence)
    if verdict.reduced is not None:
        piece = verdict.reduced
        yield Entry("reduced", f"{counted(piece.nodes, 'node')}: {piece.mine} and {piece.theirs}: {piece.text}")
    for path in verdict.written:
        yield Entry("saved", path)


def _profile(name: str, profile: Profile) -> Iterator[Entry]:
    yield Entry("measured", f"{name}: {profile.seconds * 1000:.3g} ms a run (median of {profile.runs})")
    total = profile.node_seconds or 1.0
    for node in profile.slowest[:5]:
        yield Entry("", f"{node.seconds * 1000:8.3f} ms  {100 * node.seconds / total:3.0f} %  {node.name}")


def _coverage(coverage: Coverage) -> Iterator[Entry]:
    """Yields the results of comparisons, rows of tables and channels that the inputs covered."""
    if coverage.sides:
        missing = coverage.unreached
        count = len(coverage.sides)
        nouns = "comparison, clip or choice" if count == 1 else "comparisons, clips and choices"
        yield Entry("coverage", f"{count - len(missing):,} of {count:,} {nouns} on both sides" + _not(missing))
    for lookup, asked in coverage.rows.items():
        yield Entry("coverage", f"{asked:,} of {counted(lookup.rows, 'row')} read by {lookup.node}")
    alive, channels = coverage.channels
    if channels:
        dead = [f"{found.count(0):,} of {node}" for node, found in coverage.alive.items() if 0 in found]
        yield Entry("coverage", f"{alive:,} of {counted(channels, 'channel')} above zero" + _not(dead))


def _not(missing: list[str]) -> str:
    return f"; not {listed(missing, 3)}" if missing else ""


def _differences(verdict: Verdict) -> Iterator[Entry]:
    """Yields the differences of nodes that no output shows."""
    unshown = list(summed_up(verdict.differences))
    equal = len(verdict.differences) - len(unshown)
    if unshown:
        yield Entry("also differs", f"{counted(len(unshown), 'difference')} between the graphs that no output shows:")
        yield from (Entry("", f"  {line}") for line in unshown)
    if equal:
        nodes = counted(equal, "changed node")
        yield Entry("unchanged in isolation", f"{nodes} returned the same values on random inputs")


def _proof(verdict: Verdict, proof: Proof, error: GdsurgeonError | None) -> Iterator[Entry]:
    for name, text in proof.feeds.items():
        made = proof.made.get(name, "")
        yield Entry("fed", f"{name}  {text}" + (f": {made}" if made else ""))
    for output in proof.outputs:
        yield Entry(output_label(output), _returned(output, verdict.statistics.get(output.after)))
    yield from left_out(proof)
    if proof.random_nodes:
        two = verdict.request.other is not None or bool(verdict.request.devices)
        yield Entry("random", chance(proof, two=two))
    yield _conclusion(verdict, proof, error)
    if verdict.optimized is not None:
        yield Entry("optimized", f"by Grappler, {_optimized(verdict, verdict.optimized, error)}")


def _conclusion(verdict: Verdict, proof: Proof, error: GdsurgeonError | None) -> Entry:
    where = f"({proof.where}, {verdict.seconds:.1f} s)"
    if not proof.compared:
        label = "ran" if error is None else "stopped"
        what = "" if error is not None else ", nothing to compare with"
        outputs = sum(not output.inside for output in proof.outputs)
        return Entry(label, f"{counted(outputs, 'output')}, {input_sets(proof)}{what} {where}")
    counts = f"{proof.statement}: {compared_counts(proof)}, {input_sets(proof)}"
    if isinstance(error, DiffersError) and verdict.optimized is None:
        by = f", {largest(proof.largest_difference)}" if proof.largest_difference else ""
        return Entry("differs", f"{counts}{by} {where}")
    if verdict.request.devices and proof.largest_difference and proof.tolerance.is_exact:
        return Entry("drift", f"{counts}, {_closeness(proof)} {where}")
    return Entry("proven", f"{counts}, {equality(proof)} {where}")


def _optimized(verdict: Verdict, proof: Proof, error: GdsurgeonError | None) -> str:
    """Returns the results of running and comparing the graphs after TensorFlow optimized them."""
    if not proof.compared:
        return "the graph: it runs"
    one = verdict.request.other is None and not verdict.request.devices
    if isinstance(error, DiffersError):
        return f"both graphs: different, {_closeness(proof)}"
    return f"{'the graph' if one else 'both graphs'}: {_closeness(proof)}"


def _closeness(proof: Proof) -> str:
    if not proof.largest_difference:
        return "bit-identical"
    within = f"within rtol and atol {rounded_up(proof.needed)} " if proof.needed else ""
    return f"{within}({largest(proof.largest_difference)})" if within else largest(proof.largest_difference)


def _returned(output: OutputProof, statistics: Statistics | None) -> str:
    line = returned(output)
    if statistics is not None:
        if not output.value and statistics.minimum is not None and statistics.maximum is not None:
            line += f", {statistics.minimum:.3g} to {statistics.maximum:.3g}"
        for count, what in ((statistics.nan, "NaN"), (statistics.infinite, "infinite")):
            line += f", {count:,} of {statistics.count:,} {what}" if count else ""
        line += ", no elements" if not statistics.count else ""
    return line + (f"  (not compared: {output.reason})" if output.reason else "")


def _divergence(found: Divergence) -> Iterator[Entry]:
    looked = f"{counted(found.compared, 'tensor')} compared"
    if found.left_out:
        looked += f", {found.left_out:,} cannot be fetched"
    if not found.guilty:
        yield Entry("first", f"no inner tensor differs ({looked})")
        return
    for i, guilty in enumerate(found.guilty[:MOST_GUILTY]):
        yield Entry("also" if i else "first", f"{guilty.node} ({guilty.op}): {guilty.text}")
        yield from (Entry("", line) for line in _reasons(guilty))
    if len(found.guilty) > MOST_GUILTY:
        yield Entry("also", f"and {counted(len(found.guilty) - MOST_GUILTY, 'node')} more")
    yield Entry("", looked)


def _reasons(guilty: Guilty) -> Iterator[str]:
    for why in guilty.why:
        yield f"  {why}"
    if guilty.inputs:
        yield f"  its inputs agree: {listed((pair.after for pair in guilty.inputs), 4)}"
    if guilty.between:
        where = "between these inputs and this node" if guilty.inputs else "upstream"
        yield f"  not compared, {where}: {listed(guilty.between, 4)}"


def verdict_json(verdict: Verdict, error: Mapping[str, Json] | None = None) -> dict[str, Json]:
    """Returns the whole verdict as JSON; `error` is the error that ended the validation, if any."""
    return {
        **to_json(verdict, "loaded", "written", "warnings", model="request.model", other="request.other"),
        "passed": error is None,
        "error": error,
        "exit_code": error["exit"] if error is not None else 0,
        "graphs": [vars(graph) for graph in verdict.graphs],
        "proof": verdict.proof.as_json() if verdict.proof is not None else None,
        "optimized_proof": verdict.optimized.as_json() if verdict.optimized is not None else None,
        "statistics": {name: found._asdict() for name, found in verdict.statistics.items()},
        "coverage": verdict.coverage.as_json() if verdict.coverage is not None else None,
        "differences": [
            to_json(item, "name", "shown", "why", function="where", differences="what") for item in verdict.differences
        ],
        "surroundings": [item.as_json() for item in verdict.surroundings],
        "divergence": _divergence_json(verdict.divergence) if verdict.divergence is not None else None,
        "reduced": _reduced_json(verdict.reduced) if verdict.reduced is not None else None,
        "profiles": {name: to_json(profile) for name, profile in verdict.profiles.items()},
        "seconds": round(verdict.seconds, 3),
    }


def _divergence_json(found: Divergence) -> dict[str, Json]:
    nodes = [
        to_json(
            each, "node", "op", "between", "why", tensor="tensor.after", counterpart="tensor.before", difference="text",
            max_abs_difference="comparison.max_abs",
        ) | {"inputs": [pair.after for pair in each.inputs]}
        for each in found.guilty
    ]  # fmt: skip
    return to_json(found, "compared", "left_out", "lockstep") | {"guilty": nodes}


def _reduced_json(found: Reduced) -> dict[str, Json]:
    return {
        **to_json(found, "nodes", difference="text"),
        "bytes": len(found.data),
        "tensors": [found.mine, found.theirs],
    }
