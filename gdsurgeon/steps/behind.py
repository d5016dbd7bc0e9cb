"""What stands behind a model when steps have given several results: which becomes an output, and what it is called."""

from __future__ import annotations

from gdsurgeon.analysis.shapes.inference import shape_of_tensor
from gdsurgeon.edits.add_postprocessing import RAW_SUFFIX, SUFFIX
from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import NAME_RULE, is_valid_name
from gdsurgeon.graph.node import Output
from gdsurgeon.steps.builder import Builder
from gdsurgeon.steps.known import known_of
from gdsurgeon.steps.raw import known_dtype, value_of
from gdsurgeon.steps.step import Raw
from gdsurgeon.steps.value import Unfit, Value
from gdsurgeon.text import an


class Behind:
    """Outputs of a model that steps process, and the results that replace them or are added.

    Args:
        model: left as it is.
        build: makes the graph behind it.
        source: the output that the steps stand behind.
        value: what takes it in that graph.
    """

    def __init__(self, model: Graph, build: Builder, source: Output, value: Value) -> None:
        self._model = model
        self._build = build
        self._name = source.node.name
        self._taken = {self._name: value}

    def other(self, tensor: Output) -> Value:
        """What takes TENSOR, another output of the model. Raises Unfit."""
        name = tensor.node.name
        if name == self._name:
            raise Unfit(f"{quoted(name)} is the output that the steps are added to")
        if name not in self._taken:
            dtype = known_dtype(tensor.dtype)
            if dtype is None or not dtype.kind or tensor.index or len(tensor.node.outputs) != 1:
                raise Unfit(f"{quoted(tensor.name)} is {an(tensor.node.op)}, which no step can process")
            raw = Raw(dtype, shape_of_tensor(self._model, tensor))
            placeholder = self._build.node("Placeholder", (), {"dtype": raw.dtype, "shape": raw.shape}, name)
            self._taken[name] = known_of(self._model, tensor, value_of(placeholder.output, raw))
        return self._taken[name]

    def take(self, value: Value) -> None:
        """Makes `value`, and its additional results, outputs.

        Raises:
            EditError: a name is taken, or no name of a node.
        """
        served: dict[str, Output] = {}
        own: dict[str, Output] = {}
        if value.name in ("", self._name):
            served[self._name] = value.tensor
        else:
            own[value.name] = value.tensor
        unique = self._model.unique_names()
        for what, result in value.results.items():
            if result.name is None:
                continue
            if result.place and result.name in ("", result.place):
                served[result.place] = result.value.tensor
                continue
            name = result.name or unique(f"{self._name}_{what}")
            if name in own:
                raise EditError(f"rename: two results would have the name {quoted(name)}")
            own[name] = result.value.tensor
        for name in own:
            self._check(name)
        for name, taken in self._taken.items():
            self._build.node("Identity", [served.get(name, taken.tensor)], {}, name + SUFFIX)
        for name, tensor in own.items():
            self._build.node("Identity", [tensor], {}, name)

    def _check(self, name: str) -> None:
        check_free("rename", name, self._model, self._build.graph)
        if name in {f"{n}{RAW_SUFFIX}" for n in self._taken}:
            raise EditError(f"rename: {printable(self._model.source_name)} already has {quoted(name)}")


def check_free(step: str, name: str, model: Graph, built: Graph) -> None:
    """Raises EditError where NAME, which STEP gives to an output, is no name of a node, or taken in MODEL or BUILT."""
    if not is_valid_name(name):
        raise EditError(f"{step}: {quoted(name)} is not a legal node name ({NAME_RULE})")
    if name in model or name in built:
        raise EditError(f"{step}: {printable(model.source_name)} already has {quoted(name)}")
