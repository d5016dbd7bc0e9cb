"""Fixed input shapes: the values that follow from them can be folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdsurgeon.edits.claims import Claim, EditResult, SameGiven, SameOutputs, Stage, equation
from gdsurgeon.edits.replacing import unrenamed_outputs
from gdsurgeon.edits.set_shape import set_shape
from gdsurgeon.errors import EditError, quoted
from gdsurgeon.graph.attrs import Shape, format_shape
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import placeholder_shape
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.text import Entry


def fixed(graph: Graph, shapes: Sequence[tuple[str, Shape]]) -> Stage | None:
    """Fixes the shapes of inputs. Returns the stage, or None if the inputs already have these shapes.

    Raises:
        EditError: an input does not exist, does not accept the shape, or the graph does not fit.
    """
    new = []
    for name, shape in shapes:
        node = graph[name.removesuffix(":0")]
        old = placeholder_shape(node) if node.op in PLACEHOLDERS else None
        if old is not None and not _includes(old, shape):
            line = f"the shape {format_shape(shape)} does not fit {quoted(name)}, which accepts {format_shape(old)}"
            facts = {"node": name, "expected": old, "found": shape}
            raise EditError(line, code="wrong-shape", facts=facts, hint="set-shape changes the shapes of inputs")
        if node.op not in PLACEHOLDERS or old != shape:
            new.append((name, shape))
    if not new:
        return None
    before = graph.pristine()
    return Stage(before, set_shape(graph, new, batch_check=False))


def _includes(old: Sequence[int], shape: Shape) -> bool:
    return shape is not None and len(old) == len(shape) and all(a in (-1, b) for a, b in zip(old, shape, strict=True))


def after_fixing(stage: Stage, between: Graph, graph: Graph, later: EditResult) -> EditResult:
    """Combines the results of fixing shapes and of the later passes; `between` is the graph in between.

    The claims are about inputs with the fixed shapes.
    """
    intent = stage.result.intent.then(later.intent)
    shapes = [graph[name] for name in stage.result.intent.changed if graph.find(name) is not None]
    told = [
        Entry("fixed", f"{node.name} {format_shape(placeholder_shape(node))}")
        for node in shapes
        if node.op in PLACEHOLDERS
    ]
    return EditResult(
        intent,
        tuple(_narrowed(later.claims, graph, later)),
        [*stage.result.warnings, *later.warnings],
        [*stage.result.notes, *later.notes],
        [*told, *later.told],
        later.facts,
        stages=(stage, *(later.stages or (Stage(between, later),))),
    )


def _narrowed(claims: Sequence[Claim], graph: Graph, later: EditResult) -> Iterator[Claim]:
    for claim in claims:
        if isinstance(claim, SameOutputs):
            outputs = unrenamed_outputs(graph)
            sites = tuple((name, later.intent.counterpart(name)) for name in claim.also)
            pairs = tuple(dict.fromkeys((*outputs, *sites)))
            inside = tuple(name for name in claim.also if name not in {old for old, _ in outputs})
            yield SameGiven({}, pairs, equation(()), sites=inside, as_written=claim.as_written, deployed=claim.deployed)
        else:
            yield claim
