"""Mistakes planted in code: fixed operators change the syntax tree of one function for as long as a test needs it.

A mistake is named by its function, its operator and its place among the operator's sites in that function. A hash of
that name orders the mistakes of a module, so that a change to one function leaves those of all others as they are.
"""

from __future__ import annotations
import __future__

import ast
import hashlib
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from importlib import import_module
from inspect import unwrap
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

import gdsurgeon
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import GdsurgeonError, ValidationError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.wire.write import read_chunks
from support.expecting import account
from support.graphs import parsed

Case = Callable[[], bool]
"""Returns whether its result equals the result of its first call. Raises if a check refuses the result."""
Edit = tuple[ast.AST, str, Any]
"""A field of a syntax node, and its new value."""

SEED = 0
PACKAGE = str(Path(gdsurgeon.__file__).parent)

CAUGHT, CRASHED, SURVIVED = "caught", "crashed", "survived"
"""Verdicts: a check refuses the result; another error ends the edit, so that nothing is written; the checks accept a
result that differs from the right one."""

OTHER = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.BitXor: ast.BitOr, ast.Pow: ast.Mult, ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
"""The replacement of each operator of the language."""

UNLIKE, LOST, NOTHING, BACKWARDS = "arguments of two kinds swapped", "value lost", "nothing returned", "backwards"
RESERVE = (UNLIKE, LOST, NOTHING, BACKWARDS)
"""Operators whose mistakes nearly all crash or have no effect. They are tried after all others."""


