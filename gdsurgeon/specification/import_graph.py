"""import: the other graph is added, in its scope and connected as requested; the present nodes are unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.container.surroundings import Surroundings
from gdsurgeon.errors import quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import is_numbered
from gdsurgeon.specification.change_signatures import expect_tensor
from gdsurgeon.specification.joining import ImportedGraph, in_scope
from gdsurgeon.specification.surroundings import Expected


def violations(
    comparison: Comparison,
    other: Graph,
    scope: str = "",
    connect: Sequence[tuple[str, str]] = (),
    *,
    part: Graph | None = None,
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`. `part`: `other` with constants for its variables."""
    other = part or other
    if other.pristine() is comparison.before:
        other = comparison.before
    replaced = {placeholder.removesuffix(":0"): tensor.removesuffix(":0") for tensor, placeholder in connect}
    yield from ImportedGraph(comparison, other, replaced, in_scope(other, scope)).violations(Intent())


def around(
    expected: Expected,
    found: Surroundings,
    other: Graph,
    scope: str = "",
    connect: Sequence[tuple[str, str]] = (),
) -> Iterator[str]:
    """Adds the signatures of `other`; see `gdsurgeon.specification.surroundings.wrong_surroundings`.

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
                    there = str(found.get((*place, "tensor"))).partition(":")[0]
                    is_renamed = not scope.strip("/") and node in expected.graph and is_numbered(there, node)
                    expect_tensor(
                        expected, place, there if is_renamed else f"{scope.strip('/')}/{node}".strip("/"), index
                    )
        for given in [p for p in found if p[:3] == ("signature", new, "input") and p[-1] == "tensor"]:
            if given not in expected.values and connected and given[3] in expected.graph:
                expect_tensor(expected, given[:4], given[3], "")  # an input of the model, upstream of a connection
