"""A selection of nodes, as public functions accept it; `gdsurgeon.select` resolves it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from gdsurgeon.arguments import fit_fields


@dataclass(frozen=True)
class Selection:
    """A selection of nodes: the union of all fields, minus the nodes that `exclude` matches.

    Attributes:
        nodes: names of nodes.
        regexes: regular expressions, searched in the names of nodes (not anchored).
        ops: op types.
        scopes: name scopes, taken literally, with or without a slash at the end; a node with exactly the name of a
            scope belongs to the scope.
        between: pairs (IN tensors, OUT tensors): the nodes on the paths from IN to OUT. The nodes of OUT are selected,
            the nodes of IN are not.
        forward: nodes or tensors: these nodes and all nodes that depend on them.
        backward: nodes or tensors: these nodes and all nodes that they depend on.
        exclude: regular expressions; nodes whose names match are not selected. If all other fields are empty, all other
            nodes are selected.
        control: whether `between`, `forward` and `backward` also follow control edges.
        constants: whether constants, and nodes computed only from constants, are selected with the nodes that read
            them, if no other node reads them.
    """

    nodes: Sequence[str] = ()
    regexes: Sequence[str] = ()
    ops: Sequence[str] = ()
    scopes: Sequence[str] = ()
    between: Sequence[tuple[Sequence[str], Sequence[str]]] = ()
    forward: Sequence[str] = ()
    backward: Sequence[str] = ()
    exclude: Sequence[str] = ()
    control: bool = False
    constants: bool = False

    def __post_init__(self) -> None:
        fit_fields(self)
        for key, value in vars(self).items():
            if isinstance(value, (list, tuple)):
                object.__setattr__(self, key, _frozen(value))

    @property
    def names_nothing(self) -> bool:
        """Whether the selection is empty: it neither selects nor excludes a node."""
        return not (self.names_something or self.exclude)

    @property
    def names_something(self) -> bool:
        """Whether a field other than `exclude` selects nodes."""
        walks = self.between or self.forward or self.backward
        return bool(self.nodes or self.regexes or self.ops or self.scopes or walks)

    def renamed(self, tensor: Callable[[str], str], node: Callable[[str], str]) -> Selection:
        """Returns the same selection with new names: `tensor` and `node` map an old name to the new one."""
        between = tuple((tuple(map(tensor, start)), tuple(map(tensor, end))) for start, end in self.between)
        forward, backward = (tuple(map(tensor, names)) for names in (self.forward, self.backward))
        own = tuple(map(node, self.nodes))
        return replace(self, nodes=own, between=between, forward=forward, backward=backward)


def _frozen(items: Iterable[object]) -> tuple[object, ...]:
    """Returns `items` as a tuple, with nested lists and tuples also as tuples."""
    return tuple(_frozen(item) if isinstance(item, (list, tuple)) else item for item in items)
