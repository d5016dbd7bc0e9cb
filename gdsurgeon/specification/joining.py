"""Edits that add a graph to a graph: import, insert, add-preprocessing and add-postprocessing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.copies import respelt
from gdsurgeon.compare.intent import Copies, Intent, Value
from gdsurgeon.container.surroundings import Surroundings
from gdsurgeon.errors import quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import InputRef, format_input, is_numbered, parse_tensor
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.selection import Selection
from gdsurgeon.specification.nodes import Rows, selected, sharing_faults, unread
from gdsurgeon.specification.signatures import expect_tensor
from gdsurgeon.specification.surroundings import Expected


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
        intent: to declare the added nodes and functions.
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
        intent: Intent,
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
        self._functions = functions = ImportedFunctions(comparison, part)
        intent.added += self.names.values()
        intent.renamed_functions = intent.renamed_functions | functions.renamed
        intent.functions.added = list(dict.fromkeys([*intent.functions.added, *functions.added.values()]))
        intent.copies.append(self._copies)

    def tensor(self, name: str) -> str:
        """Returns the counterpart of a tensor of the part."""
        node, colon, index = name.partition(":")
        return self._copies.outside.get(node) or self.names[node] + (colon + index if index != "0" else "")

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


# -- add-preprocessing -----------------------------------------------------------------------------------


def add_preprocessing(comparison: Comparison, pre: Graph, mapped: Sequence[Bound] = ()) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    bound, rows, intent = bindings(pre, mapped, "_preprocessed"), Rows(comparison.before), Intent()
    imported = ImportedGraph(comparison, intent, pre, {raw: model for model, raw, _ in bound})
    for model, raw, result in bound:
        intent.rewire(rows.uses(rows.tensor(model)), model, imported.tensor(result))
        values: dict[str, Value] = {f"attr {key}": pre[raw].attr_bytes(key) for key in _ATTRS}
        values |= {"op": pre[raw].op, **({"inputs": ()} if comparison.before[model].inputs else {})}
        intent.alter(model, values)
    intent.removed = unread(comparison, [model for model, _, _ in bound])
    yield from audit(comparison, intent)
    yield from imported.faults()


_ATTRS = ("dtype", "shape", "_output_shapes")


# -- add-postprocessing ----------------------------------------------------------------------------------


def add_postprocessing(comparison: Comparison, post: Graph, mapped: Sequence[Bound] = ()) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""

    def output_count(name: str) -> int:  # 1 for an unknown op
        return len(comparison.before[name].output_dtypes or (0,))

    bound = bindings(post, mapped, "_postprocessed")
    outputs = {raw: parse_tensor(model) for model, raw, _ in bound}
    raws = {ref.node: comparison.facts.renamed.get(ref.node, "") for ref in outputs.values()}
    for model, raw in raws.items():
        if not is_numbered(raw, f"{model}_raw"):
            yield f"{quoted(model)} has the new name {quoted(raw)}, not {quoted(model + '_raw')}"
    # A result that is the only output of its node, and replaces one output, has the name itself.
    count = Counter(parse_tensor(result).node for _, _, result in bound)
    direct = {
        result: model
        for model, _, result in bound
        if count[result] == 1 and len(post[result].outputs) == 1 and result not in outputs
        if output_count(parse_tensor(model).node) == 1
    }
    replaced = {raw: format_input(raws[ref.node], ref.port) for raw, ref in outputs.items()}
    intent = Intent(renamed=raws)
    imported = ImportedGraph(comparison, intent, post, replaced, direct, (*raws, *raws.values()))
    forwarded = {outputs[raw]: imported.tensor(result) for _, raw, result in bound if result not in direct}
    for node in dict.fromkeys(ref.node for ref in forwarded):
        own = [InputRef(node, port) for port in range(output_count(node))]
        read = [forwarded.get(ref) or format_input(raws[node], ref.port) for ref in own]
        intent.add(node, "Identity" if len(read) == 1 else "IdentityN", read)
    yield from audit(comparison, intent)
    yield from imported.faults()


# -- insert ----------------------------------------------------------------------------------------------


def insert(
    comparison: Comparison,
    tensor: str | Selection | Iterable[str],
    body: object,
    scope: str = "",
    *,
    bodies: Sequence[Graph] = (),
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`. `bodies`: the graph that is inserted for each tensor."""
    before, intent = comparison.before, Intent()
    rows = Rows(before)
    tensors = [tensor] if isinstance(tensor, str) else selected(before, tensor)
    if isinstance(tensor, Selection):  # output 0 of the selected nodes, if it has consumers
        tensors = [name for name in tensors if any(True for _ in rows.uses(rows.tensor(name)))]
    imported: list[ImportedGraph] = []
    for name, part in zip((name.removesuffix(":0") for name in tensors), bodies, strict=True):
        part = before if part.pristine() is before else part
        own = scope
        if not isinstance(tensor, str) and isinstance(body, Graph):
            own = f"{name.replace(':', '_')}/{scope}"
        imported.append(ImportedGraph(comparison, intent, part, {placeholders(part)[0]: name}, in_scope(part, own)))
        intent.rewire(rows.uses(rows.tensor(name)), name, imported[-1].tensor(result(part)))
    yield from audit(comparison, intent)
    for each in imported:
        yield from each.faults()


