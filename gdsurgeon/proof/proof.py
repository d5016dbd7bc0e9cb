"""The results of a proof as data: for the summary and the report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from gdsurgeon.errors import Json, Line, NotValidatedError, ValidationError, middle_cut, printable
from gdsurgeon.ops.dtypes import DTYPES, dtype_name
from gdsurgeon.text import and_more, counted
from gdsurgeon.values import EXACT, Data, Tolerance, widest

if TYPE_CHECKING:
    from gdsurgeon.graph.attrs import FullShape
    from gdsurgeon.runtime.compare import Comparison
    from gdsurgeon.runtime.tensor import Tensor


FED, ENCLOSED = "fed", "enclosed"
Skipped = list[tuple[str, str]]
"""Outputs that do not run, each with the reason."""


class DiffersError(ValidationError):
    """Two graphs return different values; `proof` contains the runs and the comparisons."""

    code = "differs"

    def __init__(self, message: str, proof: Proof, **more: Any) -> None:
        super().__init__(message, **more)
        self.proof = proof


def agrees(comparison: Comparison, tolerance: Tolerance) -> bool:
    """Returns whether two tensors agree within `tolerance`; `comparison` was made with its rtol and atol."""
    if comparison.equal or (comparison.close and (tolerance.rtol or tolerance.atol)):
        return True
    part = part_of_largest(comparison)
    return part is not None and bool(tolerance.of_largest) and part <= tolerance.of_largest


def part_of_largest(comparison: Comparison) -> float | None:
    """Returns the largest |a - b| divided by the largest |a| of the tensor, or of a channel if channels were compared.

    None if the elements are not floats, or only one of two is infinite.
    """
    if comparison.equal:
        return 0.0
    if comparison.needed is None or comparison.max_abs is None:
        return None
    if comparison.channel_part is not None:
        return comparison.channel_part
    if comparison.largest:
        return comparison.max_abs / comparison.largest
    return math.inf if comparison.max_abs else 0.0


@dataclass(eq=False, repr=False)
class OutputProof(Data):
    """An output of the edited graph.

    Attributes:
        before: its counterpart in the original graph, or the recorded value that it was compared with.
        after: its name in the edited graph.
        dtype, shape: of the returned value.
        value: a few elements as text; '' for large values.
        comparison: None if the output was run and not compared; then `reason` says why.
        inside: whether it is an inner tensor: an output was decided by it, or it is a site.
        site: whether the edit changed the computation there.
        moved: the largest difference from the original, if differences are only measured.
    """

    before: str
    after: str
    dtype: int
    shape: FullShape
    value: str = ""
    comparison: Comparison | None = None
    reason: str = ""
    inside: bool = False
    site: bool = False
    moved: Comparison | None = None

    def as_json(self) -> dict[str, Json]:
        """Returns the output for the report."""
        out: dict[str, Json] = {
            "original": self.before,
            "edited": self.after,
            "dtype": dtype_name(self.dtype),
            "shape": list(self.shape),
            "value": self.value or None,
            "compared": self.comparison is not None,
            "inner": self.inside,
        }
        if self.comparison is not None:
            c = self.comparison
            out |= {"equal": c.equal, "max_abs_difference": c.max_abs, "differing": c.differing, "elements": c.count}
            out["tolerance_needed"] = c.needed
            out |= {} if c.equal else {"of_largest": part_of_largest(c)}
        else:
            out["reason"] = self.reason
        if self.moved is not None:
            m = self.moved
            out["measured"] = {"max_abs_difference": m.max_abs, "differing": m.differing, "elements": m.count}
        return out


class Deployed(NamedTuple):
    """How two graphs compare after TensorFlow optimizes them (Grappler).

    Attributes:
        tolerance: as rtol and atol; or as a part of the largest element of each tensor.
        difference: the largest absolute difference; or such a part.
        compared: the number of compared tensors.
        why_not: why nothing was compared; '' otherwise.
        of_largest: whether tolerance and difference are parts of the largest element.
        is_exact: whether all tensors are bit-identical.
        is_both: whether the original was also optimized; otherwise it was run as written.
    """

    tolerance: float
    difference: float = 0.0
    compared: int = 0
    why_not: str = ""
    of_largest: bool = False
    is_exact: bool = True
    is_both: bool = True


class MemoryUse(NamedTuple):
    """The memory of a run of the edited graph, optimised by TensorFlow.

    Attributes:
        edited: the peak of the bytes that the run allocates.
        budget: the bytes that the run may allocate.
    """

    edited: int
    budget: int


@dataclass(eq=False, repr=False)
class Proof(Data):
    """The results of the execution of an edited graph.

    The first fields describe the graphs that ran and their feeds; the fields from `outputs` show how close the outputs
    are.

    Attributes:
        level: ``none``, ``structure``, ``load`` or ``run``; ``unchanged`` if the graph did not change.
        equations: the equations that were tested.
        parts: the names of added graphs that were compared with their copies.
        as_graphs: claims that follow from the comparison of the graphs because nothing could be compared by execution:
            the equation of each, and the reason.
        samples: the number of feeds.
        batches: the batch sizes of the samples.
        device: where the graphs ran; '' if nothing ran.
        runtime: the version of TensorFlow, and whether its process was not isolated.
        is_locked_in: whether its process was isolated.
        optimized: whether TensorFlow optimized the graphs.
        feeds: the feeds by name, as text.
        made: how the feeds were generated, and why, by name.
        random_nodes: the random ops that the outputs depend on, each with `FED` if it ran once and its value was fed to
            both graphs, `ENCLOSED` if it is in a loop or a function, or '' for others.
        skipped: (output, reason) for outputs that did not run.
        unproven: skipped outputs that access resources outside the graph, with the reason; the proof fails without
            them.
        warnings: one line each.
        seconds: the wall time of the proof.
        pieces: the proofs of several edits that were proven separately; this proof is their sum.
        served: the result of tf.saved_model.load, if a model with objects changed.
        released: the result in a different release, if it was requested.
        outputs: the outputs of the first different sample, otherwise of the first sample.
        judged: whether a difference is an error; otherwise differences are only measured.
        tolerance: by how much floats may differ.
        is_exact: whether all compared tensors are bit-identical.
        largest_difference: the largest absolute difference of all compared outputs and samples.
        largest_part: the largest difference as a part of the largest element of its tensor.
        needed: the least tolerance, as rtol and atol, with which all compared floats agree.
        non_empty: the outputs with compared elements in a sample.
        numeric: those of them with an element that is not NaN.
        onednn_difference: the largest difference with the kernels of oneDNN, if outputs are bit-identical only without.
        deployed: how the graphs compare after TensorFlow optimizes them, if an edit claims this.
        memory: the memory of the optimized gradients, if they have a budget.
    """

    level: str
    equations: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    as_graphs: dict[str, str] = field(default_factory=dict)
    samples: int = 0
    batches: list[int] = field(default_factory=list)
    device: str = ""
    runtime: str = ""
    is_locked_in: bool = True
    optimized: bool = False
    feeds: dict[str, str] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)
    random_nodes: dict[str, str] = field(default_factory=dict)
    skipped: Skipped = field(default_factory=list)
    unproven: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    seconds: float = 0.0
    pieces: list[Piece] = field(default_factory=list)
    served: str = ""
    released: str = ""
    outputs: list[OutputProof] = field(default_factory=list)
    judged: bool = True
    tolerance: Tolerance = EXACT
    is_exact: bool = True
    largest_difference: float = 0.0
    largest_part: float = 0.0
    needed: float = 0.0
    non_empty: set[str] = field(default_factory=set)
    numeric: set[str] = field(default_factory=set)
    onednn_difference: float = 0.0
    deployed: Deployed | None = None
    memory: MemoryUse | None = None

    @property
    def compared(self) -> list[OutputProof]:
        """The outputs that were compared."""
        return [output for output in self.outputs if output.comparison is not None]

    def note(self, outputs: Iterable[OutputProof]) -> None:
        """Records the largest difference of a sample, and the outputs with elements."""
        for output in outputs:
            found = output.comparison
            if found is not None:
                self.largest_difference = max(self.largest_difference, found.max_abs or 0.0)
                self.needed = max(self.needed, found.needed or 0.0)
                self.is_exact &= found.equal
                self.largest_part = max(self.largest_part, part_of_largest(found) or 0.0)
                if found.count:
                    self.non_empty.add(output.after)
                    if not found.nan:
                        self.numeric.add(output.after)

    def __repr__(self) -> str:
        told = f": {middle_cut(self.statement, 200)}" if self.level == "run" else ""
        return f"<Proof {self.level}{told}>"

    @property
    def statement(self) -> str:
        """The equations as one line."""
        if not self.pieces:
            return ", ".join(self.claims)
        return "; ".join(f"{piece.called}: {piece.shown}" for piece in self.pieces)

    @property
    def claims(self) -> list[str]:
        """The equations; for several proofs see `pieces`."""
        return equations_of(self.equations, self.parts)

    @property
    def where(self) -> str:
        """The device, and that the process was not isolated if this is so."""
        return self.device if self.is_locked_in else f"{self.device}, without a sandbox"

    def check_whole(self) -> None:
        """Raises NotValidatedError if outputs did not run because they access resources outside the graph."""
        if self.unproven:
            name, reason = next(iter(self.unproven.items()))
            count = counted(len(self.unproven), "output")
            line = Line("{count} cannot be run: {name}: {reason}", count=count, name=printable(name), reason=reason)
            outputs = list(self.unproven)
            raise NotValidatedError(line, code="reaches-outside", advice="do-without-running", output=outputs)

    def as_json(self) -> dict[str, Json]:
        """Returns the proof for the report."""
        rtol, atol, of_largest = self.tolerance
        if_any: dict[str, Json] = {
            "onednn_difference": self.onednn_difference,
            "grappler": self.deployed and self.deployed._asdict(),
            "tolerance_of_largest": of_largest,
            "by_comparison": {**self.as_graphs},
            "loader": self.served,
            "run_in": self.released,
            "pieces": [piece.as_json() for piece in self.pieces],
        }
        return {
            "level": self.level,
            "statement": self.statement or None,
            "optimized": self.optimized,
            "samples": self.samples,
            "batches": self.batches,
            "device": self.device or None,
            "runtime": self.runtime or None,
            "feeds": self.feeds,
            "feed_origins": self.made,
            "random": [*self.random_nodes],
            "outputs": [output.as_json() for output in self.outputs],
            "compared": sum(not output.inside for output in self.compared),
            "largest_difference": self.largest_difference if self.compared else None,
            "judged": self.judged,
            "tolerance": {"rtol": rtol, "atol": atol} if rtol or atol else None,
            "memory": self.memory and self.memory._asdict(),
            "skipped": [{"output": name, "reason": reason} for name, reason in self.skipped],
            "seconds": round(self.seconds, 3),
            **{key: value for key, value in if_any.items() if value},
        }


class Piece(NamedTuple):
    """The proof of some of several edits, which messages call `called`."""

    called: str
    proof: Proof

    @property
    def shown(self) -> str:
        """The result of the execution, without numbers."""
        is_compared = self.proof.compared and self.proof.judged
        return self.proof.statement if is_compared else "it runs, values not judged"

    def as_json(self) -> dict[str, Json]:
        """Returns the proof for the report; feeds and values are in the report of the whole."""
        told = self.proof.as_json()
        kept = ("judged", "compared", "samples", "batches", "largest_difference", "tolerance")
        return {"called": self.called, **{key: told[key] for key in kept}, "statement": self.shown}


def worse(found: Iterable[Deployed | None]) -> Deployed | None:
    """Returns the comparison that shows least."""
    return max(filter(None, found), key=lambda each: (bool(each.why_not), each.difference), default=None)


_MERGED: Mapping[str, Callable[[Iterable[Any]], object]] = {
    **dict.fromkeys(("samples", "largest_part", "onednn_difference"), max),
    **dict.fromkeys(
        ("skipped", "equations", "parts", "warnings"),
        lambda lists: list(dict.fromkeys(chain(*lists))),
    ),
    **dict.fromkeys(("non_empty", "numeric"), lambda sets: {*chain(*sets)}),
    **dict.fromkeys(
        ("feeds", "made", "random_nodes", "unproven", "as_graphs"),
        lambda mappings: dict(chain(*(mapping.items() for mapping in mappings))),
    ),
    "batches": lambda lists: sorted({*chain(*lists)}),
    "tolerance": widest,
    "is_exact": all,
    "deployed": worse,
}
"""How `merged` combines the values of a field of `Proof`."""


def merged(proofs: Sequence[Proof], *, apart: bool = False) -> Proof:
    """Returns several proofs as one; each output counts once for each tensor that it was compared with.

    With `apart`, the proofs belong to different edits: equal names are different outputs, and measured differences of
    one edit do not matter for the others.
    """
    out = replace(proofs[0])
    for name, combined in _MERGED.items():
        setattr(out, name, combined(getattr(proof, name) for proof in proofs))
    outputs: dict[tuple[int, str, str], OutputProof] = {}
    for number, proof in enumerate(proofs):
        for output in proof.outputs:
            known = outputs.setdefault((number if apart else 0, output.before, output.after), output)
            known.moved = output.moved or known.moved
    out.outputs = [*outputs.values()]
    out.judged = (any if apart else all)(proof.judged for proof in proofs)
    counted_proofs = [proof for proof in proofs if proof.judged] if apart and out.judged else proofs
    out.needed = max(proof.needed for proof in counted_proofs)
    out.largest_difference = max(proof.largest_difference for proof in counted_proofs)
    return out


def difference(comparison: Comparison, *, of_largest: bool = False) -> str:
    """Returns a difference in words, with the tolerance that would accept it: of the largest element, or of each."""
    if comparison.reason is not None:
        return comparison.reason
    text = f"{comparison.differing:,} of {comparison.count:,} elements differ{'s' * (comparison.differing == 1)}"
    if comparison.max_abs is not None:
        text += f", by up to {comparison.max_abs:.3g}"
    part = part_of_largest(comparison) if of_largest else None
    if part and math.isfinite(part):
        text += f" ({rounded_up(part)} of the largest element)"
    elif comparison.needed:
        text += f" (would pass with rtol and atol {rounded_up(comparison.needed)})"
    return text


def rounded_up(tolerance: float) -> str:
    """Returns a tolerance as text with three digits, rounded up, so that it is sufficient as an option."""
    from decimal import ROUND_CEILING, Context

    return f"{float(Context(prec=3, rounding=ROUND_CEILING).create_decimal_from_float(tolerance)):.3g}"


MOST_SHOWN_BYTES = 4096
MOST_ELEMENTS = 6


def shown_value(tensor: Tensor) -> str:
    """Returns the first few elements of a tensor as text."""
    from struct import unpack_from

    data = tensor.data
    if isinstance(data, list):
        items = [
            s.decode("utf-8", "backslashreplace") if len(s) < 40 else f"<{len(s)} bytes>" for s in data[:MOST_ELEMENTS]
        ]
    else:
        code = DTYPES[tensor.dtype].code
        if not code:
            return ""
        count = min(tensor.count, MOST_ELEMENTS)
        items = [f"{v:.6g}" if isinstance(v, float) else str(v) for v in unpack_from(f"<{count}{code}", data)]
    text = ", ".join(items) + (", ..." if tensor.count > MOST_ELEMENTS else "")
    return text if tensor.shape == () else f"[{text}]"


MOST_PARTS = 4
SAME, GIVEN = "edited(x) == original(x)", "edited(x) == original(x, "
"""The beginnings of equations of edits that change no value, and of edits that replace values."""


def equations_of(equations: Sequence[str], parts: Sequence[str]) -> list[str]:
    """Returns each equation once, without equations that a different one includes, and one for the added graphs."""
    are_given = any(equation.startswith(GIVEN) for equation in equations)
    found = [equation for equation in equations if equation and not (are_given and equation.startswith(SAME))]
    names = list(dict.fromkeys(parts))
    if len(names) == 1:
        found.append(f"{names[0]} in place == {names[0]} in isolation")
    elif names:
        shown = names[:MOST_PARTS]
        more = and_more(len(names) - MOST_PARTS) or f" and {shown.pop()}"
        found.append(f"{', '.join(shown)}{more} in place == each in isolation")
    return list(dict.fromkeys(found))
