"""The signatures and runs that serve a graph, with current names, after edits."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.serving import Restoring, Served, Serving


def serving_of(graph: Graph) -> Serving | None:
    """Returns how `graph` is served, by current names; None if it is not part of a model that declares this."""
    if graph.serving is None:
        return None  # avoids the index of a big file, which `Graph.derived` makes
    return graph.derived(_respelt)


def _respelt(graph: Graph) -> Serving | None:
    serving = graph.serving
    if serving is None or not graph.is_edited:
        return serving

    def tensors(named: Mapping[str, str]) -> dict[str, str]:
        return {key: now for key, text in named.items() if (now := tensor_now(graph, text)) is not None}

    def run(before: Restoring | None) -> Restoring | None:
        if before is None:
            return None
        feeds = {now: path for text, path in before.feeds.items() if (now := tensor_now(graph, text)) is not None}
        return Restoring(feeds, tuple(now for text in before.targets if (now := tensor_now(graph, text)) is not None))

    restoring, apart = serving.restoring, serving.apart
    if serving.saver is not None:
        restoring = Restoring({serving.saver.file_name: serving.checkpoint}, (serving.saver.restore,))
        apart = frozenset()
    return serving._replace(
        signatures={
            key: Served(_open(graph, tensors(served.inputs)), tensors(served.outputs), served.method)
            for key, served in serving.signatures.items()
        },
        restoring=run(restoring),
        initialising=run(serving.initialising),
        keys={now: key for text, key in serving.keys.items() if (now := tensor_now(graph, text)) is not None},
        apart=frozenset(now for text in apart if (now := tensor_now(graph, text)) is not None),
    )


def tensor_meant(graph: Graph, text: str) -> str:
    """Returns the tensor that `text` names as callers do; `text` itself if it names none, or is the name of a node.

    Callers write ``KEY/name``, or ``name`` for a signature that was selected; see `Serving.spellings`.
    """
    serving = serving_of(graph)
    found = serving.spellings.get(text) if serving is not None else None
    return text if found is None or text in graph else found


def node_of(meant: Callable[[str], str], text: str) -> str:
    """Returns `text`, or, if `meant` maps it to a tensor, the node of that tensor; a leading ``^`` is kept."""
    name = text.removeprefix("^")
    found = meant(name)
    return text if found == name else text[: len(text) - len(name)] + parse_tensor(found).node


def _open(graph: Graph, inputs: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the `inputs` that callers still feed: an edit may have replaced a placeholder by a constant.

    All components of an input that is not a dense tensor are kept.
    """
    nodes = {key: graph[parse_tensor(text).node] for key, text in inputs.items() if "/" not in key}
    frozen = [key for key, node in nodes.items() if node.op == "Const" and node.op_override is not None]
    return {key: text for key, text in inputs.items() if key not in frozen}


def tensor_now(graph: Graph, text: str) -> str | None:
    """Returns the present name of `text`, a node, a tensor or ``^node`` of the file; None if it was removed.

    The name follows the node to its new name. If an edit has put a different node under the old name, the name remains,
    because the model's signatures return that node instead.
    """
    control, name = text[:1] == "^", text.removeprefix("^")
    node, _, port = name.partition(":")
    now = node_now(graph, node)
    if now is None:
        return None
    return ("^" if control else "") + (f"{now}:{port}" if port else now)


def node_now(graph: Graph, name: str) -> str | None:
    """Returns the present name of the node `name` of the file; see `tensor_now`."""
    taken = graph.find(name)
    if taken is not None and taken.base_name is None:
        return name
    node = graph.base_node(name)
    return node.name if node in graph else None
