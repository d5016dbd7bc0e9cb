"""Strongly connected components: what lies on a common cycle."""

from __future__ import annotations

from collections.abc import Sequence


def components(successors: Sequence[Sequence[int]]) -> list[list[int]]:
    """Returns the strongly connected components; linear in nodes and edges (Tarjan, 1972), without recursion.

    Args:
        successors: for each node the nodes that its edges lead to.
    """
    count = len(successors)
    index, low = [-1] * count, [0] * count
    is_open = bytearray(count)
    path: list[int] = []
    out: list[list[int]] = []
    visited = 0
    for root in range(count):
        pending = [(root, 0)] if index[root] < 0 else []
        while pending:
            node, edge = pending.pop()
            if not edge:
                index[node] = low[node] = visited
                visited += 1
                path.append(node)
                is_open[node] = 1
            elif is_open[child := successors[node][edge - 1]]:
                low[node] = min(low[node], low[child])
            following = successors[node]
            while edge < len(following) and index[following[edge]] >= 0:
                if is_open[following[edge]]:
                    low[node] = min(low[node], index[following[edge]])
                edge += 1
            if edge < len(following):
                pending += ((node, edge + 1), (following[edge], 0))
            elif low[node] == index[node]:
                out.append(_ended(path, node, is_open))
    return out


def _ended(path: list[int], first: int, is_open: bytearray) -> list[int]:
    """Takes the component that begins with FIRST off the PATH."""
    out: list[int] = []
    while not out or out[-1] != first:
        out.append(path.pop())
        is_open[out[-1]] = 0
    return out
