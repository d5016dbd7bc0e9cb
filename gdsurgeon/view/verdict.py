"""What a validation has found, for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gdsurgeon.errors import GdsurgeonError, Json, printable
from gdsurgeon.operation.validate import Verdict
from gdsurgeon.proof.models.coverage import Coverage
from gdsurgeon.proof.models.differences import summed_up
from gdsurgeon.proof.models.divergence import Divergence, Guilty
from gdsurgeon.proof.models.profile import Profile
from gdsurgeon.proof.proof import DiffersError, OutputProof, Proof, rounded_up
from gdsurgeon.runtime.statistics import Statistics
from gdsurgeon.text import counted, labelled, listed, size
from gdsurgeon.view.summary import (
    MOST_LINES,
    chance,
    compared_counts,
    equality,
    left_out,
    more_outputs,
    output_label,
    proven_counts,
    returned,
)


def verdict_lines(verdict: Verdict, error: GdsurgeonError | None = None) -> list[str]:
    """What was found, a line each, level by level; ERROR is what ended it, if something did."""
    lines = [
        f"{printable(graph.name)}  {size(graph.bytes)}, {counted(graph.nodes, 'node')}" for graph in verdict.graphs
    ]
    return [*lines, *labelled(_entries(verdict, error))]


def _entries(verdict: Verdict, error: GdsurgeonError | None) -> Iterator[tuple[str, str]]:
    if verdict.graphs:
        yield "checked", "the structure is sound"
    if verdict.loaded:
        yield "loaded", verdict.loaded
    proof = verdict.proof
    if proof is not None:
        yield from _proof(verdict, proof, error)
    if verdict.coverage is not None:
        yield from _reached(verdict.coverage)
    yield from _differences(verdict)
    yield from _surroundings(verdict)
    for name, profile in verdict.profiles.items():
        yield from _profile(name, profile)
    if verdict.divergence is not None:
        yield from _divergence(verdict.divergence)
    if verdict.reduced is not None:
        piece = verdict.reduced
        nodes = counted(piece.nodes, "node")
        yield "reduced", f"{nodes}: {printable(piece.mine)} and {printable(piece.theirs)}: {piece.text}"
    for path in verdict.written:
        yield "saved", printable(path)


def _profile(name: str, profile: Profile) -> Iterator[tuple[str, str]]:
    yield "measured", f"{name}: {profile.seconds * 1000:.3g} ms a run (median of {profile.runs})"
    total = profile.node_seconds or 1.0
    for node in profile.slowest[:5]:
        yield "", f"{node.seconds * 1000:8.3f} ms  {100 * node.seconds / total:3.0f} %  {printable(node.name)}"


def _reached(coverage: Coverage) -> Iterator[tuple[str, str]]:
    """What the feeds reached: both sides of places, rows of tables, channels."""
    if coverage.sides:
        missing = coverage.unreached
        count = len(coverage.sides)
        nouns = "comparison, clip or choice" if count == 1 else "comparisons, clips and choices"
        yield "reached", f"{count - len(missing):,} of {count:,} {nouns} on both sides" + _not(missing)
    for lookup, asked in [*coverage.rows.items()][:3]:
        yield "reached", f"{asked:,} of {counted(lookup.rows, 'row')} by {printable(lookup.node)}"
    if len(coverage.rows) > 3:
        yield "reached", f"and rows by {counted(len(coverage.rows) - 3, 'other look-up')}"
    alive, channels = coverage.channels
    if channels:
        dead = [f"{found.count(0):,} of {node}" for node, found in coverage.alive.items() if 0 in found]
        yield "reached", f"{alive:,} of {counted(channels, 'channel')} above zero" + _not(dead)


def _not(missing: list[str]) -> str:
    return f"; not {listed(map(printable, missing), 3)}" if missing else ""


def _differences(verdict: Verdict) -> Iterator[tuple[str, str]]:
    """What no output shows, by name."""
    unshown = list(summed_up(verdict.differences))
    equal = len(verdict.differences) - len(unshown)
    if unshown:
        nodes = counted(len(unshown), "difference")
        yield "unshown", f"{nodes} between the graphs that no output shows:"
        for line in unshown[:MOST_LINES]:
            yield "", f"  {line}"
        if len(unshown) > MOST_LINES:
            yield "", f"  and {counted(len(unshown) - MOST_LINES, 'difference')} more"
    if equal:
        yield (
            "equal",
            f"{counted(equal, 'node')} that {'are' if equal > 1 else 'is'} another, run apart: the same values",
        )


def _surroundings(verdict: Verdict) -> Iterator[tuple[str, str]]:
    """What differs around the graphs, place by place."""
    found = verdict.surroundings
    if found:
        yield "around", f"{counted(len(found), 'difference')} around the graphs:"
        for item in found[:MOST_LINES]:
            yield "", f"  {item.text}"
        if len(found) > MOST_LINES:
            yield "", f"  and {counted(len(found) - MOST_LINES, 'difference')} more"


def _proof(verdict: Verdict, proof: Proof, error: GdsurgeonError | None) -> Iterator[tuple[str, str]]:
    for name, text in list(proof.feeds.items())[:MOST_LINES]:
        made = proof.made.get(name, "")
        yield "fed", f"{printable(name)}  {text}" + (f": {printable(made)}" if made else "")
    if len(proof.feeds) > MOST_LINES:
        yield "fed", f"and {counted(len(proof.feeds) - MOST_LINES, 'input')} more"
    for output in proof.outputs[:MOST_LINES]:
        yield output_label(output), _returned(output, verdict.statistics.get(output.after))
    yield from more_outputs(proof.outputs)
    yield from left_out(proof)
    if proof.chance:
        yield "random", chance(proof, two=verdict.request.other is not None or bool(verdict.request.devices))
    yield _conclusion(verdict, proof, error)
    if verdict.optimized is not None:
        yield "deployed", _optimized(verdict, verdict.optimized, error)


def _conclusion(verdict: Verdict, proof: Proof, error: GdsurgeonError | None) -> tuple[str, str]:
    where = f"({proof.where}, {verdict.seconds:.1f} s)"
    if not proof.compared:
        label = "ran" if error is None else "stopped"
        what = "" if error is not None else ", nothing to compare with"
        outputs = sum(not output.inside for output in proof.outputs)
        return label, f"{counted(outputs, 'output')}, {proven_counts(proof)}{what} {where}"
    counts = f"{proof.statement}: {compared_counts(proof)}, {proven_counts(proof)}"
    if isinstance(error, DiffersError) and verdict.optimized is None:
        largest = f", by up to {proof.largest_difference:.3g}" if proof.largest_difference else ""
        return "differs", f"{counts}{largest} {where}"
    if verdict.request.devices and proof.largest_difference and not proof.rtol and not proof.atol:
        return "drift", f"{counts}: up to {proof.largest_difference:.3g}{_needed(proof)} {where}"
    return "proven", f"{counts}, {equality(proof)} {where}"


def _optimized(verdict: Verdict, proof: Proof, error: GdsurgeonError | None) -> str:
    """What becomes of it under TensorFlow's optimiser."""
    if not proof.compared:
        return "optimised by Grappler it runs, too"
    if verdict.request.other is None and not verdict.request.devices:
        return f"optimised by Grappler it runs, too, and gives the same{_but(proof)}"
    what = "differ" if isinstance(error, DiffersError) else "give the same"
    return f"optimised by Grappler the two {what}{_but(proof)}"


