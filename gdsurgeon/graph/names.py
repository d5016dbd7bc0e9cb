"""The names of nodes, tensors and scopes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from gdsurgeon.errors import EditError, UsageError, printable, quoted
from gdsurgeon.text import counted, nearest, suggestion

NAME_RULE = "letters, digits and . first, then also _ - / and, between such parts, >"
_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\-/]*(>[A-Za-z0-9.][A-Za-z0-9_.\-/]*)*\Z")
_PORT = re.compile(r"0\Z|[1-9][0-9]{0,8}\Z")


class InputRef(NamedTuple):
    """An input as a NodeDef spells it. `port` is the index of the producer's output, -1 for a control input."""

    node: str
    port: int


CONTROL = -1


def is_valid_name(name: str) -> bool:
    """Returns whether TensorFlow's loader accepts `name` as a node name."""
    return _NAME.match(name) is not None


def check_name(name: str) -> None:
    """Raises EditError if TensorFlow would not accept `name` as a node name."""
    if not is_valid_name(name):
        raise EditError(f"{quoted(name)} is not a legal node name ({NAME_RULE})", code="bad-name", name=name)


def no_node(name: str, became: str, called: str, count: int, known: Iterable[str]) -> EditError:
    """Returns the error for a node `name` that a graph does not have; it may report an earlier edit or a suggestion.

    Args:
        name: the name of the node.
        became: the change that an earlier edit made to the node; '' for none.
        called: the name of the graph.
        count: the number of its nodes.
        known: names that may be suggested for a typo.
    """
    if became:
        return EditError(
            f"node {quoted(name)} does not exist any more: {became}", code="no-such-node", node=name, reason=became
        )
    near = nearest(name, known)
    return EditError(
        f"{printable(called)} has no node {quoted(name)} ({counted(count, 'node')}).{suggestion(near)}",
        code="no-such-node",
        facts={"node": name, "near": near},
        advice=() if near else "look",
    )


def parse_input(text: str) -> InputRef | None:
    """Parses ``^node``, ``node`` or ``node:index``; returns None for any other text."""
    if text[:1] == "^":
        return InputRef(text[1:], CONTROL) if len(text) > 1 and ":" not in text else None
    node, colon, index = text.rpartition(":")
    if not colon:
        return InputRef(text, 0) if text else None
    if not node or ":" in node or not _PORT.match(index):
        return None
    return InputRef(node, int(index))


def format_input(node: str, index: int) -> str:
    """Returns an input as a NodeDef spells it; output 0 has no index."""
    if index > 0:
        return f"{node}:{index}"
    return node if index == 0 else f"^{node}"


def parse_tensor(text: str) -> InputRef:
    """Parses a tensor name as users write it: ``node`` or ``node:index``.

    Raises:
        EditError: `text` is not the name of a tensor.
    """
    ref = parse_input(text)
    if ref is None or ref.port == CONTROL:
        raise EditError(f"{quoted(text)} is not a tensor name (node or node:index)", code="bad-tensor-name",
                        tensor=text)  # fmt: skip
    return ref


def node_of(tensor: str) -> str:
    """Returns the node in a tensor name. Raises EditError as `parse_tensor` does."""
    return parse_tensor(tensor).node


def renaming(names: Mapping[str, str]) -> Callable[[str], str]:
    """Returns a function from a node, a tensor or ``^node`` to the same with the new name of the node in `names`."""

    def renamed(text: str) -> str:
        control = "^" if text[:1] == "^" else ""
        node, colon, index = text[len(control) :].partition(":")
        return f"{control}{names.get(node, node)}{colon}{index}"

    return renamed if names else str


def nodes_of(tensors: Iterable[str]) -> list[str]:
    """Returns the names of the nodes of `tensors`, each once."""
    return list(dict.fromkeys(map(node_of, tensors)))


def scope_prefix(scope: str) -> str:
    """Returns `scope` with exactly one slash at its end; '' is the whole graph."""
    stripped = scope.strip("/")
    return stripped + "/" if stripped else ""


def under_scope(names: Iterable[str], old: str, new: str) -> Iterator[tuple[str, str]]:
    """Yields (name, new name) for each of `names` that is in the scope `old`, or equals it, when `new` replaces `old`.

    Raises:
        UsageError: `old` is empty.
    """
    before, after = scope_prefix(old), scope_prefix(new)
    if not before:
        raise UsageError("the name of the scope to rename is empty", code="bad-value")
    for name in names:
        if name.startswith(before):
            yield name, after + name[len(before) :]
        elif name == before[:-1] and after:
            yield name, after[:-1]


def in_scope(name: str, scope: str) -> bool:
    """Returns whether the node `name` is in `scope`, or has exactly its name."""
    prefix = scope_prefix(scope)
    return name.startswith(prefix) or name == prefix[:-1]


class UniqueNames:
    """Makes names that are not used yet: ``name``, or ``name_1``, ``name_2``, ...; each request in constant time."""

    def __init__(self, taken: Callable[[str], bool]) -> None:
        self._taken = taken
        self._next: dict[str, int] = {}
        self._given: set[str] = set()

    def __call__(self, name: str) -> str:
        candidate = name
        count = self._next.get(name, 0)
        while candidate in self._given or self._taken(candidate):
            count += 1
            candidate = f"{name}_{count}"
        self._next[name] = count
        self._given.add(candidate)
        return candidate


def is_numbered(name: str, stem: str) -> bool:
    """Returns whether `name` is `stem`, or `stem` with a number, as `UniqueNames` makes if `stem` is used."""
    before, _, number = name.rpartition("_")
    return name == stem or (before == stem and number.isdigit())


def free_scope(names: Iterable[str], scope: str) -> str:
    """Returns `scope`, or ``scope_1``, ``scope_2``, ...: the first that none of the node `names` is in or equals."""
    used = {scope + name[len(scope) :].partition("/")[0] for name in names if name.startswith(scope)}
    return UniqueNames(used.__contains__)(scope)


def plain_tensor(text: str) -> str:
    """Returns a tensor name without a redundant ``:0``; any other text is unchanged."""
    found = parse_input(text) if ":" in text else None
    return text if found is None else format_input(*found)