class Mutant(NamedTuple):
    """A mistake.

    Attributes:
        name: its function, its operator, and its place among the operator's sites in that function.
        function: the function object.
        lines: the lines of the changed statement.
        tree: the definition of the function, in its class if it is a method.
        edits: the changes to the tree.
    """

    name: str
    function: FunctionType
    lines: range
    tree: ast.stmt
    edits: list[Edit]

    def rank(self, case: str = "") -> bytes:
        """Returns a sort key for mistakes, or for the cases of a mistake. It depends on names only."""
        return hashlib.sha256(f"{SEED} {self.function.__module__} {self.name} {case}".encode()).digest()

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Replaces the code of the function inside a `with` block, for every module that has imported it."""
        right = self.function.__code__
        with _edited(self.edits):
            wrong = _code(self.tree, right)
        self.function.__code__ = wrong
        try:
            _forget(self.function.__module__)
            yield
        finally:
            self.function.__code__ = right
            _forget(self.function.__module__)

    def __str__(self) -> str:
        """Returns the name, and the code before and after, in one line."""
        node = self.edits[0][0]
        before = _shown(node)
        with _edited(self.edits):
            return f"{self.name}: {before}  ->  {_shown(node)}"


def _shown(node: ast.AST) -> str:
    lines = [line.strip() for line in ast.unparse(node).splitlines()]
    return " ".join(lines if len(lines) < 4 else lines[:2])


@contextmanager
def _edited(edits: list[Edit]) -> Iterator[None]:
    before = [(node, field, getattr(node, field)) for node, field, _ in edits]
    for node, field, value in edits:
        setattr(node, field, value)
    try:
        yield
    finally:
        for node, field, value in before:
            setattr(node, field, value)


def _code(tree: ast.stmt, right: CodeType) -> CodeType:
    """Compiles `tree`; returns the code object that has the name and the line of `right`."""
    module = ast.fix_missing_locations(ast.Module([tree], []))
    flags = __future__.annotations.compiler_flag
    pending = [compile(module, right.co_filename, "exec", flags=flags, dont_inherit=True)]
    for code in pending:  # grows during the loop
        if (code.co_name, code.co_firstlineno) == (right.co_name, right.co_firstlineno):
            return code
        pending += [item for item in code.co_consts if isinstance(item, CodeType)]
    raise LookupError(right.co_name)


def _forget(module: str) -> None:
    """Clears the caches of the functions of a module."""
    for item in vars(sys.modules[module]).values():
        if hasattr(type(item), "cache_clear"):  # not of the item: a message class finds its descriptor then
            item.cache_clear()


# -- operators -------------------------------------------------------------------------------------------------------


@cache
def mutants(module: str) -> list[Mutant]:
    """Returns all mistakes for the functions and methods of a module, ordered by their ranks."""
    loaded = import_module(module)
    tree = ast.parse(Path(str(loaded.__file__)).read_text())
    owners = [None, *(item for item in tree.body if isinstance(item, ast.ClassDef))]
    found: list[Mutant] = []
    for owner in owners:
        space = vars(loaded if owner is None else getattr(loaded, owner.name))
        for item in tree.body if owner is None else owner.body:
            function = _function(space[item.name]) if isinstance(item, ast.FunctionDef) else None
            if function is None or not isinstance(item, ast.FunctionDef):
                continue
            whole = item if owner is None else ast.copy_location(ast.ClassDef(owner.name, [], [], [item], []), owner)
            counts: Counter[str] = Counter()
            for operator, lines, edits in _mistakes(item):
                name = f"{function.__qualname__}: {operator} {counts[operator]}"
                counts[operator] += 1
                found.append(Mutant(name, function, lines, whole, edits))
    return sorted(found, key=lambda mutant: (any(f": {name} " in mutant.name for name in RESERVE), mutant.rank()))


def _function(item: Any) -> FunctionType | None:
    """Returns the function inside a property, class method or decorator; None if its code cannot be replaced."""
    item = item.fget if isinstance(item, property) else item.func if isinstance(item, cached_property) else item
    item = unwrap(getattr(item, "__func__", item))
    return item if isinstance(item, FunctionType) and not item.__code__.co_freevars else None


def _mistakes(tree: ast.FunctionDef) -> Iterator[tuple[str, range, list[Edit]]]:
    """Yields the operator, the lines of the statement and the changes of each mistake. Skips `raise` and texts."""
    documented = ast.get_docstring(tree) is not None
    for at in range(documented, len(tree.body)):
        yield from _of(tree.body[at], (tree, "body", at), range(0))


Slot = tuple[ast.AST, str, int | None]
"""The place of a node: its parent, the field, and the index if the field is a list."""


def _of(node: ast.AST, slot: Slot, lines: range) -> Iterator[tuple[str, range, list[Edit]]]:
    if isinstance(node, (ast.Raise, ast.Assert, ast.FormattedValue, ast.arguments, ast.arg)):
        return
    if isinstance(node, ast.stmt):
        inner = getattr(node, "body", None)
        lines = range(node.lineno, max(node.lineno, inner[0].lineno - 1 if inner else node.end_lineno or 0) + 1)
    yield from ((operator, lines, edits) for operator, edits in _done_wrong(node, slot))
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns", "decorator_list", "target", "targets"):
            for at, item in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(item, ast.AST):
                    yield from _of(item, (node, field, at), lines)


def _put(slot: Slot, new: ast.AST) -> list[Edit]:
    node, field, at = slot
    items = getattr(node, field)
    return [(node, field, new if at is None else [*items[:at], new, *items[at + 1 :]])]


def _done_wrong(node: ast.AST, slot: Slot) -> Iterator[tuple[str, list[Edit]]]:
    """Yields each operator that applies to a node, and the changes."""
    match node:
        case ast.If(test=test) | ast.IfExp(test=test):
            yield from ((operator, [(node, "test", new)]) for operator, new in _other_conditions(test))
        case ast.comprehension(ifs=[*tests]):
            for at, test in enumerate(tests):
                yield from ((name, _put((node, "ifs", at), new)) for name, new in _other_conditions(test))
        case ast.BoolOp(op=op, values=values):
            yield "and for or", [(node, "op", OTHER[type(op)]())]
            for at in range(len(values)):
                rest = _without(values, at)
                yield "operand dropped", [(node, "values", rest)] if len(rest) > 1 else _put(slot, rest[0])
        case ast.Compare(ops=ops):
            for at, op in enumerate(ops):
                yield "other comparison", _put((node, "ops", at), OTHER[type(op)]())
        case ast.BinOp(left=left, op=op, right=right):
            if not isinstance(left, (ast.Constant, ast.JoinedStr)):
                yield "other arithmetic", [(node, "op", OTHER[type(op)]())]
            if isinstance(op, (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift)):
                yield "operands swapped", [(node, "left", right), (node, "right", left)]
            yield "operand dropped", _put(slot, left)
            yield "operand dropped", _put(slot, right)
        case ast.Call(args=args, keywords=keywords):
            for at in range(len(args) - 1):
                alike = type(args[at]) is type(args[at + 1])
                yield "arguments swapped" if alike else UNLIKE, [(node, "args", _swapped(args, at))]
            for at in range(len(keywords)):
                yield "argument dropped", [(node, "keywords", _without(keywords, at))]
        case ast.Tuple(elts=items, ctx=ast.Load()) | ast.List(elts=items, ctx=ast.Load()):
            for at in range(len(items)):
                yield "element dropped", [(node, "elts", _without(items, at))]
            for at in range(len(items) - 1):
                yield "elements swapped", [(node, "elts", _swapped(items, at))]
        case ast.Dict(keys=keys, values=values):
            for at in range(len(keys)):
                yield "entry dropped", [(node, "keys", _without(keys, at)), (node, "values", _without(values, at))]
        case ast.Constant(value=bool() as value):
            yield "the other truth", [(node, "value", not value)]
        case ast.Constant(value=int() | float() as value):
            yield "off by one", [(node, "value", value + 1)]
        case ast.Constant(value=str() as value) if value:
            yield "text cut", [(node, "value", value[:-1])]
        case ast.Subscript(value=value, slice=ast.Slice(), ctx=ast.Load()):
            yield "slice dropped", _put(slot, value)
        case ast.Expr(value=ast.Constant()):
            pass  # the docstring of an attribute
        case ast.Expr() | ast.AugAssign() | ast.Continue() | ast.Break() | ast.Delete():
            yield "statement dropped", _put(slot, ast.Pass())
        case ast.Assign(targets=[target]):
            yield LOST if isinstance(target, ast.Name) else "statement dropped", _put(slot, ast.Pass())
        case ast.Return(value=ast.expr()):
            yield NOTHING, [(node, "value", None)]
    if isinstance(node, (ast.For, ast.comprehension)):
        items = ast.Call(ast.Name("list", ast.Load()), [node.iter], [])
        for operator, part in (("first only", ast.Slice(None, ast.Constant(1))), (BACKWARDS, TURNED)):
            yield operator, [(node, "iter", ast.Subscript(items, part, ast.Load()))]


TURNED = ast.Slice(None, None, ast.UnaryOp(ast.USub(), ast.Constant(1)))


def _other_conditions(test: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    yield "condition negated", ast.UnaryOp(ast.Not(), test)
    yield "condition always true", ast.Constant(True)
    yield "condition never true", ast.Constant(False)


def _without(items: list[Any], at: int) -> list[Any]:
    return [*items[:at], *items[at + 1 :]]


def _swapped(items: list[Any], at: int) -> list[Any]:
    return [*items[:at], items[at + 1], items[at], *items[at + 2 :]]


# -- verdicts --------------------------------------------------------------------------------------------------------


class Bench:
    """Runs cases with mistakes planted.

    Args:
        cases: the cases by name.
        tried: the number of cases to run per mistake; each executes the changed statement.
        one_is_enough: if true, a mistake is caught if any case catches it. If false, the first case in which
            the mistake has an effect decides.
        seconds: CPU time limit of one case. It is many times what the case needs without a mistake.
    """

    def __init__(
        self, cases: Mapping[str, Case], tried: int = 3, *, one_is_enough: bool = False, seconds: float = 0.3
    ) -> None:
        self._cases, self._tried, self._one_is_enough, self._seconds = cases, tried, one_is_enough, seconds
        self._ran: dict[str, dict[str, set[int]]] = {}

    def judge(self, module: str, most: int) -> list[tuple[Mutant, str]]:
        """Returns the first `most` mistakes of a module that have an effect in a case, with their verdicts."""
        judged = ((mutant, self._verdict(mutant)) for mutant in mutants(module))
        return list(islice((pair for pair in judged if pair[1]), most))

    def _verdict(self, mutant: Mutant) -> str:
        """Returns the verdict on a mistake; '' if it has no effect."""
        if not self._ran:
            self._run_right()
        lines = self._ran.get(mutant.function.__code__.co_filename, {})
        names = sorted((name for name, ran in lines.items() if not ran.isdisjoint(mutant.lines)), key=mutant.rank)
        verdicts = filter(None, (self._outcome(mutant, self._cases[name]) for name in names[: self._tried]))
        if self._one_is_enough:
            return min(verdicts, key=(CAUGHT, CRASHED, SURVIVED).index, default="")
        return next(verdicts, "")

    def _outcome(self, mutant: Mutant, case: Case) -> str:
        try:
            with mutant.planted(), _limited(self._seconds):
                is_right = case()
        except ValidationError:
            return CAUGHT
        except (Exception, _TooLong):
            return CRASHED
        return "" if is_right or (isinstance(case, Accounted) and case.has_done_less()) else SURVIVED

    def _run_right(self) -> None:
        """Runs each case without a mistake, and records the lines that it executes."""
        for name, case in self._cases.items():
            assert case() and case(), name
            for file, lines in _traced(case).items():
                self._ran.setdefault(file, {})[name] = lines


def _traced(case: Case) -> dict[str, set[int]]:
    """Returns the executed lines of the package, by file."""
    ran: dict[str, set[int]] = {}

    def note(frame: FrameType, _event: str, _value: object) -> Any:
        ran[frame.f_code.co_filename].add(frame.f_lineno)
        return note

    def enter(frame: FrameType, event: str, value: object) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(PACKAGE):
            return None
        ran.setdefault(file, set())
        return note(frame, event, value)

    tracing = sys.gettrace()
    sys.settrace(enter)
    try:
        case()
    finally:
        sys.settrace(tracing)
    return ran


class _TooLong(BaseException):
    """The time limit. Not an `Exception`: the package must not catch it."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raises _TooLong after `seconds` of CPU time: a mistake may make a loop endless."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, seconds)  # repeats: a finalizer may lose the error
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