def _but(proof: Proof) -> str:
    if not proof.largest_difference:
        return ", bit-identical"
    return f" but for up to {proof.largest_difference:.3g}{_needed(proof)}"


def _needed(proof: Proof) -> str:
    return f", within an rtol and atol of {rounded_up(proof.needed)}" if proof.needed else ""


def _returned(output: OutputProof, statistics: Statistics | None) -> str:
    line = returned(output)
    if statistics is not None:
        line += _range(statistics) if not output.value else ""
        for count, what in ((statistics.nan, "NaN"), (statistics.infinite, "infinite")):
            line += f", {count:,} of {statistics.count:,} {what}" if count else ""
        line += ", no elements" if not statistics.count else ""
    return line + (f"  (not compared: {printable(output.reason)})" if output.reason else "")


def _range(statistics: Statistics) -> str:
    if statistics.minimum is None or statistics.maximum is None:
        return ""
    return f", {statistics.minimum:.3g} to {statistics.maximum:.3g}"


def _divergence(found: Divergence) -> Iterator[tuple[str, str]]:
    looked = f"{counted(found.compared, 'tensor')} compared"
    if found.left_out:
        looked += f", {found.left_out:,} cannot be fetched"
    if not found.guilty:
        yield "first", f"no tensor inside differs ({looked})"
        return
    for i, guilty in enumerate(found.guilty[:MOST_LINES]):
        yield ("first" if not i else "also"), f"{printable(guilty.node)} ({printable(guilty.op)}): {guilty.text}"
        yield from (("", line) for line in _reasons(guilty))
    if len(found.guilty) > MOST_LINES:
        yield "also", f"and {counted(len(found.guilty) - MOST_LINES, 'node')} more"
    yield "", looked


def _reasons(guilty: Guilty) -> Iterator[str]:
    for why in guilty.why:
        yield f"  {why}"
    if guilty.inputs:
        yield f"  its inputs agree: {listed((printable(pair.after) for pair in guilty.inputs), 4)}"
    if guilty.between:
        where = "between those and it" if guilty.inputs else "above it"
        yield f"  {where}, not compared: {listed(map(printable, guilty.between), 4)}"


def verdict_json(verdict: Verdict, error: Mapping[str, Json] | None = None) -> dict[str, Json]:
    """The whole verdict for machines; ERROR is what ended it (its code, message, exit, ...), if something did."""
    request = verdict.request
    return {
        "model": request.model,
        "other": request.other,
        "passed": error is None,
        "error": error,
        "exit_code": error["exit"] if error is not None else 0,
        "graphs": [vars(graph) for graph in verdict.graphs],
        "loaded": verdict.loaded or None,
        "proof": verdict.proof.as_json() if verdict.proof is not None else None,
        "optimized_proof": verdict.optimized.as_json() if verdict.optimized is not None else None,
        "statistics": {name: found._asdict() for name, found in verdict.statistics.items()},
        "coverage": verdict.coverage.as_json() if verdict.coverage is not None else None,
        "differences": [item.as_json() for item in verdict.differences],
        "surroundings": [item.as_json() for item in verdict.surroundings],
        "divergence": verdict.divergence.as_json() if verdict.divergence is not None else None,
        "reduced": verdict.reduced.as_json() if verdict.reduced is not None else None,
        "profiles": {name: profile.as_json() for name, profile in verdict.profiles.items()},
        "written": verdict.written,
        "warnings": verdict.warnings,
        "seconds": round(verdict.seconds, 3),
    }
