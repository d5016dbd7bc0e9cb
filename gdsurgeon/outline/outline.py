"""A model as scopes and blocks: its graph, and the bodies of its functions, which open like scopes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.outline.content import Content, content_of
from gdsurgeon.outline.cuts import group_by_cuts
from gdsurgeon.outline.gradients import beside
from gdsurgeon.outline.groups import dissolve_cycles, group_by_names
from gdsurgeon.outline.kinds import Kinds, set_kinds
from gdsurgeon.outline.scopes import Scope, scope_of_rows, scope_tree, set_sizes


class Outline:
    """The scopes of one graph, or of the body of a function.

    Attributes:
        content: its nodes.
        root: the scope that holds all of them.
        functions: the functions that it calls, those that they call included.
        parameters: what its own nodes hold that training may have set.
        scope_of: for each node the innermost scope that it lies in.
        readers: for each node those that read it.
        place: for each node where it stands in the order.
    """

    def __init__(self, content: Content, root: Scope, functions: frozenset[str]) -> None:
        self.content = content
        self.root = root
        self.functions = functions
        self.parameters = sum(content.parameters)
        self.scope_of = scope_of_rows(root, len(content))
        self.readers = content.readers()
        self.place = content.places()


class Outlines:
    """The outlines of a graph and of the functions that it calls.

    Args:
        graph: whose functions are meant; left as it is.
        content: what is seen of it.
        beside: have gradients lie beside what they are of; see `gradients.beside`.

    Attributes:
        main: the outline of the graph.
        faults: why the body of a function cannot be shown, by its name.
    """

    def __init__(self, graph: Graph, content: Content, *, beside: bool = False) -> None:
        self._graph = graph
        self._beside = beside
        self._bodies: dict[str, Outline | None] = {}
        self._kinds = Kinds(self._kind_of_function)
        self.faults: dict[str, str] = {}
        self.main = self._outline(content)

    def body(self, name: str) -> Outline | None:
        """The outline of the function NAME; None where it cannot be read, or is being read as it calls itself."""
        if name not in self._bodies:
            self._bodies[name] = None
            try:
                content = content_of(Body(self._graph, name, {}, lenient=True).graph, name)
            except GdsurgeonError as error:
                self.faults[name] = str(error)
            else:
                self._bodies[name] = self._outline(content)
        return self._bodies[name]

    def bodies(self) -> list[Outline]:
        """The outlines of all functions that are called and can be shown, in the order of their names."""
        return [found for name in sorted(self.main.functions) if (found := self.body(name)) is not None]

    def _kind_of_function(self, name: str) -> Hashable:
        body = self.body(name)
        return name if body is None else body.root.kind

    def _outline(self, content: Content) -> Outline:
        root = scope_tree(beside(content.names) if self._beside else content.names)
        group_by_names(root, content)
        set_sizes(root)
        group_by_cuts(root, content, self._kinds)
        dissolve_cycles(root, content)
        set_sizes(root)
        set_kinds(root, content, self._kinds)
        functions = [self._reached(calls) for calls in content.calls]
        for row, calls in enumerate(content.calls):
            content.flops[row] += sum(body.root.flops for name in calls if (body := self.body(name)) is not None)
        outline = Outline(content, root, frozenset().union(*functions))
        self._set_totals(outline, functions)
        set_outputs(outline)
        return outline

    def _reached(self, calls: Iterable[str]) -> frozenset[str]:
        """The functions CALLS, and those that they call."""
        bodies = [body for name in calls if (body := self.body(name)) is not None]
        return frozenset(calls).union(*(body.functions for body in bodies))

    def _set_totals(self, outline: Outline, functions: Sequence[frozenset[str]]) -> None:
        """Sets how much there is in each scope; FUNCTIONS are those that each node reaches, and count once a scope."""
        content = outline.content
        place = outline.place
        reached: dict[int, frozenset[str]] = {}
        own: dict[int, int] = {}
        for scope in outline.root.inside_out():
            inner = [reached.pop(id(child)) for child in scope.scopes]
            names = reached[id(scope)] = frozenset().union(*inner, *(functions[row] for row in scope.rows))
            own[id(scope)] = sum(content.parameters[row] for row in scope.rows)
            own[id(scope)] += sum(own.pop(id(child)) for child in scope.scopes)
            bodies = [body for name in names if (body := self.body(name)) is not None]
            scope.parameters = own[id(scope)] + sum(body.parameters for body in bodies)
            scope.flops = sum(content.flops[row] for row in scope.rows) + sum(c.flops for c in scope.scopes)
            scope.faults = sum(row in content.faults for row in scope.rows) + sum(c.faults for c in scope.scopes)
            scope.drawn = sum(not content.is_weight[row] for row in scope.rows) + sum(c.drawn for c in scope.scopes)
            shown = [place[row] for row in scope.rows if not content.is_weight[row]]
            shown += [child.first for child in scope.scopes if child.drawn]
            scope.first = min(shown or [place[row] for row in scope.rows] + [c.first for c in scope.scopes], default=0)
            scope.rows.sort(key=place.__getitem__)
            scope.scopes.sort(key=lambda child: child.first)


def set_outputs(outline: Outline) -> None:
    """Sets what each scope gives: the last of the tensors in it that are read outside, or by nobody."""
    content = outline.content
    depth: dict[Scope | None, int] = {None: -1}
    for scope in outline.root.walk():
        depth[scope] = depth[scope.parent] + 1
    for row in content.order:
        if content.is_weight[row] or not content.outputs[row]:
            continue
        shared = [_common(outline, row, reader, depth) for reader in outline.readers[row]]
        around = min(shared, key=depth.__getitem__, default=None)
        inner: Scope | None = outline.scope_of[row]
        while inner is not None and inner is not around:
            inner.output = content.outputs[row][0]
            inner = inner.parent


def _common(outline: Outline, row: int, reader: int, depth: Mapping[Scope | None, int]) -> Scope:
    """The innermost scope that holds both nodes."""
    a, b = outline.scope_of[row], outline.scope_of[reader]
    while a is not b:
        if depth[a] < depth[b]:
            a, b = b, a
        assert a.parent is not None
        a = a.parent
    return a
