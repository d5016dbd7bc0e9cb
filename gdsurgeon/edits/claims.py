"""What edits promise: the claims that the proof by execution checks, and what an edit returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from gdsurgeon.comparison.intent import Intent
from gdsurgeon.errors import Json, UsageError, quoted
from gdsurgeon.specification.asked import Asked
from gdsurgeon.text import Entry
from gdsurgeon.values import Data

if TYPE_CHECKING:
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.runtime.differentiation.differentiator import Differentiator


class Claim(Data):
    """What must hold between the graph before an edit and the graph after it.

    Every claim includes that an output which is not downstream of the edit is bit-identical.
    """


@dataclass(eq=False, repr=False)
class Unchanged(Claim):
    """Nothing beyond: it loads, it runs, what the edit does not reach is bit-identical.

    Attributes:
        measured: whether the proof says how far the outputs that the edit reaches are from what they were.
    """

    measured: bool = False


@dataclass(eq=False, repr=False)
class SameOutputs(Claim):
    """Every output equals its counterpart (`Intent.counterpart`).

    Attributes:
        rtol, atol: |a - b| <= atol + rtol * max(|a|, |b|) for floats; 0 and 0: bit for bit.
        of_largest: max |a - b| <= of_largest * max |a|, where a is the tensor of the original; replaces rtol and atol.
        except_for: outputs, by their names before, for which that is not claimed, and why.
        may_differ: whether the outputs of `except_for` are compared nevertheless, and a difference is accepted.
        also: nodes of the graph before whose outputs are compared as well, those that have a counterpart.
        even_alone: whether it is enough that the edited graph runs, where the original does not.
        as_written: whether calls of functions are kept from optimising these by themselves.
        judged: whether a difference is a failure; else it is measured, and all that is claimed is that it runs.
        deployed: whether both are compared as they are deployed, too: optimised by TensorFlow, within a tolerance. Bit
            for bit they are equal without the kernels of oneDNN at the latest, which depend on more than a node.
        idle: random nodes of the graph before of which it does not matter what they draw: nothing is left to chance
            that depends on these alone.
        as_graphs: whether the comparison of the graphs shows the claim where nothing of it can be compared by running.
        finite: tensors of the graph before; if one of them is infinite or NaN, nothing is claimed.
    """

    rtol: float = 0.0
    atol: float = 0.0
    of_largest: float = 0.0
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
    """Every output has the dtype and the shape of its counterpart; what it holds is not meant to be the same."""


@dataclass(eq=False, repr=False)
class SameGiven(Claim):
    """The edited graph gives what the original gives if some of its tensors have other values.

    Attributes:
        given: for each such tensor of the original, the tensor of the edited graph whose value it is to have.
        outputs: pairs (tensor of the original, tensor of the edited graph) that are equal then, bit for bit. One
            that is given as well has the value that the original computes; what reads it reads what is given.
        copies: nodes of the original and those of the edited graph that play their part: what one is fed, the other
            is fed.
        statement: that as an equation, for people.
        beside: tensors of the edited graph that must be there in the same run.
        constants: values (serialised AttrValues) that constants of the edited graph have.
        parts: graphs that were added, each held against what it gives on its own for what it is given there.
        sites: tensors of the original among `outputs` that are none, and are compared for what was done there.
        of_largest, as_written, deployed, as_graphs: as in `SameOutputs`.
        except_for: tensors of the original that are compared, and may differ, and why.
    """

    given: Mapping[str, str]
    outputs: tuple[tuple[str, str], ...]
    statement: str
    copies: Mapping[str, str] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    constants: Mapping[str, bytes] = field(default_factory=dict)
    parts: Sequence[SamePart] = ()
    sites: tuple[str, ...] = ()
    of_largest: float = 0.0
    as_written: bool = False
    deployed: bool = False
    as_graphs: bool = False
    except_for: Mapping[str, str] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class OwnVariables(Claim):
    """Two parts of the edited graph have variables apart: what the one gives is the same whatever the other's hold.

    Attributes:
        assigned: pairs (what assigns to a variable of the one part, what assigns to its counterpart in the other).
        outputs: pairs (tensor of the one part, its counterpart).
        statement: for people.
    """

    assigned: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    statement: str


def on_purpose(claims: Sequence[Claim]) -> tuple[Claim, ...]:
    """CLAIMS, but for those of equal values: an edit changes values on purpose, and how far they moved is measured."""
    equal = (Unchanged, SameOutputs, SameShapes, SamePiece, SameSites)
    return (*(claim for claim in claims if not isinstance(claim, equal)), Unchanged(measured=True))


def equation(given: Sequence[str], tail: str = "") -> str:
    """The statement of a `SameGiven`: the original on the same inputs, and on what is GIVEN of it besides, in words."""
    shown = ["x", *given[:3], *(["..."] if len(given) > 3 else [])]
    return f"edited(x) == original({', '.join(shown)}{tail})"


@dataclass(eq=False, repr=False)
class RowByRow(Claim):
    """The edited graph, given a batch, gives for each row what the original gives for it alone.

    Attributes:
        inputs: the inputs whose first dimension is the batch.
        rows: how many times what the original takes the edited graph is given.
        alone: whether a row is run on the edited graph, too: the original does not take what that takes.
    """

    inputs: tuple[str, ...]
    rows: int
    alone: bool = False


@dataclass(eq=False, repr=False)
class SameTensors(Claim):
    """Tensors that an edit reads, and does not reach, have the values that they had.

    Attributes:
        tensors: of the original.
        given: as in `SameGiven`: what the original is given for that.
    """

    tensors: tuple[str, ...]
    given: Mapping[str, str] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class SamePiece(Claim):
    """A piece of the graph that another has taken the place of gives the same, whatever it is given.

    Attributes:
        inputs: the tensors that the piece read, by the names that they have before and after.
        outputs: pairs (tensor of the piece before, tensor in its place).
        rtol, atol: as in `SameOutputs`.
    """

    inputs: tuple[str, ...]
    outputs: tuple[tuple[str, str], ...]
    rtol: float = 0.0
    atol: float = 0.0


class Site(NamedTuple):
    """A place in a graph where something else computes what was computed there.

    Attributes:
        inputs: the tensors that it reads, by the names that they have before and after.
        outputs: pairs (tensor of the graph before, tensor in its place), one at least.
        channels: the axis of the outputs along which channels are that are computed apart from each other, by products
            and sums: then each is held against its own largest element, on large numbers as well; None: none.
        any_rows: whether the inputs may have more rows along their first axis than they have in the graph.
    """

    inputs: tuple[str, ...]
    outputs: tuple[tuple[str, str], ...]
    channels: int | None = None
    any_rows: bool = False


@dataclass(eq=False, repr=False)
class SameSites(Claim):
    """Sites give, each by itself, what they gave, whatever they read: numbers of either sign, small ones and others.

    Attributes:
        sites: at most `gdsurgeon.edits.sites.AT_ONCE`, none of which reads what another one gives.
        of_largest: as in `SameOutputs`; where a site has channels, of the largest element of the same channel.
    """

    sites: tuple[Site, ...]
    of_largest: float


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
    outputs: tuple[tuple[str, str], ...]
    copies: Mapping[str, str]
    in_place: bool = False
    role: str = ""


@dataclass(eq=False, repr=False)
class LikeReference(Claim):
    """A graph that was added gives what its user has from elsewhere.

    Attributes:
        part: the graph.
        pairs: (placeholder, tensor that is compared).
        archive: an .npz file with values of both, by their names, for each sample as feeds are.
        rtol, atol: as in `SameOutputs`.
    """

    part: Graph
    pairs: tuple[tuple[str, str], ...]
    archive: str
    rtol: float = 0.0
    atol: float = 0.0


@dataclass(eq=False, repr=False)
class Gradients(Claim):
    """Nodes that were added give the gradients that TensorFlow itself makes of the original; its outputs are the same.

    Attributes:
        ys, xs, grad_ys: tensors of the original; see `gdsurgeon.edits.add_gradients.add_gradients`.
        names: the nodes of the results, one for each of XS.
        scope: the name scope of the nodes that were added.
        differentiator: what can be asked for TensorFlow's own gradients, a
            `gdsurgeon.runtime.differentiation.differentiator.Differentiator`; None: whoever asks has to make one.
        budget: bytes that a run of the gradients is to take at most.
        rtol, atol: by how much the gradients may differ; 0 and 0: not by a bit.
    """

    ys: tuple[str, ...]
    xs: tuple[str, ...]
    grad_ys: tuple[str, ...]
    names: tuple[str, ...]
    scope: str
    differentiator: Differentiator | None
    budget: int | None = None
    rtol: float = 0.0
    atol: float = 0.0


class Stage(NamedTuple):
    """One of the edits of which an edit consists: the graph BEFORE it, as it is written, and its RESULT."""

    before: Graph
    result: EditResult


@dataclass(eq=False, repr=False)
class EditResult(Data):
    """What an edit returns.

    Attributes:
        intent: what was done.
        claims: what it promises; the proof by execution checks them.
        warnings: what somebody should know, a line each.
        notes: what was decided on the way, a line each (names that were made unique, ...).
        told: further entries of the summary.
        facts: what else the report says, by name; JSON.
        inside: what was done in the bodies of functions, by the names of these: the bodies as graphs, and the results.
        asked: what was asked of the edit, where that was kept.
        stages: where it consists of several edits, each of these: they are accounted for one by one. What was asked of
            the last is what was asked of the whole.
        decided: what else its specification is told, by name: what was decided by facts that this does not work out a
            second time, such as shapes.
    """

    intent: Intent
    claims: tuple[Claim, ...] = (Unchanged(),)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    told: list[Entry] = field(default_factory=list)
    facts: dict[str, Json] = field(default_factory=dict)
    inside: dict[str, tuple[Graph, EditResult]] = field(default_factory=dict)
    asked: Asked | None = None
    stages: Sequence[Stage] = ()
    decided: dict[str, object] = field(default_factory=dict)

    def __repr__(self) -> str:
        edit = f" of {self.asked.edit}" if self.asked is not None else ""
        counts = {key: len(value) for key, value in vars(self.intent).items() if isinstance(value, Sized)}
        counts |= {"functions": len(self.inside), "warnings": len(self.warnings)}
        told = ", ".join(f"{key} {count:,}" for key, count in counts.items() if count)
        return f"<EditResult{edit}: {told or 'nothing changed'}>"


def checked_result(result: object, edit: Callable[..., object]) -> EditResult:
    """RESULT, which EDIT has returned. Raises UsageError: it is none."""
    if isinstance(result, EditResult):
        return result
    name = getattr(edit, "__name__", "the edit")
    raise UsageError(
        f"the edit {quoted(name)} returned {type(result).__name__}: an edit returns an EditResult, as gds.rename does",
        code="bad-type",
        facts={"function": name, "expected": "EditResult", "found": type(result).__name__},
    )