# -- edits -------------------------------------------------------------------------------------------------------------


Item = tuple[object, ...]


class Accounted:
    """An edit of a graph, with all checks that need no TensorFlow.

    Results are equal if they differ only in the order of nodes or control inputs, in names of new nodes that the edit
    chooses, or in unused functions.

    Args:
        model: a GraphDef, or a function that returns the graph.
        edit: the edit.
        may_do_less: if true, a result also counts as equal if the edit of it gives an equal result.
        run: a proof by execution. It is called for an accepted result that is not equal, and raises if it refuses.
    """

    def __init__(
        self,
        model: bytes | Callable[[], Graph],
        edit: Callable[[Graph], EditResult],
        *,
        may_do_less: bool = False,
        run: Callable[[], object] | None = None,
    ) -> None:
        self.model, self.edit, self.may_do_less, self.run = model, edit, may_do_less, run
        self.right = self.last = b""
        self.items: set[Item] = set()
        self.fixed: set[str] = set()

    def __call__(self) -> bool:
        graph = from_bytes(self.model, "model.pb") if isinstance(self.model, bytes) else self.model()
        result = self.edit(graph)
        chunks = graph.chunks()
        data = read_chunks(chunks)
        if data == self.right:
            return True
        account(graph, result)
        if not self.right:
            self._keep(read_chunks(graph.pristine().chunks()), data, result)
        self.last = data
        is_right = _items(data, self.fixed) == self.items
        if not is_right and self.run is not None:
            self.run()
        return is_right

    def _keep(self, before: bytes, data: bytes, result: EditResult) -> None:
        self.right = data
        intents = [stage.result.intent for stage in result.stages] or [result.intent]
        free = {name for intent in intents for name in {*intent.added} - {*intent.copied.values()}}
        self.fixed = {node.name for node in [*parsed(data).node, *parsed(before).node]} - free
        self.items = _items(data, self.fixed)

    def has_done_less(self) -> bool:
        """Returns whether the edit of the last result gives a result equal to the right one."""
        if not self.may_do_less:
            return False
        graph = from_bytes(self.last, "model.pb")
        with suppress(GdsurgeonError):
            self.edit(graph)
        return _items(read_chunks(graph.chunks()), self.fixed) == self.items


