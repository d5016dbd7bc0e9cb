"""What is there of a graph that was brought into another: its nodes, wired as they were, and its functions."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.copies import respelt
from gdsurgeon.compare.intent import Copies, FunctionChanges, Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.specification.sharing import sharing_faults


class CameAlong:
    """The functions of a graph that was brought into another.

    Args:
        comparison: of the other graph without it and with it.
        part: the graph that was brought in.

    Attributes:
        names: what its functions are called now: their own names, with a number where another function has that.
        added: those that came; the others were there.
    """

    def __init__(self, comparison: Comparison, part: Graph) -> None:
        own = [function.signature.name for function in part.functions]
        numbered = _by_stem(comparison.facts.functions.added, {*own})
        self.names = {name: numbered.get(name, name) for name in own}
        self._part, self._library = part.functions, comparison.before.functions
        self.added = {old: new for old, new in self.names.items() if new not in self._library}

    @property
    def renamed(self) -> dict[str, str]:
        """The functions that have another name now."""
        return {old: new for old, new in self.names.items() if old != new}

    def violations(self) -> Iterator[str]:
        """A line for each function that is taken for one which was there, and is another."""
        for old, new in self.names.items():
            if old not in self.added and self._library[new] != respelt(self._part[old], new, self.names):
                yield f"the function {quoted(old)} was reused, but is not equal to the existing function"


def in_scope(part: Graph, scope: str) -> dict[str, str]:
    """What the copies of PART's nodes are called in SCOPE; nothing where they keep their names."""
    prefix = scope.strip("/")
    return {node.name: f"{prefix}/{node.name}" for node in part.nodes()} if prefix else {}


class Joined:
    """A graph that was brought into another.

    Args:
        comparison: of the other graph without it and with it.
        part: the graph that was brought in.
        stands: for nodes of PART that were not copied, the tensor that stands for each.
        names: what certain copies must be called. Others have their own names, with a number where that is taken.
        taken: names that are taken besides those of the other graph.

    Attributes:
        names: of the copies.
    """

    def __init__(
        self,
        comparison: Comparison,
        part: Graph,
        stands: Mapping[str, str],
        names: Mapping[str, str] | None = None,
        taken: Container[str] = (),
    ) -> None:
        self._comparison = comparison
        self._part = part
        own = [node.name for node in part.nodes() if node.name not in stands]
        given = names or {}
        numbered = _by_stem(comparison.facts.added, {*own, *given.values()})
        self.names: dict[str, str] = {}
        for name in own:
            is_taken = name in comparison.before or name in taken
            self.names[name] = given.get(name) or (numbered.get(name, name) if is_taken else name)
        self._copies = Copies(part, self.names, stands, False)
        self._functions = CameAlong(comparison, part)

    def tensor(self, name: str) -> str:
        """Where a tensor of the part is now."""
        node, colon, index = name.partition(":")
        return self._copies.outside.get(node) or self.names[node] + (colon + index if index != "0" else "")

    def violations(self, intent: Intent) -> Iterator[str]:
        """What is different and is neither of the part nor of INTENT, what is wrong with the copies, a line each."""
        self.say(intent)
        yield from audit(self._comparison, intent)
        yield from self.faults()

    def say(self, intent: Intent) -> None:
        """Has INTENT say what came with the part."""
        functions = self._functions
        intent.added += self.names.values()
        intent.renamed_functions = intent.renamed_functions | functions.renamed
        added = dict.fromkeys([*intent.functions.added, *functions.added.values()])
        intent.functions = FunctionChanges(added=list(added))
        intent.copies.append(self._copies)

    def faults(self) -> Iterator[str]:
        """What is wrong with the copies, a line each."""
        yield from self._functions.violations()
        yield from sharing_faults(self._comparison, self._copies, self._functions.added)
        yield from self._lost_gradients()

    def _lost_gradients(self) -> Iterator[str]:
        """Each function of the part has the gradient that it had there, unless it had one here."""
        had = {g.function_name for g in self._comparison.before.functions.gradients()}
        has = {g.function_name: g.gradient_func for g in self._comparison.after.functions.gradients()}
        for gradient in self._part.functions.gradients():
            name = self._functions.names.get(gradient.function_name, gradient.function_name)
            its = self._functions.names.get(gradient.gradient_func, gradient.gradient_func)
            if name not in had and has.get(name) != its:
                yield f"the gradient of the function {quoted(name)} is not {quoted(its)}"


def _by_stem(added: Iterable[str], own: Container[str]) -> dict[str, str]:
    """Names that were made unique with a number, by what they were."""
    stems = ((name.rpartition("_"), name) for name in added if name not in own)
    return {stem: name for (stem, _, number), name in stems if number.isdigit()}


def uses(graph: Graph, tensor: str) -> Iterator[tuple[str, int]]:
    """The nodes of a file that read TENSOR, each with the slot."""
    for name in graph.store.users(tensor.partition(":")[0]):
        for slot, read in enumerate(graph[name].inputs):
            if read.name == tensor:
                yield name, slot


def result(part: Graph) -> str:
    """The tensor that a graph of one result gives."""
    read = {output.node for node in part.nodes() for output in node.inputs}
    unread = [n for n in part.nodes() if n not in read and n.output_dtypes != [] and n.op not in PLACEHOLDERS]
    served = [node for node in unread if node.op not in ("Const", "Print")]
    return (served or unread)[0].name


Bound = tuple[str, str, str]
"""A node of the model, and the placeholder and the result of the part that belong to it."""


def bindings(part: Graph, mapped: Sequence[Bound], suffix: str) -> list[Bound]:
    """What belongs together, where it was spelt out or by its name: one for each placeholder of the part."""
    out = [
        (model.removesuffix(":0"), raw.removesuffix(":0"), result.removesuffix(":0")) for model, raw, result in mapped
    ]
    spelt = {raw for _, raw, _ in out}
    return out + [(name, name, name + suffix) for name in placeholders(part) if name not in spelt]


def placeholders(part: Graph) -> list[str]:
    """The inputs of a graph that must be given, in the order of the file."""
    return [node.name for node in part.nodes() if node.op in PLACEHOLDERS and node.op != "PlaceholderWithDefault"]