# -- import ----------------------------------------------------------------------------------------------


def import_graph(
    comparison: Comparison,
    other: Graph,
    scope: str = "",
    connect: Sequence[tuple[str, str]] = (),
    *,
    part: Graph | None = None,
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`. `part`: `other` with constants for its variables."""
    other = part or other
    if other.pristine() is comparison.before:
        other = comparison.before
    replaced = {placeholder.removesuffix(":0"): tensor.removesuffix(":0") for tensor, placeholder in connect}
    intent = Intent()
    imported = ImportedGraph(comparison, intent, other, replaced, in_scope(other, scope))
    yield from audit(comparison, intent)
    yield from imported.faults()


def around_import_graph(
    expected: Expected,
    found: Surroundings,
    other: Graph,
    scope: str = "",
    connect: Sequence[tuple[str, str]] = (),
) -> Iterator[str]:
    """Adds the signatures of `other`; see `gdsurgeon.specification.surroundings.wrong_surroundings`.

    A signature without outputs, or with a tensor that is not dense, is left out.
    """
    connected, prefix = {placeholder.partition(":")[0] for _, placeholder in connect}, scope.strip("/")
    own = {place[1] for place in expected.values if place[0] == "signature"}
    made = {place[1] for place in found if place[0] == "signature"} - own
    for key, signature in (other.serving.called if other.serving is not None else {}).items():
        wanted = f"{prefix.replace('/', '_')}_{key}" if prefix else key
        new = wanted if wanted in made else next((k for k in made if wanted in own and is_numbered(k, wanted)), None)
        if new is None:
            is_dense = not any("/" in name for name in (*signature.inputs, *signature.outputs))
            if is_dense and any(text.partition(":")[0] not in connected for text in signature.outputs.values()):
                yield f"the signature {quoted(key)} of the imported model is missing"
            continue
        expected.values["signature", new, "method"] = signature.method
        for side, tensors in (("input", signature.inputs), ("output", signature.outputs)):
            for name, text in tensors.items():
                node, _, index = text.partition(":")
                place = ("signature", new, side, name)
                there = str(found.get((*place, "tensor"))).partition(":")[0]
                is_renamed = not prefix and node in expected.graph and is_numbered(there, node)
                if node not in connected:
                    expect_tensor(expected, place, there if is_renamed else f"{prefix}/{node}".strip("/"), index)
        for given in [p for p in found if p[:3] == ("signature", new, "input") and p[-1] == "tensor"]:
            if given not in expected.values and connected and given[3] in expected.graph:
                expect_tensor(expected, given[:4], given[3], "")  # an input of the model, upstream of a connection
