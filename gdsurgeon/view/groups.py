"""Groups of siblings that belong together by their names, where there are no scopes: ``conv2_block1_*``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from gdsurgeon.analysis.traversal.order import components
from gdsurgeon.view.content import Content
from gdsurgeon.view.scopes import Scope, rows_of

FEWEST = 12
"""Scopes and nodes side by side from which on groups are looked for."""

_NUMBER = re.compile("[a-z]*[0-9]+")
"""A token by which people and Keras number blocks; ``ToInt32`` and ``TensorArrayReadV3`` are ops."""

Item: TypeAlias = Scope | int
Trie: TypeAlias = dict[str, "Trie | list[Item]"]
_ITEMS = ""


def group_by_names(root: Scope, content: Content) -> None:
    """Puts siblings whose names share a beginning that ends in a number into groups, which may hold groups in turn.

    A group is convex: no path of the graph leaves it and comes back, so that it can be drawn as one node.
    """
    for scope in list(root.walk()):
        if len(scope.scopes) + len(scope.rows) >= FEWEST:
            _group(scope, content.names)
    dissolve_cycles(root, content)


def _group(scope: Scope, names: Sequence[str]) -> None:
    trie: Trie = {}
    for child in scope.scopes:
        _put(trie, child.name, child)
    for row in scope.rows:
        _put(trie, names[row].rpartition("/")[2], row)
    scope.scopes, scope.rows = [], []
    pending: list[tuple[Trie, str, Scope]] = [(trie, "", scope)]
    while pending:
        branch, begin, parent = pending.pop()
        for token, below in branch.items():
            if isinstance(below, list):
                for item in below:
                    _adopt(parent, item)
                continue
            name = f"{begin}_{token.strip()}" if begin else token
            is_group = len(below) > 1 and _NUMBER.fullmatch(token) is not None
            if is_group:
                group = Scope(f"{name}_*", parent, is_group=True)
                parent.scopes.append(group)
            pending.append((below, name, group if is_group else parent))


def _put(trie: Trie, name: str, item: Item) -> None:
    for token in name.split("_"):
        below = trie.setdefault(token or " ", {})
        assert isinstance(below, dict)
        trie = below
    items = trie.setdefault(_ITEMS, [])
    assert isinstance(items, list)
    items.append(item)


def _adopt(parent: Scope, item: Item) -> None:
    if isinstance(item, Scope):
        item.parent = parent
        parent.scopes.append(item)
    else:
        parent.rows.append(item)


def dissolve_cycles(root: Scope, content: Content) -> None:
    """Dissolves each group that a path of the graph leaves and enters again; its nodes go to its parent."""
    place = content.places()
    level = _outermost_groups([root])
    while level:
        wrong = _on_cycles(level, content, place)
        for group in wrong:
            _dissolve(group)
        if wrong:
            level = [group for group in level if group not in wrong] + _outermost_groups(wrong)
        else:
            level = _outermost_groups(level)


def _outermost_groups(scopes: Iterable[Scope]) -> list[Scope]:
    """The groups below SCOPES that lie in no other group below them."""
    out: list[Scope] = []
    pending = [child for scope in scopes for child in scope.scopes]
    while pending:
        scope = pending.pop()
        if scope.is_group:
            out.append(scope)
        else:
            pending.extend(scope.scopes)
    return out


def _on_cycles(groups: Sequence[Scope], content: Content, place: Sequence[int]) -> set[Scope]:
    """Those of GROUPS that lie on a cycle of the graph in which each of them is one node; loops are no cycles."""
    number_of = list(range(len(content)))
    for number, group in enumerate(groups, len(content)):
        for row in rows_of([group]):
            number_of[row] = number
    successors: list[list[int]] = [[] for _ in range(len(content) + len(groups))]
    for row, inputs in enumerate(content.inputs):
        reader = number_of[row]
        for producer in (*(source for source, _ in inputs), *content.controls[row]):
            source = number_of[producer]
            if source != reader and not content.is_weight[producer] and place[producer] < place[row]:
                successors[source].append(reader)
    found = (number for part in components(successors) if len(part) > 1 for number in part if number >= len(content))
    return {groups[number - len(content)] for number in found}


def _dissolve(group: Scope) -> None:
    parent = group.parent
    assert parent is not None
    parent.scopes.remove(group)
    for child in group.scopes:
        _adopt(parent, child)
    parent.rows += group.rows
