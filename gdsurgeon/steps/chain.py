"""A sequence of steps: each makes its nodes, and errors name the step."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.edits.functions import make_function, name_function
from gdsurgeon.errors import EditError
from gdsurgeon.graph.graph import graph_of
from gdsurgeon.graph.node import Output
from gdsurgeon.steps.book import Written, called
from gdsurgeon.steps.builder import Builder, empty_graph
from gdsurgeon.steps.step import Raw
from gdsurgeon.steps.value import Unfit, Value, in_batch

_NOT_EMPTY = frozenset(("images", "resizing", "sounds"))
"""The families of steps with kernels that refuse a tensor without elements."""


class Chain:
    """Steps as a user has written them, for one side of a model, or (`side` is '') amidst it.

    Raises:
        EditError: a step does not belong there.
    """

    def __init__(self, steps: Sequence[Written], side: str = "") -> None:
        self.steps = steps
        for place, written in enumerate(steps):
            if side and side not in written.step.sides:
                raise EditError(
                    f"{self.name(place)}: this step is for use {written.step.sides[0]} a model, not {side} a model"
                )

    def name(self, place: int) -> str:
        """What the step at PLACE is called in a message: with its place where there are several of the name."""
        return called([written.step.name for written in self.steps], place)

    def raw(self, wanted: Raw) -> Raw:
        """What comes in where WANTED is to come out. Raises EditError: that does not follow."""
        problem: EditError | None = None
        for place in range(len(self.steps) - 1, -1, -1):
            written = self.steps[place]
            try:
                before = written.step.takes(wanted, written.arguments)
            except Unfit as error:
                problem = EditError(f"{self.name(place)}: {error}", advice="say-raw")
                wanted = wanted._replace(shape=None)
                continue
            if before.dtype != wanted.dtype:  # it decodes, whatever is made of that
                problem = None
            wanted = before
        if problem is not None:
            raise problem
        return wanted

    def apply(self, build: Builder, value: Value) -> Value:
        """The value behind all steps. Raises EditError: one of them cannot be meant."""
        for place in range(len(self.steps)):
            value = self._step(build, value, place)
        return value

    def apply_to_batch(self, build: Builder, value: Value) -> Value:
        """The same of each item of the vector VALUE: one function makes of an item what it makes of one alone.

        It takes no longer than to have the later steps, which could, work on the batch as a whole.

        Raises:
            EditError: one cannot be meant, or what comes of an item may have any shape.
        """
        inner = Builder(empty_graph(), "")
        item = inner.node("Placeholder", (), {"dtype": value.dtype, "shape": ()}, "item").output
        made = self.apply(inner, value.but(tensor=item, shape=()))
        if not made.is_static:
            last = self.name(len(self.steps) - 1)
            told = f"{last}: all items of a batch need the same shape, but it returns {made.told}"
            raise EditError(told, advice="one-size")
        return _mapped(build, value, item, made)

    def _step(self, build: Builder, value: Value, place: int) -> Value:
        step, arguments = self.steps[place]
        build.step = step.name
        try:
            if step.family in _NOT_EMPTY and 0 in (value.shape or ()):
                raise Unfit(f"{value.told} has no elements")
            return step.apply(build, value, **arguments)
        except Unfit as error:
            raise EditError(f"{self.name(place)}: {error}", code="step-unfit", step=step.name) from None
        finally:
            build.step = ""


def _mapped(build: Builder, batch: Value, item: Output, made: Value) -> Value:
    """What is MADE of one ITEM, of each item of the vector BATCH: a function, and a node that calls it for each."""
    nodes = [node for node in graph_of(item).nodes() if node is not item.node]
    size = batch.shape[0] if batch.shape else -1
    every = [made, *(result.value for result in made.results.values())]
    function = make_function(nodes, [item], [value.tensor for value in every], attrs={})
    name_function(function, build.scope)
    build.graph.functions.add(function)
    called = {
        "Targuments": [batch.tensor.dtype],
        "Tcaptured": [],
        "output_types": [value.dtype for value in every],
        "output_shapes": [value.shape for value in every],
        "f": function.signature.name,
    }
    whole = [
        value.but(tensor=tensor, shape=(size, *(value.shape or ())), layout=in_batch(value.layout), beside={})
        for value, tensor in zip(every, build.node("MapDefun", [batch.tensor], called).outputs, strict=True)
    ]
    results = {
        what: result._replace(value=value)
        for (what, result), value in zip(made.results.items(), whole[1:], strict=True)
    }
    return whole[0].but(results=results)
