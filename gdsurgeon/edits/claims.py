"""The claims of edits, which the proof tests by execution, and the result that an edit returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from gdsurgeon.compare.intent import Intent
from gdsurgeon.errors import Json, Remark, UsageError, quoted
from gdsurgeon.graph.names import nodes_of
from gdsurgeon.specification.specify import Asked
from gdsurgeon.text import Entry
from gdsurgeon.values import EXACT, Data, Tolerance

if TYPE_CHECKING:
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.runtime.evaluator import Differentiator


TensorPairs = tuple[tuple[str, str], ...]
"""Pairs of names of tensors or nodes."""


class Claim(Data):
    """A property of the graphs before and after an edit.

    `Unchanged`, `SameOutputs` and `SameGiven` include that outputs are bit-identical if they do not depend on the edit.
    """

    as_written = deployed = as_graphs = False
    """See `SameOutputs`; other claims do not have these variants."""


@dataclass(eq=False, repr=False)
class Unchanged(Claim):
    """The edited graph loads and runs; outputs that do not depend on the edit are bit-identical.

    Attributes:
        measured: whether the proof measures how much the other outputs differ.
    """

    measured: bool = False


@dataclass(eq=False, repr=False)
class SameOutputs(Claim):
    """Every output equals its counterpart (`Intent.counterpart`).

    Attributes:
        tolerance: by how much floats may differ.
        except_for: outputs that the claim excludes, by their names before the edit, with the reason.
        may_differ: whether the outputs of `except_for` are compared nevertheless; a difference is accepted.
        also: nodes of the original whose outputs are also compared if they have a counterpart.
        even_alone: whether it is enough that the edited graph runs if the original does not run.
        as_written: whether function calls are run without their own optimization.
        judged: whether a difference is an error; otherwise differences are measured, and the graph must only run.
        deployed: whether the graphs are also compared after TensorFlow optimizes them, within a tolerance. Outputs that
            differ by rounding must be bit-identical without the kernels of oneDNN, which do not depend only on the
            node.
        idle: random nodes of the original whose values do not matter; outputs that depend only on them are not random.
        as_graphs: whether the comparison of the graphs is enough if no output can be compared by execution.
        finite: tensors of the original; if one of them is infinite or NaN, the claim states nothing.
    """

    tolerance: Tolerance = EXACT
    except_for: Mapping[str, str] = field(default_factory=dict)
    may_differ: bool = False
    also: tuple[str, ...] = ()
    even_alone: bool = False
    as_written: bool = False
    judged: bool = True
    deployed: bool = False
    idle: tuple[str, ...] = ()
    as_graphs: bool = False
    finite: tuple[str, ...] = ()


class SameShapes(Claim):
    """Every output has the dtype and the shape of its counterpart; values are not compared."""


@dataclass(eq=False, repr=False)
class SameGiven(Claim):
    """The edited graph returns the values of the original if some tensors of the original get other values.

    Attributes:
        given: for each such tensor of the original, the tensor of the edited graph that replaces its value.
        outputs: pairs (tensor of the original, tensor of the edited graph) that agree then. Without `copies`, the proof
            adds all other outputs of the original. The value of a tensor that is also in `given` is the value that the
            original computes; its consumers read the given value.
        statement: the claim as an equation, for people.
        copies: nodes of the original and nodes of the edited graph that get the same feeds. The run of the edited graph
            then also computes the originals of `outputs`.
        constants: expected values (serialised AttrValues) of constants of the edited graph.
        parts: added graphs; each one is compared with its copy in the edited graph.
        parts_stated: whether `statement` contains the parts; otherwise the report names them separately.
        sites: tensors among `outputs` that are inner tensors at which the edit changed the computation.
        tolerance, as_written, deployed, as_graphs: as in `SameOutputs`.
        except_for: tensors of the original that are compared and may differ, with the reason.
    """

    given: Mapping[str, str]
    outputs: TensorPairs
    statement: str
    copies: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, bytes] = field(default_factory=dict)
    parts: Sequence[SamePart] = ()
    parts_stated: bool = False
    sites: tuple[str, ...] = ()
    tolerance: Tolerance = EXACT
    as_written: bool = False
    deployed: bool = False
    as_graphs: bool = False
    except_for: Mapping[str, str] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class OwnVariables(Claim):
    """Two parts of the edited graph have separate variables: values of one part do not change outputs of the other.

    Attributes:
        assigned: pairs (node that assigns a variable of one part, its counterpart in the other part).
        outputs: pairs (tensor of one part, its counterpart).
        statement: for people.
    """

    assigned: TensorPairs
    outputs: TensorPairs
    statement: str


def on_purpose(claims: Sequence[Claim]) -> tuple[Claim, ...]:
    """Returns `claims` without the claims of equal values, for edits that change values on purpose.

    How much the values change is measured instead.
    """
    equal = (Unchanged, SameOutputs, SameShapes, SameSites)
    return (*(claim for claim in claims if not isinstance(claim, equal)), Unchanged(measured=True))


def equation(given: Sequence[str], tail: str = "") -> str:
    """Returns the statement of a `SameGiven`: the original gets the same inputs and the values in `given`."""
    shown = ["x", *given[:3], *(["..."] if len(given) > 3 else [])]
    return f"edited(x) == original({', '.join(shown)}{tail})"


@dataclass(eq=False, repr=False)
class RowByRow(Claim):
    """Given a batch, the edited graph returns for each row the values that the original returns for this row.

    Attributes:
        inputs: the inputs whose first dimension is the batch.
        rows: the batch size, as a multiple of the batch size of the original.
        alone: whether rows also run on the edited graph, because the original does not accept them.
    """

    inputs: tuple[str, ...]
    rows: int
    alone: bool = False


@dataclass(eq=False, repr=False)
class SameTensors(Claim):
    """Tensors that an edit reads, but does not change, have the values that they had.

    Attributes:
        tensors: of the original.
        given: tensors of the original with other values, as in `SameGiven`.
    """

    tensors: tuple[str, ...]
    given: Mapping[str, str] = field(default_factory=dict)


class Site(NamedTuple):
    """A place in the graph at which different nodes compute the same values.

    Attributes:
        inputs: the tensors that the site reads; their names do not change.
        outputs: pairs (tensor of the original, tensor that replaces it), at least one.
        channels: the axis of channels that are products and sums, computed separately. Each channel is then compared
            with its own largest element, also on large numbers. None: no such axis.
        any_rows: whether the inputs may have more rows than they have in the graph.
    """

    inputs: tuple[str, ...]
    outputs: TensorPairs
    channels: int | None = None
    any_rows: bool = False

    def reads(self, other: Site) -> bool:
        """Returns whether this site reads a tensor that `other` computes, in one of the graphs."""
        return not set(self.inputs).isdisjoint(name for pair in other.outputs for name in pair)


@dataclass(eq=False, repr=False)
class SameSites(Claim):
    """Each site returns in isolation the values of the original, for positive and negative, small and large numbers.

    Attributes:
        sites: at most `AT_ONCE`; no site reads a tensor that a different site computes.
        tolerance: as in `SameOutputs`; for a site with channels, relative to the largest element of the same channel.
    """

    sites: tuple[Site, ...]
    tolerance: Tolerance


@dataclass(eq=False, repr=False)
class SamePart(Claim):
    """An added graph computes the same values in the edited graph as in isolation.

    Attributes:
        part: the added graph.
        inputs: for placeholders of `part`, the tensor of the edited graph that replaces them.
        outputs: pairs (tensor of `part`, tensor of the edited graph) that are bit-identical. Those that belong to
            `inputs` come first, in the same order.
        copies: nodes of `part` and their copies.
        in_place: whether `part` must run on the values of the edited graph; otherwise other values are possible.
        role: ``pre`` or ``post`` for a graph before the inputs or after the outputs of a model. The results of such a
            graph, or tensors of the model that depend on them, must be compared.
    """

    part: Graph
    inputs: Mapping[str, str]
    outputs: TensorPairs
    copies: Mapping[str, str]
    in_place: bool = False
    role: str = ""

    @property
    def results(self) -> TensorPairs:
        """The pairs of `outputs` that belong to `inputs`."""
        return self.outputs[: len(self.inputs)]


@dataclass(eq=False, repr=False)
class LikeReference(Claim):
    """An added graph returns the values that the user recorded.

    Attributes:
        part: the graph.
        pairs: (placeholder, tensor that is compared).
        archive: an .npz file with the values of both, by name, for each sample as in archives of feeds.
        tolerance: as in `SameOutputs`.
    """

    part: Graph
    pairs: TensorPairs
    archive: str
    tolerance: Tolerance = EXACT


@dataclass(eq=False, repr=False)
class Gradients(Claim):
    """Added nodes compute the gradients that TensorFlow itself computes for the original; other outputs are the same.

    Attributes:
        ys, xs, grad_ys: tensors of the original; see `gdsurgeon.edits.add_gradients.add_gradients`.
        names: the nodes of the results, one for each of `xs`.
        scope: the name scope of the added nodes.
        differentiator: computes TensorFlow's own gradients; None: the proof starts one.
        budget: the bytes that a run of the gradients may allocate.
        tolerance: by how much the gradients may differ.
    """

    ys: tuple[str, ...]
    xs: tuple[str, ...]
    grad_ys: tuple[str, ...]
    names: tuple[str, ...]
    scope: str
    differentiator: Differentiator | None
    budget: int | None = None
    tolerance: Tolerance = EXACT


class Stage(NamedTuple):
    """One of several edits inside an edit: the graph before it, as it is written, and its result."""

    before: Graph
    result: EditResult


@dataclass(eq=False, repr=False)
class EditResult(Data):
    """The result of an edit.

    Attributes:
        intent: the changes.
        claims: the claims, which the proof tests by execution.
        warnings: for the user, one line each.
        notes: decisions of the edit, one line each, such as names that were made unique.
        told: further entries of the summary.
        facts: further values of the report by name; JSON.
        inside: the changes in functions, by the name of the function: its body as a graph, and the result.
        asked: the request, if it was recorded.
        stages: the edits that this edit consists of; each one is checked separately. The request of the last one is the
            request of the whole edit.
        decided: further arguments of the specification, by name: facts that the specification does not derive itself,
            such as shapes.
    """

    intent: Intent = field(default_factory=Intent)
    claims: tuple[Claim, ...] = (Unchanged(),)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    told: list[Entry] = field(default_factory=list)
    facts: dict[str, Json] = field(default_factory=dict)
    inside: dict[str, tuple[Graph, EditResult]] = field(default_factory=dict)
    asked: Asked | None = None
    stages: Sequence[Stage] = ()
    decided: dict[str, object] = field(default_factory=dict)

    def warn(self, text: str, code: str, **facts: Json) -> None:
        """Adds a warning."""
        self.warnings.append(Remark(text, code, **facts))

    def note(self, text: str, code: str, **facts: Json) -> None:
        """Adds a note."""
        self.notes.append(Remark(text, code, **facts))

    def __repr__(self) -> str:
        edit = f" of {self.asked.edit}" if self.asked is not None else ""
        counts = {key: len(value) for key, value in vars(self.intent).items() if isinstance(value, Sized)}
        counts |= {"functions": len(self.inside), "warnings": len(self.warnings)}
        told = ", ".join(f"{key} {count:,}" for key, count in counts.items() if count)
        return f"<EditResult{edit}: {told or 'nothing changed'}>"


def checked_result(result: object, edit: Callable[..., object]) -> EditResult:
    """Returns `result`, which `edit` returned. Raises UsageError if it is not an EditResult."""
    if isinstance(result, EditResult):
        return result
    name = getattr(edit, "__name__", "the edit")
    raise UsageError(
        f"the edit {quoted(name)} returned {type(result).__name__}: an edit returns an EditResult, as gds.rename does",
        code="bad-type",
        facts={"function": name, "expected": "EditResult", "found": type(result).__name__},
    )


AT_ONCE = 16
"""The number of sites in one trial: all their inputs and outputs are in memory together."""
MOST_GROUPS = 8
LARGEST_FED = 32
"""The limit of the numbers on which a site runs in isolation."""


def site_claims(sites: Sequence[Site], tolerance: Tolerance) -> tuple[Claim, ...]:
    """Returns the claims that all outputs and the outputs of all sites are the same, also for each site in isolation.

    Args:
        sites: all places at which the computation changed; if there are very many, only the first run in isolation.
        tolerance: of all outputs and sites.
    """
    outputs = SameOutputs(tolerance, may_differ=True, also=nodes_of_sites(sites))
    return (outputs, *claims_apart(sites, tolerance, MOST_GROUPS))


def nodes_of_sites(sites: Iterable[Site]) -> tuple[str, ...]:
    """Returns the nodes that compute the outputs of `sites` in the original."""
    return tuple(nodes_of(old for site in sites for old, _ in site.outputs))


def claims_apart(sites: Iterable[Site], tolerance: Tolerance, most: int | None = None) -> list[SameSites]:
    """Returns the claims about `sites` in isolation; `most` limits the number of claims.

    An output of a site cannot be fed and computed in one run, so the sites of a claim do not depend on each other.
    """
    groups: list[list[Site]] = []
    for site in filter(lambda site: site.inputs, sites):
        for group in groups:
            if len(group) < AT_ONCE and not any(site.reads(other) or other.reads(site) for other in group):
                group.append(site)
                break
        else:
            if len(groups) != most:
                groups.append([site])
    return [SameSites(tuple(group), tolerance) for group in groups]
