"""MetaGraphs with variables, as TensorFlow 1 trains and saves them; and what TensorFlow does with clones of them.

Run with -m, and asked as `aside.py` says: to make them, then to try their clones.

The checkpoint and the MetaGraph of each are FOLDER/NAME/model.ckpt. The network is under ``net``, from ``x`` to
``net/out``; its clone, which is tried, under ``copy`` in FOLDER/NAME/copy. What does not hold is in FOLDER/NAME/said.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from support.aside import Answer, Request, serve
from support.saved_models import layers

PREFIX, CLONE, SAID = "model.ckpt", "copy", "said"
SOURCE, TARGET = "net", "copy"
X = (np.arange(12, dtype=np.float32).reshape(3, 4) - 5) / 8
CHECKPOINTS = ("ref", "resource", "part_ref", "part_resource", "sharded", "v1", "loop", "trained_inside", "old")
SERVED = "served"
"""The SavedModel among them."""


def make(folder: str) -> None:
    """Makes all of them."""
    import tensorflow as tf

    tf.compat.v1.disable_control_flow_v2()
    for name, build in _builders(tf).items():
        path = os.path.join(folder, name)
        config = tf.compat.v1.ConfigProto(device_count={"CPU": 2})
        with tf.Graph().as_default(), tf.compat.v1.Session(config=config) as session:
            build(session, path)
    tf.compat.v1.enable_control_flow_v2()


def _builders(tf: Any) -> Mapping[str, Callable[[Any, str], None]]:
    v1 = tf.compat.v1

    def kept(saver: Mapping[str, Any] | None = None, **how: Any) -> Callable[[Any, str], None]:
        def build(session: Any, path: str) -> None:
            _trained(tf, session, **how)
            os.makedirs(path)
            v1.train.Saver(**(saver or {})).save(session, os.path.join(path, PREFIX))

        return build

    def served(session: Any, path: str) -> None:
        x, out = _net(tf)
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        signature = v1.saved_model.predict_signature_def({"x": x}, {"y": out})
        builder = v1.saved_model.Builder(path)
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
        builder.save()

    return {
        "ref": kept(),
        "resource": kept(resource=True),
        "part_ref": kept(parts=2),
        "part_resource": kept(parts=2, resource=True),
        "sharded": kept({"sharded": True}, device="/cpu:1"),
        "v1": kept({"write_version": v1.train.SaverDef.V1}, parts=2),
        "loop": kept(build=_loop),
        "trained_inside": kept(inside=True),
        "old": _old(tf),
        SERVED: served,
    }


def _net(tf: Any, parts: int = 0, resource: bool = False, device: str | None = None) -> tuple[Any, Any]:
    """Two dense layers under ``net``; variables in PARTS where these are asked for."""
    x, w, b, v = layers(tf, parts, resource, device)
    with tf.name_scope("net/"):
        return x, tf.identity(tf.nn.sigmoid(x @ w + b) @ v, "out")


def _old(tf: Any) -> Callable[[Any, str], None]:
    """As a Saver saved and restored before TensorFlow 1.0: an op restores one variable."""
    v1, ops = tf.compat.v1, tf.raw_ops

    def build(session: Any, path: str) -> None:
        _trained(tf, session)
        os.makedirs(path)
        prefix, variables = os.path.join(path, PREFIX), v1.global_variables()
        names = [variable.op.name for variable in variables]
        with v1.name_scope("save"):
            file = tf.constant("model", name="Const")
            values = [tf.convert_to_tensor(variable) for variable in variables]
            saved = ops.SaveSlices(filename=file, tensor_names=names, shapes_and_slices=[""] * len(names), data=values)
            with v1.control_dependencies([saved]):
                done = tf.identity(file, "control_dependency")
            assigned = []
            for number, (name, variable) in enumerate(zip(names, variables, strict=True)):
                how = {"file_pattern": file, "tensor_name": name, "dt": variable.dtype.base_dtype}
                is_slice = number % 2 == 0
                value = ops.RestoreSlice(shape_and_slice="", **how) if is_slice else ops.Restore(**how)
                assigned.append(variable.assign(tf.reshape(value, variable.shape), read_value=False))
            restore = tf.group(*assigned, name="restore_all")
        session.run(done, {file: prefix})
        saver = v1.train.SaverDef(
            filename_tensor_name=file.name, save_tensor_name=done.name, restore_op_name=restore.name, version=1
        )
        v1.train.export_meta_graph(f"{prefix}.meta", saver_def=saver)

    return build


def _loop(tf: Any) -> tuple[Any, Any]:
    """A loop of Enter, Exit, Switch and Merge, and a conditional behind it, under ``net``."""
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, [None, 4], "x")
    with v1.variable_scope("net", use_resource=False):
        w = v1.get_variable("w", [4, 4], initializer=v1.random_normal_initializer(seed=1))
        y = v1.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.tanh(a @ w)), [tf.constant(0), x])[1]
        y = v1.cond(tf.reduce_sum(x) < 100.0, lambda: y * w[0, 0], lambda: y)
        return x, tf.identity(y, "out")


def _trained(tf: Any, session: Any, build: Callable[..., Any] = _net, inside: bool = False, **how: Any) -> None:
    x, out = build(tf, **how)
    v1 = tf.compat.v1
    step = v1.train.get_or_create_global_step()
    scope = v1.variable_scope("net" if inside else v1.get_variable_scope(), auxiliary_name_scope=False)
    with scope, v1.name_scope("net/" if inside else None):
        train = v1.train.AdamOptimizer(0.01).minimize(tf.reduce_sum(out**2), step, name="train")
    session.run(v1.global_variables_initializer())
    session.run(train, {x: X})


def attempt_all(folder: str) -> None:
    """Tries the clones of all, and writes down what fails."""
    import tensorflow as tf

    tf.compat.v1.disable_eager_execution()
    for name in (*CHECKPOINTS, SERVED):
        said = ""
        try:
            attempt(tf, os.path.join(folder, name, CLONE))
        except Exception:  # whatever TensorFlow has against it
            said = traceback.format_exc()
        with open(os.path.join(folder, name, SAID), "w") as file:
            file.write(said)


def attempt(tf: Any, prefix: str) -> None:
    """Restores the clone, trains it and the original, saves and restores all of it; asserts what has to hold."""
    v1 = tf.compat.v1
    config = v1.ConfigProto(device_count={"CPU": 2})
    with v1.Session(graph=tf.Graph(), config=config) as session:
        if os.path.isdir(prefix):
            v1.saved_model.load(session, ["serve"], prefix)
        else:
            v1.train.import_meta_graph(f"{prefix}.meta").restore(session, prefix)
        everything = {variable.op.name: variable for variable in v1.global_variables()}
        trained = {variable.op.name: variable for variable in v1.trainable_variables()}
        originals = {name: variable for name, variable in trained.items() if name.startswith(f"{SOURCE}/")}
        copies = {name: trained[TARGET + name[len(SOURCE) :]] for name in originals}
        assert originals and not any("Adam" in name for name in everything if name.startswith(f"{TARGET}/"))
        assert len(set(everything.values())) == len(v1.global_variables())

        def values(variables: Mapping[str, Any]) -> dict[str, Any]:
            return {name: session.run(variable) for name, variable in variables.items()}

        def outputs() -> list[Any]:
            given: list[Any] = session.run([f"{SOURCE}/out:0", f"{TARGET}/out:0"], {"x:0": X})
            return given

        def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[bool]:
            return [np.array_equal(one[name], other[name]) for name in one]

        start = values(originals)
        assert all(same(start, values(copies)))
        first, second = outputs()
        assert np.array_equal(first, second)

        def train(variables: Mapping[str, Any], scope: str) -> None:
            loss = tf.reduce_sum((session.graph.get_tensor_by_name(f"{scope}/out:0") - 1.0) ** 2)
            step = v1.train.GradientDescentOptimizer(0.05).minimize(loss, var_list=list(variables.values()))
            for _ in range(2):
                session.run(step, {"x:0": X})

        train(copies, TARGET)
        trained_copies = values(copies)
        assert all(same(values(originals), start)) and not any(same(trained_copies, start))
        assert np.array_equal(outputs()[0], first) and not np.array_equal(outputs()[1], first)

        fresh = v1.train.Saver(v1.global_variables())
        path = fresh.save(session, f"{prefix}.fresh")
        stored = dict(tf.train.list_variables(path))
        assert any(key.startswith(f"{TARGET}/") for key in stored), stored
        train(originals, SOURCE)
        assert all(same(values(copies), trained_copies)) and not any(same(values(originals), start))
        fresh.restore(session, path)
        assert all(same(values(originals), start)) and all(same(values(copies), trained_copies))
        if any(op.name == "init" for op in session.graph.get_operations()):
            uninitialised = v1.report_uninitialized_variables(list(everything.values()))
            with v1.Session(graph=session.graph, config=config) as another:
                another.run("init")
                assert not another.run(uninitialised).size


def made(request: Request) -> Answer:
    make(request["folder"])
    return {}


def tried(request: Request) -> Answer:
    attempt_all(request["folder"])
    return {}


if __name__ == "__main__":
    serve({"make": made, "try": tried})
