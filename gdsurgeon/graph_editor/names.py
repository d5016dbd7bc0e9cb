"""Names of scopes, placeholders and tensors, and what they name."""

from __future__ import annotations

from typing import Any

from gdsurgeon.errors import quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph_editor.lists import transform_tree
from gdsurgeon.graph_editor.refusal import Refusal, WrongType, refusals

PLACEHOLDER_PREFIX = "geph"
"""How the names of placeholders begin that are made here: graph editor placeholder."""


def scope_finalize(scope: str) -> str:
    """SCOPE with a slash at its end; '' stays what it is."""
    return scope + "/" if scope and not scope.endswith("/") else scope


def scope_dirname(scope: str) -> str:
    """What comes before the last part of a name, with its slash: ``foo/bar/`` of ``foo/bar/op``."""
    return scope[: scope.rfind("/") + 1]


def scope_basename(scope: str) -> str:
    """The last part of a name: ``op`` of ``foo/bar/op``."""
    return scope[scope.rfind("/") + 1 :]


def tensor_name(tensor: Output) -> str:
    """``node:index``, also for output 0: the form that the regular expressions of tensors are searched in."""
    return f"{tensor.node.name}:{tensor.index}"


def placeholder_name(t: Output | None = None, scope: str | None = None, prefix: str = PLACEHOLDER_PREFIX) -> str:
    """The name of a placeholder that stands for the tensor T: ``foo/geph__b_0`` for output 0 of ``foo/b``.

    Args:
        t: the tensor; None for a placeholder that stands for none.
        scope: the new scope; None keeps the scope of T, '' is the root.
        prefix: how its last part begins; a name that begins so already is kept.

    Raises:
        TypeError: T is no tensor.
    """
    if t is None:
        return scope_finalize(scope or "") + prefix
    if not isinstance(t, Output):
        raise WrongType("Output", t)
    base = scope_basename(t.node.name)
    if not base.startswith(prefix + "__"):
        base = f"{prefix}__{base}_{t.index}"
    return (scope_dirname(t.node.name) if scope is None else scope_finalize(scope)) + base


def lookup(graph: Graph, name: str) -> Node | Output:
    """Returns the node `name`, or if there is no such node, the tensor of that name (``node:0``).

    Raises:
        ValueError: there is neither, or NAME is the name of neither.
    """
    node = graph.find(name)
    if node is not None:
        return node
    if name.startswith("^"):
        message = f"{quoted(name)} is a control input, which is neither a node nor a tensor"
        raise Refusal(message, code="bad-tensor-name", facts={"tensor": name})
    with refusals():
        return graph.tensor(name) if ":" in name else graph[name]


def find_corresponding_elem(target: Node | Output, dst_graph: Graph, dst_scope: str = "", src_scope: str = "") -> Any:
    """The node or tensor of DST_GRAPH that has the name of TARGET, below DST_SCOPE instead of below SRC_SCOPE.

    Raises:
        TypeError: TARGET is neither.
        ValueError: it is not under SRC_SCOPE, or DST_GRAPH has none of that name.
    """
    if not isinstance(target, (Node, Output)):
        raise WrongType("Node or Output", target)
    node = target if isinstance(target, Node) else target.node
    name = moved_name(node.name, src_scope, dst_scope)
    return lookup(dst_graph, name if isinstance(target, Node) else f"{name}:{target.index}")


def find_corresponding(targets: Any, dst_graph: Graph, dst_scope: str = "", src_scope: str = "") -> Any:
    """`find_corresponding_elem` of each leaf of a tree."""
    return transform_tree(targets, lambda target: find_corresponding_elem(target, dst_graph, dst_scope, src_scope))


def moved_name(name: str, src_scope: str, dst_scope: str) -> str:
    """NAME below DST_SCOPE instead of below SRC_SCOPE; the node that is named exactly like a scope moves with it.

    Raises:
        ValueError: it is not under SRC_SCOPE.
    """
    before, after = scope_finalize(src_scope), scope_finalize(dst_scope)
    if name.startswith(before):
        return after + name[len(before) :]
    if name == before[:-1] and after:
        return after[:-1]
    scope = before[:-1]
    raise Refusal(f"{quoted(name)} is not in the scope {quoted(scope)}", code="outside-scope",
                  facts={"node": name, "scope": scope})  # fmt: skip
