"""`structure` refuses what TensorFlow's import refuses, and takes what that takes.

    GDSURGEON_EXAMPLES=20000 python -m pytest tests/analysis/checks/test_agreement.py

looks at as many random graphs, half of them around each op of the table in turn; it takes some minutes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.drawing import below, pick
from support.importer import Importer, disagreement

from gdsurgeon.graph.load import from_bytes
from gdsurgeon.ops.dtypes import DTYPES, REF
from gdsurgeon.ops.op_defs import AttrDef, arg_dtypes, graph_def_version, op_def, op_names
from gdsurgeon.wire.protos import AttrValue, GraphDef

NUMBERS = sorted(int(dtype) for dtype in DTYPES)
KINDS = ("string", "int", "float", "bool", "type", "shape", "tensor", "func")


class Maker:
    """Makes a graph, choosing by DRAW.

    Attributes:
        graph: the GraphDef.
        nodes: where nodes go: the graph's, or those of the body of its function.
        node: the node that was added last, and `definition` the signature of its op.
    """

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.graph = GraphDef()
        self.graph.versions.producer = 1882
        self.function = self.graph.library.function.add()
        self.function.signature.name = "F"
        self.function.signature.input_arg.add(name="x", type=1)
        self.function.signature.output_arg.add(name="out", type=1)
        self.function.ret["out"] = "x"
        self.in_body = False
        self._count = 0

    @property
    def nodes(self) -> Any:
        return self.function.node_def if self.in_body else self.graph.node

    def name(self) -> str:
        self._count += 1
        return f"n{self._count}"

    def flip(self, percent: int = 50) -> bool:
        return bool(self.draw(below(100)) < percent)

    def add(self, op: str) -> None:
        """Adds a node of OP that is as it should be."""
        definition = op_def(op)
        assert definition is not None
        attrs = {a.name: self.value(a) for a in definition.attrs.values() if not a.has_default or self.flip(30)}
        read = {key: _plain(value) for key, value in attrs.items()}.get
        inputs = [self.source(dtype) for dtype in arg_dtypes(definition.inputs, definition, read)]
        self.node, self.definition = self.nodes.add(name=self.name(), op=op, input=inputs), definition
        for key, value in attrs.items():
            self.node.attr[key].CopyFrom(value)

    def source(self, dtype: int) -> str:
        """A tensor of DTYPE, from a node that is added for it."""
        name, base = self.name(), dtype - REF if dtype > REF else dtype or 1
        if self.in_body and self.flip():
            self.function.signature.input_arg.add(name=name, type=base)
            return name
        node = self.nodes.add(name=name, op="VariableV2" if dtype > REF else "Placeholder")
        node.attr["dtype"].type = base
        if dtype > REF:
            node.attr["shape"].shape.unknown_rank = True
        return f"{name}:{'ref' if dtype > REF else 'output'}:0" if self.in_body else name

    def value(self, attr: AttrDef, kind: str = "") -> Any:
        """An AttrValue that ATTR may have; or one of another KIND."""
        out = AttrValue()
        kind = kind or attr.kind
        least = attr.minimum or 0
        if kind.startswith("list("):
            out.list.SetInParent()
            single = kind[5:-1]
            for _ in range(max(least, 0) + pick(self.draw, (0, 0, 1, 2))):
                self._add(out.list, single, attr)
        elif kind == "int":
            out.i = least + pick(self.draw, (0, 0, 1, 2))
        else:
            self._set(out, kind, attr)
        return out

    def _add(self, values: Any, kind: str, attr: AttrDef) -> None:
        one = AttrValue()
        self._set(one, kind, attr)
        field = {"string": "s", "int": "i", "float": "f", "bool": "b"}.get(kind, kind)
        if field in ("shape", "tensor", "func"):
            getattr(values, field).add().CopyFrom(getattr(one, field))
        else:
            getattr(values, field).append(getattr(one, field))

    def _set(self, out: Any, kind: str, attr: AttrDef) -> None:
        if kind == "type":
            out.type = pick(self.draw, attr.allowed or NUMBERS)
        elif kind == "string":
            out.s = pick(self.draw, attr.texts or ("", "a", "b/c")).encode()
        elif kind == "int":
            out.i = pick(self.draw, (0, 1, 2))
        elif kind == "float":
            out.f = pick(self.draw, (0.0, 0.5, 1.0))
        elif kind == "bool":
            out.b = self.flip()
        elif kind == "shape":
            out.shape.SetInParent()
            if self.flip(30):
                out.shape.unknown_rank = True
            else:
                for _ in range(pick(self.draw, (0, 1, 2))):
                    out.shape.dim.add(size=pick(self.draw, (1, 2, -1)))
        elif kind == "tensor":
            out.tensor.dtype = 1
            out.tensor.tensor_shape.SetInParent()
            out.tensor.float_val.append(1.0)
        else:
            out.func.name = "F"


def _plain(value: Any) -> object:
    which = value.WhichOneof("value")
    if which == "list":
        return next((list(items) for field, items in value.list.ListFields() if field.name in ("type", "i")), [])
    return getattr(value, which) if which in ("i", "type") else None


# Mistakes: each spoils the node that was added last, its function, or the versions. An IndexError ends a mistake that
# does not fit the node.


def _chosen(make: Maker, items: Iterable[Any]) -> Any:
    return pick(make.draw, list(items) or [][0])


def _attr_of(make: Maker, kind: str) -> tuple[AttrDef, Any]:
    """Returns an attr whose kind contains `kind`, and its value in the node."""
    attr = _chosen(make, (a for a in make.definition.attrs.values() if kind in a.kind))
    return attr, make.node.attr[attr.name]


def _input_of(make: Maker) -> int:
    return int(make.draw(below(len(make.node.input) or [][0])))


def _another_source(make: Maker) -> None:
    dtype, at = pick(make.draw, NUMBERS), _input_of(make)
    make.node.input[at] = make.source(dtype + REF if make.flip(20) else dtype)


def _another_port(make: Maker) -> None:
    make.node.input[_input_of(make)] += pick(make.draw, (":0", ":1", ":7", ":01", ":x"))


def _a_type(make: Maker, choices: list[int]) -> None:
    attr, value = _attr_of(make, "type")
    if attr.kind == "type":
        value.type = pick(make.draw, choices)
    else:
        value.list.type.append(pick(make.draw, choices))


def _a_text(make: Maker) -> None:
    attr, value = _attr_of(make, "string")
    if attr.kind == "string":
        value.s = pick(make.draw, (b"", b"SAME", b"\xff", b"NHWC", b"no"))
    else:
        value.list.s.append(b"no")


def _below_minimum(make: Maker) -> None:
    attr = _chosen(make, (a for a in make.definition.attrs.values() if a.minimum is not None))
    value = make.node.attr[attr.name]
    value.Clear()
    if attr.kind == "int":
        value.i = (attr.minimum or 0) - pick(make.draw, (0, 1, 2, 100))
    else:
        value.list.SetInParent()


def _another_number(make: Maker) -> None:
    attr, value = _attr_of(make, "int")
    if attr.kind == "int":
        value.i += pick(make.draw, (-1, 1, 2, 1 << 20, 1 << 40))


def _a_list(make: Maker) -> None:
    attr, value = _attr_of(make, "list(")
    value.CopyFrom(make.value(attr))


def _two_lists(make: Maker) -> None:
    _, value = _attr_of(make, "list(")
    value.list.i.append(1)
    value.list.type.append(1)


def _another_kind(make: Maker, keys: Iterable[str] = ()) -> None:
    key, kind = _chosen(make, keys or make.definition.attrs), pick(make.draw, KINDS)
    value = make.value(AttrDef("", kind, False, None), pick(make.draw, (kind, f"list({kind})")))
    make.node.attr[key].CopyFrom(value)


def _no_value(make: Maker) -> None:
    value = make.node.attr[_chosen(make, sorted(make.definition.attrs))]
    value.Clear()
    if make.flip(30):
        value.list.SetInParent()


def _a_placeholder(make: Maker) -> None:
    make.node.attr[_chosen(make, sorted(make.definition.attrs))].placeholder = "T"


def _another_input(make: Maker) -> None:
    text = pick(make.draw, [node.name for node in make.nodes])
    spellings = (text, f"{text}:0", f"{text}:1", f"{text}:99", f"{text}:-1", f"^{text}", "gone", "^gone", "")
    make.node.input.append(pick(make.draw, spellings))


def _a_version(make: Maker) -> None:
    now, versions = graph_def_version(), make.graph.versions
    versions.producer = pick(make.draw, (0, 5, 8, 12, 20, 23, 24, 26, 27, now, now + 1000, -1))
    versions.min_consumer = pick(make.draw, (0, 12, now, now + 1, -1))
    if make.flip(30):
        versions.bad_consumers.extend([now - 1, now] if make.flip() else [now + 1])


def _a_signature(make: Maker) -> None:
    signature, what = make.function.signature, make.draw(below(6))
    if what == 0:
        signature.input_arg.add(name="x", type=1)
    elif what == 1:
        signature.name = pick(make.draw, ("AddV2", "", "G", "f"))
    elif what == 2:
        signature.attr.add(name="T", type="type")
    elif what == 3:
        signature.output_arg.add(name="more", type=1)
    elif what == 4:
        signature.output_arg[0].type = pick(make.draw, NUMBERS)
    else:
        make.graph.library.function.add().CopyFrom(make.function)
        if make.flip():
            make.graph.library.function[1].ret["out"] = "y"


def _a_ret(make: Maker) -> None:
    node = make.function.node_def[0].name if make.function.node_def else "x"
    texts = (node, f"{node}:0", f"{node}:output:0", f"{node}:output:1", "x:0", "x:1", "gone:y:0", "", "^x")
    make.function.ret["out"] = pick(make.draw, texts)


def _output_shapes(make: Maker) -> None:
    for _ in range(make.draw(below(4))):
        make.node.attr["_output_shapes"].list.shape.add().unknown_rank = True


def _a_constant(make: Maker) -> None:
    value = make.nodes.add(name=make.name(), op="Const")
    value.attr["dtype"].type = pick(make.draw, (1, 1, 3))
    tensor = value.attr["value"].tensor
    tensor.dtype = 1
    for _ in range(make.draw(below(3))):
        tensor.tensor_shape.dim.add(size=pick(make.draw, (0, 1, 2, -1)))
    if make.flip():
        tensor.tensor_content = bytes(4 * make.draw(below(4)))
    else:
        tensor.float_val.extend([1.0] * make.draw(below(4)))


NAMES = ("", "_a", "a b", "a>b", "a>", ">a", "é", "n1", "a/b", "-a", ".a", "a:0", "^a")
MISTAKES: dict[str, Callable[[Maker], object]] = {
    "one input less": lambda make: make.node.input.pop(_input_of(make)),
    "a missing attr": lambda make: make.node.attr.pop(_chosen(make, sorted(make.node.attr))),
    "a cycle": lambda make: make.node.input.append(f"^{make.node.name}"),
    "a colocation": lambda make: make.node.attr["_class"].list.s.append(pick(make.draw, (b"loc:@n1", b"loc:@gone"))),
    "a call": lambda make: make.nodes.add(name="call", op="F", input=[make.source(pick(make.draw, (1, 1, 3)))]),
    "an op": lambda make: setattr(make.node, "op", pick(make.draw, ("", "NoSuchOp", "F", "identity", "NoOp"))),
    "a name": lambda make: setattr(make.node, "name", pick(make.draw, NAMES)),
    "a dtype": lambda make: _a_type(make, NUMBERS),
    "no dtype": lambda make: _a_type(make, [0, 999, 101, 120, -1]),
    "another attr": lambda make: _another_kind(make, ("foo", "_foo", "T", "N", "dtype")),
} | {
    mistake.__name__[1:].replace("_", " "): mistake
    for mistake in (
        _another_source, _another_port, _a_text, _below_minimum, _another_number, _a_list, _two_lists, _another_kind,
        _no_value, _a_placeholder, _another_input, _a_version, _a_signature, _a_ret, _output_shapes, _a_constant,
    )
}  # fmt: skip


@st.composite
def nodes_of(draw: st.DrawFn, op: str = "") -> tuple[str, list[str], bytes]:
    """OP, or any op, the mistakes that were made, and a GraphDef with a node of this op: its own, or in a function."""
    make = Maker(draw)
    make.in_body = make.flip(20)
    op = op or pick(draw, _OPS)
    make.add(op)
    mistakes = [pick(draw, list(MISTAKES)) for _ in range(pick(draw, (0, 1, 1, 1, 2)))]
    for mistake in mistakes:
        with suppress(IndexError):
            MISTAKES[mistake](make)
    if make.in_body:
        make.in_body = False
        call = make.graph.node.add(name="outside", op="F")  # which has TensorFlow look at the body
        call.input.extend([make.source(arg.type) for arg in make.function.signature.input_arg])
    return op, mistakes, make.graph.SerializeToString(deterministic=True)


_OPS = op_names()


EXAMPLES = int(os.environ.get("GDSURGEON_EXAMPLES", "300"))
OF_EACH_OP = EXAMPLES // 2 // len(op_names())

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def importer() -> Iterator[Importer]:
    with Importer() as started:
        yield started


def agrees(importer: Importer, made: st.SearchStrategy[tuple[str, list[str], bytes]], examples: int) -> None:
    """Has the two look at some EXAMPLES of what is MADE."""

    @settings(max_examples=examples, phases=[Phase.generate, Phase.shrink])
    @given(made)
    def look(one: tuple[str, list[str], bytes]) -> None:
        op, slips, data = one
        assert disagreement(importer, data) == "", (op, slips, GraphDef.FromString(data))

    look()


def test_structure_agrees_with_tensorflow(importer: Importer) -> None:
    agrees(importer, nodes_of(), EXAMPLES - OF_EACH_OP * len(op_names()))


@pytest.mark.skipif(not OF_EACH_OP, reason="there are fewer examples than ops")
def test_structure_agrees_with_tensorflow_on_each_op(importer: Importer) -> None:
    for op in op_names():
        agrees(importer, nodes_of(op), OF_EACH_OP)


@pytest.mark.parametrize("said", ["TensorFlow", "structure"])
def test_a_disagreement_is_seen(importer: Importer, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """The previous test can fail: if one side accepts everything, the other side reports the difference."""
    graph = GraphDef()
    graph.node.add(name="y", op="Identity", input=["x"] if said == "structure" else []).attr["T"].type = 1
    data = graph.SerializeToString()
    assert disagreement(importer, data) == ""
    sound = from_bytes(b"\n\x09\n\x01n\x12\x04NoOp")
    if said == "TensorFlow":
        monkeypatch.setattr("support.importer.from_bytes", lambda _: sound)
    else:
        monkeypatch.setattr(importer, "refusal", lambda _: "")
    assert disagreement(importer, data).startswith(f"{said} alone: ")
