"""A graph that is imported into a different graph: its nodes with the same inputs as before, and its functions."""

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


class ImportedFunctions:
    """The functions of an imported graph.

    Args:
        comparison: of the other graph before and after the edit.
        part: the imported graph.

    Attributes:
        names: the names of its functions after the edit, with a number if the name was taken by a different function.
        added: those that were added; the library had the others.
    """

    def __init__(self, comparison: Comparison, part: Graph) -> None:
        own = [function.signature.name for function in part.functions]
        numbered = _by_stem(comparison.facts.functions.added, own)
        self.names = {name: numbered.get(name, name) for name in own}
        self._part, self._comparison = part.functions, comparison
        self.added = {old: new for old, new in self.names.items() if new not in comparison.before.functions}

    @property
    def renamed(self) -> dict[str, str]:
        """The functions with a new name."""
        return {old: new for old, new in self.names.items() if old != new}

    def violations(self) -> Iterator[str]:
        """Yields the functions that are replaced by a different function, and those that lose their gradients."""
        before, after = self._comparison.before.functions, self._comparison.after.functions
        for old, new in self.names.items():
            if old not in self.added and before[new] != respelt(self._part[old], new, self.names):
                yield f"the function {quoted(old)} was reused, but is not equal to the existing function"
        had = {gradient.function_name for gradient in before.gradients()}
        has = {gradient.function_name: gradient.gradient_func for gradient in after.gradients()}
        for gradient in self._part.gradients():
            name, its = (self.names.get(n, n) for n in (gradient.function_name, gradient.gradient_func))
            if name not in had and has.get(name) != its:
                yield f"the gradient of the function {quoted(name)} is not {quoted(its)}"


def in_scope(part: Graph, scope: str) -> dict[str, str]:
    """Returns the names of the copies of `part` in `scope`; {} without a scope."""
    prefix = scope.strip("/")
    return {node.name: f"{prefix}/{node.name}" for node in part.nodes()} if prefix else {}


class ImportedGraph:
    """An imported graph.

    Args:
        comparison: of the other graph before and after the edit.
        part: the imported graph.
        replaced: nodes of `part` that were not copied, with the tensors that replace them.
        names: required names of copies. All others keep their names, with a number if the name is taken.
        taken: taken names that the other graph does not have.

    Attributes:
        names: the names of the copies.
    """

    def __init__(
        self,
        comparison: Comparison,
        part: Graph,
        replaced: Mapping[str, str],
        names: Mapping[str, str] | None = None,
        taken: Container[str] = (),
    ) -> None:
        self._comparison = comparison
        own = [node.name for node in part.nodes() if node.name not in replaced]
        given = names or {}
        numbered = _by_stem(comparison.facts.added, {*own, *given.values()})
        self.names: dict[str, str] = {}
        for name in own:
            is_taken = name in comparison.before or name in taken
            self.names[name] = given.get(name) or (numbered.get(name, name) if is_taken else name)
        self._copies = Copies(part, self.names, replaced, False)
        self._functions = ImportedFunctions(comparison, part)

    def tensor(self, name: str) -> str:
        """Returns the counterpart of a tensor of the part."""
        node, colon, index = name.partition(":")
        return self._copies.outside.get(node) or self.names[node] + (colon + index if index != "0" else "")

    def violations(self, intent: Intent) -> Iterator[str]:
        """Yields the changes that belong neither to the part nor to `intent`, and the faults of the copies."""
        self.declare(intent)
        yield from audit(self._comparison, intent)
        yield from self.faults()

    def declare(self, intent: Intent) -> None:
        """Declares the added nodes and functions."""
        functions = self._functions
        intent.added += self.names.values()
        intent.renamed_functions = intent.renamed_functions | functions.renamed
        added = dict.fromkeys([*intent.functions.added, *functions.added.values()])
        intent.functions = FunctionChanges(added=list(added))
        intent.copies.append(self._copies)

    def faults(self) -> Iterator[str]:
        """Yields the faults of the copies."""
        yield from self._functions.violations()
        yield from sharing_faults(self._comparison, self._copies, self._functions.added)


def _by_stem(added: Iterable[str], own: Container[str]) -> dict[str, str]:
    """Returns the names that were made unique with a number, by the names without it."""
    stems = ((name.rpartition("_"), name) for name in added if name not in own)
    return {stem: name for (stem, _, number), name in stems if number.isdigit()}


def result(part: Graph) -> str:
    """Returns the only output of a graph."""
    read = {output.node for node in part.nodes() for output in node.inputs}
    unused = [n for n in part.nodes() if n not in read and n.output_dtypes != [] and n.op not in PLACEHOLDERS]
    served = [node for node in unused if node.op not in ("Const", "Print")]
    return (served or unused)[0].name


Bound = tuple[str, str, str]
"""A node of the model, and the corresponding placeholder and result of the part."""


def bindings(part: Graph, mapped: Sequence[Bound], suffix: str) -> list[Bound]:
    """Returns a binding for each placeholder of the part, as requested or by name."""
    out = [(model.removesuffix(":0"), raw.removesuffix(":0"), end.removesuffix(":0")) for model, raw, end in mapped]
    named = {raw for _, raw, _ in out}
    return out + [(name, name, name + suffix) for name in placeholders(part) if name not in named]


def placeholders(part: Graph) -> list[str]:
    """Returns the inputs of a graph without default values, in file order."""
    return [node.name for node in part.nodes() if node.op in PLACEHOLDERS and node.op != "PlaceholderWithDefault"]
