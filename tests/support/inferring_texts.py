"""Inputs with texts, their consumers, and the texts that are generated for them."""

from __future__ import annotations

from typing import Any

from support.feeding import feed_of
from support.graphs import Builder


def texts(m: Builder, seed: int = 0) -> list[bytes]:
    data = feed_of(m, seed).data
    assert isinstance(data, list)
    return data


def text_input(shape: tuple[int, ...] = ()) -> Builder:
    m = Builder()
    m.placeholder("x", "string", shape)
    return m


def reshaped(m: Builder, source: str, dims: list[int], dtype: str) -> str:
    m.const(f"dims_of_{source}", dims, "int32")
    return m.typed("Reshape", "y", source, f"dims_of_{source}", kind=dtype, Tshape="int32")


def line(types: list[str], **attrs: Any) -> Builder:
    m = text_input((3,))
    for i, dtype in enumerate(types):
        m.const(f"default_{i}", [], dtype)
    defaults = [f"default_{i}" for i in range(len(types))]
    listed: dict[str, Any] = {"OUT_TYPE": types, "field_delim": ",", "use_quote_delim": True, "na_value": ""}
    m.node("csv", "DecodeCSV", ["x", *defaults], **{**listed, "select_cols": [], **attrs})
    for i, dtype in enumerate(types):
        m.typed("Identity", f"y{i}", f"csv:{i}" if i else "csv", kind=dtype)
    return m


LINES: dict[str, Builder] = {
    "plain": line(["float32", "int32", "string", "int64", "float64"]),
    "semicolons": line(["float32", "string"], field_delim=";"),
    "spaces": line(["int32", "string", "float32"], field_delim=" "),
    "columns": line(["float32", "int32"], select_cols=[1, 4]),
}


def inside(op: str, **attrs: Any) -> Builder:
    """What OP takes out of a text is a float32 [2,3] of raw bytes."""
    m = text_input()
    m.node("opened", op, ["x"], **attrs)
    m.node("raw", "DecodeRaw", ["opened"], out_type="float32", little_endian=True)
    reshaped(m, "raw", [2, 3], "float32")
    return m


def parse_single(*dense: tuple[str, str, tuple[int, ...]], batch: int | None = None) -> Builder:
    """A ParseExample (of a BATCH) or ParseSingleExample of dense features (key, dtype, shape) without defaults."""
    m = text_input(() if batch is None else (batch,))
    keys = [key for key, _, _ in dense]
    for key, dtype, _ in dense:
        m.const(f"no_{key}", [], dtype)
    attrs = {"Tdense": [dtype for _, dtype, _ in dense], "dense_shapes": [tuple(shape) for _, _, shape in dense]}
    defaults = [f"no_{key}" for key in keys]
    if batch is None:
        more = {"num_sparse": 0, "sparse_keys": [], "sparse_types": [], "dense_keys": [*keys]}
        m.node("parsed", "ParseSingleExample", ["x", *defaults], **attrs, **more)
    else:
        m.const("names", [], "string")
        m.const("nothing", [], "string")
        m.const("keys", keys, "string")
        more = {"num_sparse": 0, "sparse_types": [], "ragged_value_types": [], "ragged_split_types": []}
        inputs = ["x", "names", "nothing", "keys", "nothing", *defaults]
        m.node("parsed", "ParseExampleV2", inputs, **attrs, **more)
    return m


def output(i: int) -> str:
    return f"parsed:{i}" if i else "parsed"


DENSE = [("width", "float32", (2,)), ("label", "string", ())]


LISTS = [("frames", "float32", (4,)), ("words", "int64", ())]


def sequences(op: str) -> Builder:
    """Asks for two dense features, two feature lists, and one sparse of both sorts; none has a default."""
    single = op == "ParseSingleSequenceExample"
    m = text_input(() if single else (2,))
    for key, dtype, _ in DENSE:
        m.const(f"no_{key}", [], dtype)
    defaults = [f"no_{key}" for key, _, _ in DENSE]
    m.const("name", "" if single else [], "string")
    m.const("none", [], "string")
    keys = {
        "context_sparse": ["tags"],
        "context_dense": [key for key, _, _ in DENSE],
        "feature_list_sparse": ["marks"],
        "feature_list_dense": [key for key, _, _ in LISTS],
    }
    attrs: dict[str, Any] = {
        "context_sparse_types": ["string"],
        "Tcontext_dense": [dtype for _, dtype, _ in DENSE],
        "context_dense_shapes": [tuple(shape) for _, _, shape in DENSE],
        "feature_list_sparse_types": ["int64"],
        "feature_list_dense_types": [dtype for _, dtype, _ in LISTS],
        "feature_list_dense_shapes": [tuple(shape) for _, _, shape in LISTS],
    }
    if op != "ParseSequenceExampleV2" or single:
        attrs |= {"Ncontext_sparse": 1, "Ncontext_dense": 2, "Nfeature_list_sparse": 1, "Nfeature_list_dense": 2}
    if op == "ParseSequenceExample":
        attrs |= {f"{kind}_keys": found for kind, found in keys.items()}
        attrs["feature_list_dense_missing_assumed_empty"] = []
        m.node("parsed", op, ["x", "name", *defaults], **attrs)
    elif op == "ParseSequenceExampleV2":
        ragged = {"context_ragged": [], "feature_list_ragged": ["parts"]}
        order = ["context_sparse", "context_dense", "context_ragged"]
        order += ["feature_list_sparse", "feature_list_dense", "feature_list_ragged"]
        for kind, found in {**keys, **ragged}.items():
            m.const(kind, found, "string")
        m.const("missing", [False, False], "bool")
        attrs |= {"context_ragged_value_types": [], "context_ragged_split_types": []}
        attrs |= {"feature_list_ragged_value_types": ["int64"], "feature_list_ragged_split_types": ["int64"]}
        attrs |= {"Ncontext_sparse": 1, "Nfeature_list_sparse": 1, "Nfeature_list_dense": 2}
        m.node("parsed", op, ["x", "name", *order, "missing", *defaults], **attrs)
    else:
        parts = [m.const(f"key_{kind}_{key}", key, "string") for kind, found in keys.items() for key in found]
        m.node("parsed", op, ["x", "none", *parts, *defaults, "name"], **attrs)
    m.typed("Identity", "tags", "parsed:1", kind="string")
    m.typed("Identity", "width", "parsed:3")
    m.typed("Identity", "label", "parsed:4", kind="string")
    m.typed("Identity", "marks", "parsed:6", kind="int64")
    m.typed("Identity", "frames", "parsed:8")
    m.const("rows", [[1.0], [2.0]])
    m.const("axis", 0, "int32")
    m.node("emb", "GatherV2", ["rows", "parsed:9", "axis"], Tparams="float32", Tindices="int64", Taxis="int32")
    if op == "ParseSequenceExampleV2":
        m.const("few", [[5.0], [6.0]])
        m.node("parts", "GatherV2", ["few", "parsed:12", "axis"], Tparams="float32", Tindices="int64", Taxis="int32")
    return m


def table_of(m: Builder, keys: list[str], name: str = "labels") -> str:
    attrs = {"key_dtype": "string", "value_dtype": "int64", "container": "", "use_node_name_sharing": False}
    m.node(name, "HashTableV2", shared_name=f"{name} {len(keys)}", **attrs)
    m.const(f"{name}_keys", keys, "string")
    m.const(f"{name}_values", list(range(len(keys))), "int64")
    m.node(f"{name}_init", "InitializeTableV2", [name, f"{name}_keys", f"{name}_values"], Tkey="string", Tval="int64")
    return name
