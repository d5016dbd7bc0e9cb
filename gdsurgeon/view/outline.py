"""A model as scopes and blocks: its graph, and the bodies of its functions, which open like scopes."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from functools import reduce
from operator import or_

from gdsurgeon.analysis.traversal.order import depth_first
from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.view.content import Content, content_of
from gdsurgeon.view.scopes import (
    Kinds,
    Scope,
    dissolve_cycles,
    group_by_cuts,
    group_by_names,
    scope_tree,
    set_kinds,
    set_sizes,
)


class Outline:
    """The scopes of one graph, or of the body of a function.

    Attributes:
        content: its nodes.
        root: the outermost scope.
        reached: the functions with parameters that it calls, directly or indirectly: one bit for each.
        scope_of: for each node its innermost scope.
        place: for each node its place in the order.
    """

    def __init__(self, content: Content, root: Scope) -> None:
        self.content = content
        self.root = root
        self.reached = 0
        self.scope_of = [root] * len(content)
        for scope in root.walk():
            for row in scope.rows:
                self.scope_of[row] = scope
        self.place = content.places()


class Outlines:
    """The outlines of a graph and of the functions that it calls.

    Args:
        graph: the graph, which is not changed.
        content: the content to show.
        together: whether gradients are shown next to their forward nodes; see `next_to_forward`.

    Attributes:
        main: the outline of the graph.
        faults: the reason why the body of a function cannot be shown, by its name.
    """

    def __init__(self, graph: Graph, content: Content, *, together: bool = False) -> None:
        self._graph = graph
        self._together = together
        self._bodies: dict[str, Outline] = {}
        self._parameters: list[int] = []  # that functions hold themselves, by the bit of the function
        self._held = {0: 0}  # that the functions of a set hold
        self._kinds = Kinds(self._kind_of_function)
        self.faults: dict[str, str] = {}
        self._read_functions(content)
        self.main = self._outline(content)

    def body(self, name: str) -> Outline | None:
        """Returns the outline of a function; None if it cannot be read, or while it is read."""
        return self._bodies.get(name)

    def bodies(self) -> list[Outline]:
        """Returns the outlines of all functions that are called and can be shown, sorted by name."""
        return [self._bodies[name] for name in sorted(self._bodies)]

    def _read_functions(self, main: Content) -> None:
        """Makes the outlines of all functions that `main` reaches, each after the functions that it calls."""
        contents: dict[str, Content] = {}
        callees: dict[str, list[str]] = {}
        pending = self._callees(main)
        for name in pending:  # grows while it is walked
            if name not in callees:
                callees[name] = []
                try:
                    contents[name] = content_of(Body(self._graph, name, {}, lenient=True).graph, name)
                except GdsurgeonError as error:
                    self.faults[name] = str(error)
                else:
                    callees[name] = self._callees(contents[name])
                    pending += callees[name]
        names = list(callees)
        number = {name: place for place, name in enumerate(names)}
        for place in depth_first(range(len(names)), len(names), lambda n: [number[c] for c in callees[names[n]]]):
            if names[place] in contents:
                self._bodies[names[place]] = self._outline(contents.pop(names[place]))

    @staticmethod
    def _callees(content: Content) -> list[str]:
        return list(dict.fromkeys(name for calls in content.calls for name in calls))

    def _kind_of_function(self, name: str) -> Hashable:
        body = self.body(name)
        return name if body is None else body.root.kind

    def _outline(self, content: Content) -> Outline:
        root = scope_tree(next_to_forward(content.names) if self._together else content.names)
        group_by_names(root, content)
        set_sizes(root)
        group_by_cuts(root, content, self._kinds)
        dissolve_cycles(root, content)
        set_sizes(root)
        set_kinds(root, content, self._kinds)
        outline = Outline(content, root)
        self._set_totals(outline)
        set_outputs(outline)
        return outline

    def _set_totals(self, outline: Outline) -> None:
        """Sets the totals of each scope, including functions; the parameters of a function count once per scope."""
        content = outline.content
        place = outline.place
        reached: dict[int, int] = {}
        own: dict[int, int] = {}
        called: dict[int, int] = {}  # by row: the functions that the node reaches
        for row, calls in enumerate(content.calls):
            bodies = [body for name in calls if (body := self.body(name)) is not None]
            content.flops[row] += sum(body.root.flops for body in bodies)
            for body in bodies:
                called[row] = called.get(row, 0) | body.reached
        for scope in outline.root.inside_out():
            parts = [reached.pop(id(child)) for child in scope.scopes]
            parts += [called[row] for row in scope.rows if row in called]
            found = reached[id(scope)] = self._union(parts)
            own[id(scope)] = sum(content.parameters[row] for row in scope.rows)
            own[id(scope)] += sum(own.pop(id(child)) for child in scope.scopes)
            scope.parameters = own[id(scope)] + self._held[found]
            scope.flops = sum(content.flops[row] for row in scope.rows) + sum(c.flops for c in scope.scopes)
            scope.faults = sum(row in content.faults for row in scope.rows) + sum(c.faults for c in scope.scopes)
            scope.drawn = sum(not content.is_weight[row] for row in scope.rows) + sum(c.drawn for c in scope.scopes)
            shown = [place[row] for row in scope.rows if not content.is_weight[row]]
            shown += [child.first for child in scope.scopes if child.drawn]
            scope.first = min(shown or [place[row] for row in scope.rows] + [c.first for c in scope.scopes], default=0)
            scope.rows.sort(key=place.__getitem__)
            scope.scopes.sort(key=lambda child: child.first)
        outline.reached = reached[id(outline.root)]
        if held := sum(content.parameters):
            self._parameters.append(held)
            outline.reached = self._union([outline.reached, 1 << len(self._parameters) - 1])

    def _union(self, sets: Sequence[int]) -> int:
        """Returns the union of sets of functions; its parameters are in `_held`. A chain of calls takes one step."""
        most = max(sets, key=lambda bits: self._held.get(bits, 0), default=0)
        out = reduce(or_, sets, 0)
        if out not in self._held:
            held, more = self._held.get(most, 0), out & ~most if most in self._held else out
            while more:
                held += self._parameters[(more & -more).bit_length() - 1]
                more &= more - 1
            self._held[out] = held
        return out


def set_outputs(outline: Outline) -> None:
    """Sets the output of each scope: its last tensor that outside nodes read, or that has no consumers."""
    content = outline.content
    depth: dict[Scope | None, int] = {None: -1}
    for scope in outline.root.walk():
        depth[scope] = depth[scope.parent] + 1
    readers = content.readers()
    for row in content.order:
        if content.is_weight[row] or not content.outputs[row]:
            continue
        shared = [_common(outline, row, reader, depth) for reader in readers[row]]
        around = min(shared, key=depth.__getitem__, default=None)
        inner: Scope | None = outline.scope_of[row]
        while inner is not None and inner is not around:
            inner.output = content.outputs[row][0]
            inner = inner.parent


def _common(outline: Outline, row: int, reader: int, depth: Mapping[Scope | None, int]) -> Scope:
    """Returns the innermost scope that contains both nodes."""
    a, b = outline.scope_of[row], outline.scope_of[reader]
    while a is not b:
        if depth[a] < depth[b]:
            a, b = b, a
        assert a.parent is not None
        a = a.parent
    return a


_SCOPE = re.compile(r"gradients(_[0-9]+)?|gradient_tape")
"""The scopes of gradients of TensorFlow and of this program."""


def next_to_forward(names: Sequence[str]) -> list[str]:
    """Returns the places of nodes: ``net/conv/Relu_grad/ReluGrad`` for ``gradients/net/conv/Relu_grad/ReluGrad``.

    Nodes without a counterpart among the forward nodes are not moved.
    """
    parts = [name.split("/") for name in names]
    begins = [next((i for i, part in enumerate(found[:-1], 1) if _SCOPE.fullmatch(part)), 0) for found in parts]
    forward = {name for name, begin in zip(names, begins, strict=True) if not begin}
    forward |= {"/".join(found[:1]) for found, begin in zip(parts, begins, strict=True) if not begin}
    out = list(names)
    for row, (found, begin) in enumerate(zip(parts, begins, strict=True)):
        if begin and found[begin].removesuffix("_grad") in forward:
            out[row] = "/".join(found[begin:])
    return out
