"""Graphs that try to reach files or a network when they are loaded or run, in as many ways as are known.

Each is a function of the folder on which it has designs: it would read ``secret.txt`` there, or make another file; or
of the address of a server, to which it would connect.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gdsurgeon.wire.fields import encode_len
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    INT64,
    STRING,
    call,
    const,
    dtypes,
    func,
    function,
    graph_bytes,
    identity,
    library,
    node,
    placeholder,
    scalar,
    shape_proto,
    typed,
    versions,
)

SECRET = "secret.txt"
CONTENT = "1,2\n" * 40
"""The content of the file."""
PLACEHOLDER_W = encode_len(9, b"_w")
"""An AttrValue that stands for attr _w of the function's caller."""
ONE_SHAPE = encode_len(1, encode_len(7, shape_proto(())))
"""An AttrValue that holds a list of one shape, that of a scalar."""
X = placeholder("x", FLOAT, (1, 4))
Y_AFTER_W = identity("y", "x", "^w")


def text(name: str, *values: bytes | str, shape: tuple[int, ...] = ()) -> bytes:
    return const(name, values, STRING, shape)


def number(name: str, value: int, kind: bytes = INT64) -> bytes:
    return scalar(name, value, kind)


def yes(name: str, value: bool = True) -> bytes:
    return scalar(name, value, BOOL)


def writer(name: str, path: str, kind: bytes = FLOAT) -> Any:
    """A function that writes the file PATH and gives back what it takes."""
    out = function(
        name,
        text("path", path),
        text("content", "evil"),
        node("w", "WriteFile", ["path:output:0", "content:output:0"]),
        identity("y", "x", "^w", kind=kind),
        ret="y:output:0",
    )
    out.signature.input_arg[0].type = out.signature.output_arg[0].type = kind[1]
    out.signature.is_stateful = True
    return out


def caller(name: str, *body: bytes, ret: str) -> Any:
    out = function(name, *body, ret=ret)
    out.signature.is_stateful = True
    return out


def calls(name: str, source: str, what: bytes) -> bytes:
    """A stateful call whose attr f is WHAT."""
    kinds = {"Tin": dtypes(FLOAT), "Tout": dtypes(FLOAT)}
    plain = {"config": "", "config_proto": "", "executor_type": ""}
    return node(name, "StatefulPartitionedCall", [source], f=what, **kinds, **plain)


def with_library(*records: bytes, functions: Any, gradients: dict[str, str] | None = None) -> bytes:
    return graph_bytes(X, *records, library(*functions, gradients=gradients))


# -- files, in the graph itself -----------------------------------------------------------------------------


def print_to_file(folder: Path) -> bytes:
    out = f"file://{folder}/printed"
    return graph_bytes(X, text("m", "evil"), node("w", "PrintV2", ["m"], output_stream=out, end=""), Y_AFTER_W)


def print_in_body(folder: Path) -> bytes:
    out = f"file://{folder}/printed"
    body = caller(
        "F",
        text("m", "evil"),
        node("w", "PrintV2", ["m:output:0"], output_stream=out, end=""),
        identity("y", "x", "^w"),
        ret="y:output:0",
    )
    return with_library(calls("y", "x", func("F")), functions=[body])


def csv(op: str) -> Callable[[Path], bytes]:
    def build(folder: Path) -> bytes:
        kinds: dict[str, Any] = {
            "output_types": dtypes(INT32, INT32),
            "output_shapes": encode_len(1, encode_len(7, shape_proto(())) * 2),
        }
        empty = node("none", "Const", dtype=INT64, value=encode_len(8, b"\x08\x09" + encode_len(2, shape_proto((0,)))))
        defaults = [node(n, "Const", dtype=INT32, value=encode_len(8, b"\x08\x03\x12\x04\x12\x02\x08\x01\x38\x00"))
                    for n in ("d0", "d1")]  # fmt: skip
        return graph_bytes(
            text("path", str(folder / SECRET)), text("kind", ""), number("size", 64), yes("header", False),
            text("comma", ","), yes("quote"), text("na", ""), empty, *defaults,
            node("ds", op, ["path", "kind", "size", "header", "comma", "quote", "na", "none", "d0", "d1"], **kinds),
            number("one", 1), node("first", "TakeDataset", ["ds", "one"], **kinds),
            node("el", "DatasetToSingleElement", ["first"], **kinds), identity("y", "el", kind=INT32),
        )  # fmt: skip

    return build


def to_records(op: str) -> Callable[[Path], bytes]:
    def build(folder: Path) -> bytes:
        slices: dict[str, Any] = {"Toutput_types": dtypes(STRING), "output_shapes": ONE_SHAPE}
        return graph_bytes(
            X, text("c", "evil", shape=(1,)), node("ds", "TensorSliceDataset", ["c"], **slices),
            text("path", str(folder / "records")), text("kind", ""), node("w", op, ["ds", "path", "kind"]), Y_AFTER_W,
        )  # fmt: skip

    return build


