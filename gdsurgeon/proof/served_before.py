"""Calls that tf.saved_model.load refuses for the original model as well: they show nothing about an edit."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.analysis.shapes.stated import compatible, stated_shape
from gdsurgeon.errors import NotValidatedError, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.proof.served import LOADER, Folders, Loader
from gdsurgeon.proof.settings import Settings
from gdsurgeon.runtime.signatures import Served, SignatureCall


class RefusedBefore(NotValidatedError):
    """The original refuses the call as well."""


class ComparingLoader(Loader):
    """`Loader`, which makes a call that the edited model refuses of the original as well.

    Args:
        settings: how to run.
        folders: of the model.
        graph: the edited graph.
    """

    def __init__(self, settings: Settings, folders: Folders, graph: Graph) -> None:
        super().__init__(settings, folders)
        self._graph = graph

    def ask(self, folder: str, calls: Sequence[SignatureCall]) -> Served:
        """See `Loader.ask`. Raises RefusedBefore if both models refuse a call."""
        answers = super().ask(folder, calls)
        before = self._folders.before
        if answers.refused and before and folder == self._folders.after:
            call = calls[len(answers.outputs)]
            refused = super().ask(before, [call]).refused if _fits(self._graph.pristine(), call) else ""
            if refused:
                raise RefusedBefore(
                    f"for these inputs, {LOADER} does not run the signature {quoted(call.key)} of the original either: "
                    f"{printable(refused)}",
                    code="unfeedable",
                    facts={"signature": call.key},
                    advice="give-others",
                )
        return answers


def _fits(graph: Graph, call: SignatureCall) -> bool:
    """Returns whether a signature of GRAPH has the key, the names and the types of CALL."""
    served = graph.serving.signatures.get(call.key) if graph.serving is not None else None
    if served is None or served.inputs.keys() != call.inputs.keys():
        return False
    pairs = [(graph.tensor(text), call.inputs[name]) for name, text in served.inputs.items()]
    return all(
        base_dtype(tensor.dtype) == value.dtype and compatible(value.shape, stated_shape(tensor))
        for tensor, value in pairs
    )
