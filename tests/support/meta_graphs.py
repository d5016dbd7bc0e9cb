"""A SavedModel that is made without TensorFlow: a variable and its saver, an asset, and whatever else names a node."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gdsurgeon.ops.dtypes import NUMBERS
from gdsurgeon.wire.protos import MetaGraphDef, QueueRunnerDef, SaverDef, VariableDef, WhileContextDef, message
from support.bundles import Drawn, files_of
from support.graphs import (
    FLOAT,
    STRING,
    VERSIONS,
    add,
    dtypes,
    graph_bytes,
    identity,
    node,
    placeholder,
    tensor,
    typed,
)

Spell = Callable[[str], str]
KEY = "net/w"
"""Of the variable, in the checkpoint."""


def graph(at: Spell = str, key: str = KEY, restored: bool = True) -> bytes:
    """y = x * w: with a saver, an initialiser, an asset, and what a trainer left."""

    def text(name: str, *values: str, shape: Sequence[int] | None = None) -> bytes:
        return node(at(name), "Const", dtype=STRING, value=tensor(values, STRING, shape))

    restore = [at("save/file"), at("save/names"), at("save/slices")]
    return graph_bytes(
        placeholder(at("x"), FLOAT, (-1, 2)), node(at("w"), "VariableV2", dtype=FLOAT, shape=(2,)),
        node(at("w/initial"), "Const", dtype=FLOAT, value=tensor([0, 0])),
        typed("Assign", at("w/Assign"), at("w"), at("w/initial"), _class=["loc:@" + at("w")]),
        identity(at("w/read"), at("w"), _class=["loc:@" + at("w")]),
        typed("Mul", at("y"), at("x"), at("w/read")),
        add(at("unused"), at("y"), at("y")),
        text("asset", "words.txt", shape=()),
        identity(at("path"), at("asset"), kind=STRING), node(at("init"), "NoOp", ["^" + at("path")]),
        text("save/file", "model", shape=()),
        text("save/names", key),
        text("save/slices", ""),
        node(at("save/SaveV2"), "SaveV2", [*restore, at("w")], dtypes=dtypes(FLOAT)),
        identity(at("save/saved"), at("save/file"), "^" + at("save/SaveV2"), kind=STRING),
        node(at("save/RestoreV2"), "RestoreV2", restore, dtypes=dtypes(FLOAT)),
        *([typed("Assign", at("save/Assign"), at("w"), at("save/RestoreV2"))] if restored else []),
        node(at("save/all"), "NoOp", ["^" + at("save/Assign")] if restored else []),
        trailer=VERSIONS,
    )  # fmt: skip


def meta_graph(at: Spell = str, *, objects: bool = False, tags: Sequence[str] = ("serve",), **how: Any) -> Any:
    """The MetaGraphDef around `graph`. AT says how nodes are called; OBJECTS: as TensorFlow 2 has it."""
    out = MetaGraphDef()
    out.meta_info_def.tags.extend(tags)
    out.graph_def.MergeFromString(graph(at, **how))
    out.saver_def.filename_tensor_name = at("save/file") + ":0"
    out.saver_def.save_tensor_name = at("save/saved") + ":0"
    out.saver_def.restore_op_name = at("save/all")
    out.saver_def.version = 2
    signature = out.signature_def["serving_default"]
    signature.method_name = "tensorflow/serving/predict"
    signature.inputs["x"].name = at("x") + ":0"
    signature.outputs["y"].name = at("y") + ":0"
    sparse = out.signature_def["sparse"].inputs["s"].coo_sparse
    sparse.values_tensor_name, sparse.indices_tensor_name = at("x") + ":0", at("w/initial") + ":0"
    sparse.dense_shape_tensor_name = at("w/read") + ":0"
    ragged = out.signature_def["ragged"].outputs["r"].composite_tensor
    ragged.components.add(name=at("y") + ":0")
    asset = out.asset_file_def.add(filename="words.txt")
    asset.tensor_info.name = at("asset") + ":0"
    _fill_collections(out.collection_def, at, asset)
    if objects:
        item = out.object_graph_def.nodes.add()
        item.constant.operation = at("w/initial")
    return out


def serving(inputs: Mapping[str, str], outputs: Mapping[str, str], *more: bytes) -> Any:
    """The same with one signature of INPUTS and OUTPUTS, tensors by what callers say, and the nodes MORE."""
    out = meta_graph()
    out.graph_def.MergeFromString(b"".join(more))
    del out.signature_def["sparse"], out.signature_def["ragged"]
    for side, tensors in ((out.signature_def["serving_default"].inputs, inputs),
                          (out.signature_def["serving_default"].outputs, outputs)):  # fmt: skip
        side.clear()
        for name, tensor_name in tensors.items():
            side[name].name = tensor_name
    return out


def _fill_collections(collections: Any, at: Spell, asset: Any) -> None:
    """Every kind of collection that names nodes, and some that name none."""
    variable = VariableDef()
    variable.variable_name, variable.initializer_name = at("w") + ":0", at("w/Assign")
    variable.initial_value_name, variable.snapshot_name = at("w/initial") + ":0", at("w/read") + ":0"
    variable.save_slice_info_def.full_name = KEY
    for key in ("variables", "trainable_variables", "of_our_own"):
        collections[key].bytes_list.value.append(variable.SerializeToString())
    collections["saved_model_main_op"].node_list.value.append(at("init"))
    collections["losses"].node_list.value.extend([at("unused") + ":0", at("y") + ":0"])
    collections["saved_model_assets"].any_list.value.add().Pack(asset)
    collections["rates"].float_list.value.append(0.5)
    collections["notes"].bytes_list.value.append(b"y")
    loop = WhileContextDef()
    loop.context_name = "loop"
    loop.pivot_name, loop.pivot_for_pred_name, loop.pivot_for_body_name = at("w/initial"), at("x"), at("y")
    loop.loop_exit_names.append(at("y") + ":0")
    loop.loop_enter_names.append(at("w") + ":0")
    loop.values_def.values.extend([at("x"), at("w/read") + ":0"])
    loop.values_def.external_values[at("x")] = at("w") + ":0"
    choice = loop.nested_contexts.add().cond_ctxt
    choice.pred_name, choice.pivot_name = at("w/initial") + ":0", at("y") + ":0"
    choice.values_def.values.append(at("y") + ":0")
    collections["while_context"].bytes_list.value.append(loop.SerializeToString(deterministic=True))
    runner = QueueRunnerDef()
    runner.queue_name, runner.close_op_name, runner.cancel_op_name = at("asset"), at("init"), at("save/all")
    runner.enqueue_op_name.extend([at("w/Assign"), at("unused")])
    collections["queue_runners"].bytes_list.value.append(runner.SerializeToString())
    saver = SaverDef()
    saver.filename_tensor_name, saver.restore_op_name = at("save/file") + ":0", at("save/all")
    saver.save_tensor_name = at("save/saved") + ":0"
    collections["savers"].bytes_list.value.append(saver.SerializeToString())
    collections["cond_context"].bytes_list.value.append(choice.SerializeToString(deterministic=True))


def saved_model(*graphs: Any) -> Any:
    """A SavedModel of MetaGraphDefs."""
    return message("tensorflow.SavedModel")(saved_model_schema_version=1, meta_graphs=graphs or (meta_graph(),))


def checkpoint(folder: Path, prefix: str, key: str = KEY, dtype: str = "float32", count: int = 2) -> None:
    """Writes the checkpoint PREFIX with the variable: 1.5, 2.5, ..."""
    kind = NUMBERS[dtype]
    data = struct.pack(f"<{count}{'f' if dtype == 'float32' else 'i'}",
                       *[i + (1.5 if dtype == "float32" else 1) for i in range(count)])  # fmt: skip
    for path, content in files_of([Drawn(key, kind, (count,), data, ((None, 0),))], prefix).items():
        (folder / path).write_bytes(content)


def put(folder: Path, *graphs: Any, values: bool = True) -> Path:
    """Writes the folder of a SavedModel."""
    for part in ("variables", "assets"):
        (folder / part).mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(saved_model(*graphs).SerializeToString(deterministic=True))
    (folder / "fingerprint.pb").write_bytes(b"\x08\x01")
    (folder / "assets" / "words.txt").write_bytes(b"a\nb\n")
    if values:
        checkpoint(folder, os.path.join("variables", "variables"))
    return folder


def read(folder: Path | str) -> Any:
    """The SavedModel in FOLDER."""
    return message("tensorflow.SavedModel").FromString((Path(folder) / "saved_model.pb").read_bytes())