def vocabulary(folder: Path) -> bytes:
    classes = node(
        "c", "Const", dtype=INT64, value=encode_len(8, b"\x08\x09\x12\x08\x12\x02\x08\x01\x12\x02\x08\x01\x50\x00")
    )
    sampler = node(
        "s", "FixedUnigramCandidateSampler", ["c"], num_true=1, num_sampled=1, unique=True, range_max=2,
        vocab_file=str(folder / SECRET), seed=1, seed2=2,
    )  # fmt: skip
    return graph_bytes(classes, sampler, identity("y", "s", kind=INT64))


def skipgram(folder: Path) -> bytes:
    made = node("s", "Skipgram", filename=str(folder / SECRET), batch_size=1, window_size=1, min_count=0, subsample=0.0)
    return graph_bytes(made, identity("y", "s:1", kind=INT32), trailer=versions(10))


def debug(op: str) -> Callable[[Path], bytes]:
    def build(folder: Path) -> bytes:
        return graph_bytes(X, typed(op, "y", "x", debug_urls=[f"file://{folder}/debug"], tensor_name="x:0"))

    return build


def read_for_a_shape(folder: Path) -> bytes:
    return graph_bytes(
        text("path", str(folder / SECRET)), node("r", "ReadFile", ["path"]),
        node("n", "StringLength", ["r"], unit="BYTE"), typed("Pack", "p", "n", kind=INT32, N=1, axis=0),
        scalar("v", 1.0), typed("Fill", "f", "p", "v", index_type=INT32), identity("y", "f"),
    )  # fmt: skip


def match_for_a_shape(folder: Path) -> bytes:
    return graph_bytes(
        text("path", f"{folder}/*"), node("m", "MatchingFiles", ["path"]),
        typed("Size", "n", "m", kind=STRING, out_type=INT32), typed("Pack", "p", "n", kind=INT32, N=1, axis=0),
        scalar("v", 1.0), typed("Fill", "f", "p", "v", index_type=INT32), identity("y", "f"),
    )  # fmt: skip


# -- a graph in a string ------------------------------------------------------------------------------------


def element_of(inner: bytes, kind: bytes) -> bytes:
    one: dict[str, Any] = {"output_types": dtypes(kind), "output_shapes": ONE_SHAPE}
    return graph_bytes(
        text("g", inner), node("ds", "DatasetFromGraph", ["g"]), node("el", "DatasetToSingleElement", ["ds"], **one),
        identity("y", "el", kind=kind),
    )  # fmt: skip


def graph_in_a_string_reads(folder: Path) -> bytes:
    one: dict[str, Any] = {"output_types": dtypes(STRING), "output_shapes": ONE_SHAPE}
    inner = graph_bytes(
        text("path", str(folder / SECRET), shape=(1,)), text("kind", ""), number("size", 64), number("one", 1),
        node("ds", "TextLineDataset", ["path", "kind", "size"]), node("t", "TakeDataset", ["ds", "one"], **one),
        node("ret", "_Retval", ["t"], T=b"\x30\x15", index=0),
    )  # fmt: skip
    return element_of(inner, STRING)


def mapped(folder: Path, *last: bytes) -> list[bytes]:
    one: dict[str, Any] = {"output_types": dtypes(INT64), "output_shapes": ONE_SHAPE}
    return [
        number("from", 0), number("to", 1), number("by", 1), node("r", "RangeDataset", ["from", "to", "by"], **one),
        node("m", "MapDataset", ["r"], f=func("W"), Targuments=encode_len(1, b""), **one), *last,
        library(writer("W", str(folder / "mapped"), INT64)),
    ]  # fmt: skip


def graph_in_a_string_writes(folder: Path) -> bytes:
    return element_of(graph_bytes(*mapped(folder, node("ret", "_Retval", ["m"], T=b"\x30\x15", index=0))), INT64)


def map_writes(folder: Path) -> bytes:
    one: dict[str, Any] = {"output_types": dtypes(INT64), "output_shapes": ONE_SHAPE}
    last = node("el", "DatasetToSingleElement", ["m"], **one)
    return graph_bytes(*mapped(folder, last, identity("y", "el", kind=INT64)))


# -- functions ----------------------------------------------------------------------------------------------


def attr_of_a_call_by_name(folder: Path) -> bytes:
    f = caller("F", calls("p", "x", PLACEHOLDER_W), ret="p:output:0")
    return with_library(node("y", "F", ["x"], _w=func("W")), functions=[writer("W", str(folder / "out")), f])