def _items(data: bytes, fixed: set[str]) -> set[Item]:
    """Returns the fields of a GraphDef. A node whose name is not in `fixed` is named by a hash of its fields."""
    graph = parsed(data)
    names = {node.name: "" for node in graph.node if node.name not in fixed}
    for _ in range(8 if names else 0):
        new = {node.name: str(sorted(_fields(node, names))) for node in graph.node if node.name in names}
        names = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in new.items()}
    found: set[Item] = {(names.get(n.name, n.name), *field) for n in graph.node for field in _fields(n, names)}
    for function in _used(graph):
        nodes = frozenset((node.name, *field) for node in function.node_def for field in _fields(node, {}))
        del function.node_def[:]
        found.add((function.SerializeToString(deterministic=True), nodes))
    del graph.node[:], graph.library.function[:]
    return found | {("other fields", graph.SerializeToString(deterministic=True))}


def _used(graph: Any) -> list[Any]:
    """Returns the functions that nodes of a GraphDef call, directly or through other functions."""
    library = {function.signature.name: function for function in graph.library.function}
    pending, used = [graph.node], {}
    for nodes in pending:  # grows during the loop
        called = {name for node in nodes for value in node.attr.values() for name in _functions_in(value)}
        for name in sorted(({node.op for node in nodes} | called) & library.keys() - used.keys()):
            used[name] = library[name]
            pending.append(library[name].node_def)
    return list(used.values())


def _functions_in(value: Any) -> list[str]:
    return [func.name for func in (value.func, *value.list.func)]


def _fields(node: Any, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield "op", node.op
    yield "device", node.device
    for at, text in enumerate(node.input):
        producer, _, port = text.removeprefix("^").partition(":")
        producer = names.get(producer, producer)
        yield ("waits", producer) if text[:1] == "^" else (f"input {at}", f"{producer}:{port or 0}")
    for key, value in node.attr.items():
        if key == "_class":
            yield from (("beside", names.get(text[5:], text)) for text in (item.decode() for item in value.list.s))
        else:
            yield f"attr {key}", value.SerializeToString(deterministic=True).hex()


def check_share(bench: Bench, module: str, least: float = 0.75, many: int = 20) -> None:
    """Asserts that the checks catch at least the share `least` of `many` mistakes that have an effect."""
    judged = bench.judge(f"gdsurgeon.{module}", many)
    survived = [str(mutant) for mutant, verdict in judged if verdict == SURVIVED]
    told = "\n".join([f"the checks accept {len(survived)} of {len(judged)} mistakes in {module}:", *survived])
    assert len(judged) >= 10 and len(survived) <= (1 - least) * len(judged), told
