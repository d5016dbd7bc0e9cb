"""import: the other graph is there, in its scope and connected as asked; what was there is as it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.container.surroundings import Place, Surroundings, Tensor
from gdsurgeon.errors import quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import is_numbered
from gdsurgeon.specification.joining import Joined, in_scope
from gdsurgeon.specification.surroundings import Expected


def violations(
    comparison: Comparison,
    other: Graph,
    scope: str = "",
    connect: Sequence[tuple[str, str]] = (),
    *,
    part: Graph | None = None,
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`. PART: OTHER, or what it is with constants for its variables."""
    other = part or other
    if other.pristine() is comparison.before:
        other = comparison.before
    stands = {placeholder.removesuffix(":0"): tensor.removesuffix(":0") for tensor, placeholder in connect}
    yield from Joined(comparison, other, stands, in_scope(other, scope)).violations(Intent())


def around(
    expected: Expected,
    found: Surroundings,
    other: Graph,
    scope: str = "",
    connect: Sequence[tuple[str, str]] = (),
) -> Iterator[str]:
    """Has EXPECTED have the signatures of OTHER; see `gdsurgeon.specification.surroundings.wrong_surroundings`.

    A signature without outputs, or with a tensor that is not dense, is left out.
    """
    connected = {placeholder.partition(":")[0] for _, placeholder in connect}
    own = {place[1] for place in expected.values if place[0] == "signature"}
    made = {place[1] for place in found if place[0] == "signature"} - own
    served = other.serving.called if other.serving is not None else {}
    for key, signature in served.items():
        wanted = f"{scope.strip('/').replace('/', '_')}_{key}" if scope.strip("/") else key
        new = wanted if wanted in made else next((k for k in made if wanted in own and is_numbered(k, wanted)), None)
        if new is None:
            is_dense = not any("/" in name for name in (*signature.inputs, *signature.outputs))
            if is_dense and any(text.partition(":")[0] not in connected for text in signature.outputs.values()):
                yield f"the signature {quoted(key)} of the imported model is missing"
            continue
        expected.values["signature", new, "method"] = signature.method
        for side, tensors in (("input", signature.inputs), ("output", signature.outputs)):
            for name, text in tensors.items():
                node, _, index = text.partition(":")
                place = ("signature", new, side, name)
                if node not in connected:
                    there = _node(found.get((*place, "tensor")))
                    is_renamed = not scope.strip("/") and node in expected.graph and is_numbered(there, node)
                    _expect(expected, place, there if is_renamed else f"{scope.strip('/')}/{node}".strip("/"), index)
        for given in [p for p in found if p[:3] == ("signature", new, "input") and p[-1] == "tensor"]:
            if given not in expected.values and connected and given[3] in expected.graph:
                _expect(expected, given[:4], given[3], "")  # an input of the model, before what is connected


def _expect(expected: Expected, place: Place, node: str, index: str) -> None:
    """Has EXPECTED have a tensor at PLACE, with the dtype and the shape that it has in the graph."""
    named = (*place, "tensor")
    expected.values[named] = Tensor(f"{node}:{index or 0}")
    expected.free.update(((*place, "dtype"), (*place, "shape")))


def _node(value: object) -> str:
    return str(value).partition(":")[0]