def attr_of_a_function(folder: Path) -> bytes:
    f = caller("F", calls("p", "x", PLACEHOLDER_W), ret="p:output:0")
    made = [writer("W", str(folder / "out")), f]
    return with_library(calls("y", "x", func("F", _w=func("W"))), functions=made)


def attr_of_a_call_inside(folder: Path) -> bytes:
    f = caller("F", calls("p", "x", PLACEHOLDER_W), ret="p:output:0")
    o = caller("O", node("p", "F", ["x"], _w=func("W")), ret="p:out:0")
    return with_library(calls("y", "x", func("O")), functions=[writer("W", str(folder / "out")), f, o])


def gradient(folder: Path) -> bytes:
    f = function("F", identity("y", "x"), ret="y:output:0")
    g = writer("G", str(folder / "out"))
    g.signature.input_arg.add(name="dy", type=1)
    kinds = {"Tin": dtypes(FLOAT, FLOAT), "Tout": dtypes(FLOAT)}
    made = node("y", "SymbolicGradient", ["x", "x"], f=func("F"), **kinds)
    return with_library(made, functions=[f, g], gradients={"F": "G"})


def implementation(folder: Path) -> bytes:
    f = function("F", identity("y", "x"), ret="y:output:0")
    w = writer("W", str(folder / "out"))
    for item, device in ((f, b"GPU"), (w, b"CPU")):
        item.attr["api_implements"].s = b"impl"
        item.attr["api_preferred_device"].s = device
    pads = [identity(f"pad{i}", f"pad{i - 1}" if i else "x") for i in range(6)]
    made = call("call", "F", ["pad5"], [FLOAT], [FLOAT], config_proto=b"\x12\x00", device="/device:CPU:0")
    return with_library(*pads, made, identity("y", "call"), functions=[f, w])


def remote(folder: Path) -> bytes:
    kinds = {"Tin": dtypes(FLOAT), "Tout": dtypes(FLOAT)}
    made = node("y", "RemoteCall", ["to", "x"], f=func("W"), **kinds)
    return with_library(text("to", "/device:CPU:0"), made, functions=[writer("W", str(folder / "out"))])


# -- networks -----------------------------------------------------------------------------------------------


def ranged() -> list[bytes]:
    one: dict[str, Any] = {"output_types": dtypes(INT64), "output_shapes": ONE_SHAPE}
    return [number("a", 0), number("b", 1), number("c", 1), node("ds", "RangeDataset", ["a", "b", "c"], **one)]


def registers(address: str) -> bytes:
    rest = {"external_state_policy": 0, "element_spec": "", "requested_dataset_id": "", "metadata": ""}
    made = node("r", "RegisterDatasetV2", ["ds", "at", "by"], **rest)
    return graph_bytes(*ranged(), text("at", address), text("by", "grpc"), made, identity("y", "r", kind=STRING))


def saves_far_away(address: str) -> bytes:
    made = node("w", "DistributedSave", ["ds", "folder", "at"], metadata="")
    return graph_bytes(X, *ranged(), text("folder", "/nowhere/far"), text("at", address), made, Y_AFTER_W)


def debugs_far_away(address: str) -> bytes:
    made = typed("DebugNanCount", "y", "x", debug_urls=[f"grpc://{address}"], tensor_name="x:0")
    return graph_bytes(X, made)


REACHING: dict[str, Callable[[Path], bytes]] = {
    "PrintV2 to a file": print_to_file,
    "PrintV2 in a body": print_in_body,
    "CSVDataset": csv("CSVDataset"),
    "ExperimentalCSVDataset": csv("ExperimentalCSVDataset"),
    "DatasetToTFRecord": to_records("DatasetToTFRecord"),
    "ExperimentalDatasetToTFRecord": to_records("ExperimentalDatasetToTFRecord"),
    "a vocabulary file": vocabulary,
    "Skipgram": skipgram,
    "DebugNanCount": debug("DebugNanCount"),
    "DebugNumericSummary": debug("DebugNumericSummary"),
    "ReadFile for a shape": read_for_a_shape,
    "MatchingFiles for a shape": match_for_a_shape,
    "a graph in a string that reads": graph_in_a_string_reads,
    "a graph in a string that writes": graph_in_a_string_writes,
    "MapDataset": map_writes,
    "an attr of a call by name": attr_of_a_call_by_name,
    "an attr of a function": attr_of_a_function,
    "an attr of a call inside": attr_of_a_call_inside,
    "a gradient function": gradient,
    "another implementation": implementation,
    "RemoteCall": remote,
}
"""Ways to files, by what they go."""
CONNECTING: dict[str, Callable[[str], bytes]] = {
    "RegisterDatasetV2": registers,
    "DistributedSave": saves_far_away,
    "debug_urls of grpc": debugs_far_away,
}
"""Ways to a server; they need its address."""
