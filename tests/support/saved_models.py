"""Makes SavedModels and checkpoints, and records what TensorFlow computes with them, in a process of its own.

    python -m support.saved_models FOLDER

Models of TensorFlow 2 lie in FOLDER/NAME, as do those of TensorFlow 1; checkpoints with their MetaGraph are
FOLDER/NAME/model.ckpt. FOLDER/NAME.KEY.npz has the inputs and outputs of the signature KEY, as a loader ran it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

OBJECTS = (
    "bfloat16", "branches", "dense", "embedding", "keras", "keras_saved", "loop", "lstm", "several", "strings",
    "table2",
)  # fmt: skip
"""SavedModels of TensorFlow 2."""
NODES = ("chosen", "parsed", "part_ref", "part_resource", "ref", "resource", "table1", "while1")
"""SavedModels of TensorFlow 1."""
CHECKPOINTS = ("ckpt_ref", "ckpt_sharded", "ckpt_part", "ckpt_v1")
"""Checkpoints of TensorFlow 1."""
CHECKPOINT = "model.ckpt"
TRAINED = {"x": "x:0"}, {"y": "y:0"}
"""The inputs and outputs of a checkpoint's graph, which has no signature."""
EXAMPLES = "examples"


def made(path: str) -> Iterator[tuple[str, str, Mapping[str, Any], Mapping[str, Any]]]:
    """Makes all of them in the folder PATH; yields (name, key of the signature, its inputs, its outputs)."""
    os.environ |= {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    import tensorflow as tf

    with open(os.path.join(path, "words.txt"), "w") as file:
        file.write("a\nb\nc\n")
    words = os.path.join(path, "words.txt")
    for name, (model, signatures) in _with_objects(tf, words).items():
        folder = os.path.join(path, name)
        if signatures is None:
            model.export(folder, verbose=False)
        else:
            tf.saved_model.save(model, folder, signatures=signatures)
        loaded = tf.saved_model.load(folder)
        for key, function in loaded.signatures.items():
            feeds = {k: _fed(spec) for k, spec in function.structured_input_signature[1].items()}
            given = function(**{k: tf.constant(value) for k, value in feeds.items()})
            yield name, key, feeds, {k: _plain(value.numpy()) for k, value in given.items()}
    tf.compat.v1.disable_control_flow_v2()
    for name, build in _of_nodes(tf, words).items():
        with tf.Graph().as_default(), tf.compat.v1.Session(config=_two_devices(tf)) as session:
            feeds, fetches = build(session, os.path.join(path, name))
            given = session.run(fetches, dict(feeds.values()))
            yield name, "serving_default", {k: v for k, (_, v) in feeds.items()}, {k: _plain(given[k]) for k in given}


def _fed(spec: Any) -> np.ndarray:
    """A value for an input."""
    shape = [3 if size is None else size for size in spec.shape]
    count = int(np.prod(shape))
    if spec.dtype.name == "string":
        return np.resize(np.array([b"b", b"zz", b"a"], object), shape)
    values = np.arange(count).reshape(shape) % 3
    return (values + 0.25 if spec.dtype.is_floating else values).astype(spec.dtype.as_numpy_dtype)


def _plain(value: np.ndarray) -> np.ndarray:
    """VALUE as an array that a file can hold: what numpy has no dtype for is float32 there."""
    return value.astype(np.float32) if value.dtype.name == "bfloat16" else value


def _two_devices(tf: Any) -> Any:
    return tf.compat.v1.ConfigProto(device_count={"CPU": 2})


# -- TensorFlow 2 --------------------------------------------------------------------------------------------


def _with_objects(tf: Any, words: str) -> dict[str, tuple[Any, Any]]:
    """(model, its signatures; None: it exports itself) by name."""
    import keras

    keras.utils.set_random_seed(1)
    layers = keras.layers

    def one(arguments: Mapping[str, tuple[Any, ...]], serve: Callable[..., Any], **variables: Any) -> tuple[Any, Any]:
        """A module of VARIABLES, (value, name) each, with one signature, SERVE(module, ...)."""
        module = tf.Module()
        for name, value in variables.items():
            setattr(module, name, tf.Variable(value, name=name))
        specs = [tf.TensorSpec(shape, dtype, name=name) for name, (shape, dtype) in arguments.items()]
        module.serve = tf.function(lambda *given: serve(module, *given), input_signature=specs)
        return module, module.serve

    matrix = tf.random.stateless_normal((4, 3), (1, 2))
    number = {"x": ([None, 4], tf.float32)}
    picked = {"at": ([None], tf.int32)}
    return {
        "bfloat16": one(number, _bfloat16(tf), w=tf.cast(matrix, tf.bfloat16), h=tf.ones(3, tf.float16)),
        "branches": one(number | {"n": ([], tf.int32)}, _branches(tf), a=matrix, b=-matrix),
        "dense": one(number, lambda m, x: {"y": x @ m.w + m.b}, w=matrix, b=tf.ones(3)),
        "embedding": one(
            picked, lambda m, at: {"row": tf.gather(m.e, at), "item": tf.gather_nd(m.e, at[:, None] * [[1, 1]])},
            e=matrix,
        ),
        "keras": (keras.Sequential([layers.Input((3,), name="seen"), layers.Dense(2)]), None),
        "keras_saved": _keras_saved(tf),
        "loop": one({"x": ([None, 3], tf.float32), "n": ([], tf.int32)}, _loop(tf), w=tf.eye(3) * 1.1, c=2.0),
        "lstm": (keras.Sequential([layers.Input((5, 3), name="steps"), layers.LSTM(4), layers.Dense(2)]), None),
        "several": _several(tf),
        "strings": one(picked, lambda m, at: {"label": tf.gather(m.s, at)}, s=["a", "bc", ""]),
        "table2": _table2(tf, words),
    }  # fmt: skip


def _keras_saved(tf: Any) -> tuple[Any, Any]:
    """Saved by tf.saved_model.save, which restores copies of the variables that the signature reads."""
    import keras

    layers = keras.layers
    model = keras.Sequential([layers.Input((3,)), layers.Dense(2), layers.BatchNormalization(), layers.Dropout(0.2)])
    model.compile("adam", "mse")
    model.fit(X[:, :3], X[:, 2:], verbose=0)
    return model, tf.function(lambda x: {"y": model(x)}, input_signature=[tf.TensorSpec([None, 3], name="x")])


def _bfloat16(tf: Any) -> Callable[..., Any]:
    """No product of matrices: oneDNN has none in bfloat16 for AVX2, and TensorFlow aborts if it is held to that."""

    def serve(m: Any, x: Any) -> Any:
        products = tf.cast(x, tf.bfloat16)[:, :, tf.newaxis] * m.w
        return {"y": tf.cast(tf.reduce_sum(products, 1), tf.float32) + tf.cast(m.h, tf.float32)}

    return serve


def _branches(tf: Any) -> Callable[..., Any]:
    """Variables are read in the branches of a case, and their shapes asked for."""

    def serve(m: Any, x: Any, n: Any) -> Any:
        @tf.function
        def times(w: Any) -> Any:
            return x @ w

        chosen = tf.switch_case(n, [lambda: times(m.a), lambda: times(m.b) * 2.0, lambda: times(m.a) + times(m.b)])
        return {"y": chosen, "shape": tf.raw_ops.VariableShape(input=m.a.handle)}

    return serve


def _loop(tf: Any) -> Callable[..., Any]:
    def serve(m: Any, x: Any, n: Any) -> Any:
        def more(i: Any, y: Any) -> Any:
            y = y @ m.w
            return i + 1, tf.cond(tf.reduce_sum(y) > 10.0, lambda: y / m.c, lambda: y)

        return {"y": tf.while_loop(lambda i, _: i < n, more, (0, x))[1]}

    return serve


def _several(tf: Any) -> tuple[Any, Any]:
    module = tf.Module()
    module.w = tf.Variable(tf.random.stateless_normal((4, 3), (3, 4)), name="w")
    module.count = tf.Variable(0, dtype=tf.int64, name="count", trainable=False)
    x, k = tf.TensorSpec([None, 4], name="x"), tf.TensorSpec([], name="k")
    module.plain = tf.function(lambda x: {"y": x @ module.w}, input_signature=[x])
    module.scaled = tf.function(lambda x, k: {"y": module.plain(x)["y"] * k, "k": k}, input_signature=[x, k])
    module.counted = tf.function(lambda: {"n": module.count.assign_add(1)}, input_signature=[])
    return module, {"serving_default": module.plain, "scaled": module.scaled, "counted": module.counted}


def _table2(tf: Any, words: str) -> tuple[Any, Any]:
    module = tf.Module()
    module.table = tf.lookup.StaticVocabularyTable(_of_lines(tf, words), 2)
    module.e = tf.Variable(tf.reshape(tf.range(10.0), (5, 2)), name="e")
    spec = tf.TensorSpec([None], tf.string, name="words")
    module.serve = tf.function(lambda w: {"e": tf.gather(module.e, module.table.lookup(w))}, input_signature=[spec])
    return module, module.serve


def _of_lines(tf: Any, words: str) -> Any:
    index = tf.lookup.TextFileIndex
    return tf.lookup.TextFileInitializer(words, tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER)


# -- TensorFlow 1 --------------------------------------------------------------------------------------------

X = np.arange(12, dtype=np.float32).reshape(3, 4) / 8
Built = tuple[dict[str, tuple[Any, np.ndarray]], dict[str, Any]]


def _of_nodes(tf: Any, words: str) -> dict[str, Callable[[Any, str], Built]]:
    """What builds and saves each: given a session and a path it returns inputs, with values, and outputs."""

    def served(build: Callable[..., Built], **how: Any) -> Callable[[Any, str], Built]:
        def run(session: Any, path: str) -> Built:
            feeds, fetches = build(tf, **how)
            v1 = tf.compat.v1
            session.run([v1.global_variables_initializer(), v1.tables_initializer()])
            builder = v1.saved_model.Builder(path)
            signature = v1.saved_model.predict_signature_def({k: t for k, (t, _) in feeds.items()}, fetches)
            assets = v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS)
            builder.add_meta_graph_and_variables(
                session, ["serve"], {"serving_default": signature}, assets_collection=assets,
                main_op=v1.tables_initializer() if assets else None,
            )  # fmt: skip
            builder.save()
            return feeds, fetches

        return run

    def kept(saver: Mapping[str, Any], **how: Any) -> Callable[[Any, str], Built]:
        def run(session: Any, path: str) -> Built:
            feeds, fetches = _trained(tf, session=session, **how)
            os.makedirs(path)
            tf.compat.v1.train.Saver(**saver).save(session, os.path.join(path, CHECKPOINT))
            return feeds, fetches

        return run

    return {
        "chosen": served(_chosen),
        "parsed": served(_parsed),
        "part_ref": served(_net, parts=2),
        "part_resource": served(_net, parts=2, resource=True),
        "ref": served(_net),
        "resource": served(_net, resource=True),
        "table1": served(_table1, words=words),
        "while1": served(_while1),
        "ckpt_ref": kept({}),
        "ckpt_sharded": kept({"sharded": True}, device="/cpu:1"),
        "ckpt_part": kept({}, parts=2),
        "ckpt_v1": kept({"write_version": tf.compat.v1.train.SaverDef.V1}, parts=2),
    }


def layers(tf: Any, parts: int, resource: bool, device: str | None) -> tuple[Any, Any, Any, Any]:
    """An input and the weights of two dense layers under ``net``; in PARTS where these are asked for."""
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, [None, 4], "x")
    part = v1.fixed_size_partitioner(parts) if parts else None
    v1.set_random_seed(1)  # and none for each initialiser: parts would all be alike
    with v1.variable_scope("net", use_resource=resource, partitioner=part):
        draw = v1.random_normal_initializer()
        w = tf.convert_to_tensor(v1.get_variable("w", [4, 6], initializer=draw))
        with v1.device(device):
            b = tf.convert_to_tensor(v1.get_variable("b", [6], initializer=draw))
        v = tf.convert_to_tensor(v1.get_variable("v", [6, 2], initializer=draw))
    return x, w, b, v


def _net(tf: Any, parts: int = 0, resource: bool = False, device: str | None = None) -> Built:
    """Two dense layers; variables in two PARTS where these are asked for."""
    x, w, b, v = layers(tf, parts, resource, device)
    return {"x": (x, X)}, {"y": tf.identity(tf.nn.relu(x @ w + b) @ v, "y")}


def _trained(tf: Any, session: Any, **how: Any) -> Built:
    feeds, fetches = _net(tf, **how)
    v1 = tf.compat.v1
    step = v1.train.get_or_create_global_step()
    train = v1.train.AdamOptimizer(0.01).minimize(tf.reduce_sum(fetches["y"] ** 2), step)
    session.run(v1.global_variables_initializer())
    session.run(train, dict(feeds.values()))
    return feeds, fetches


def _while1(tf: Any) -> Built:
    """A loop of Enter, Exit, Switch and Merge, and a conditional behind it."""
    v1 = tf.compat.v1
    x, on = v1.placeholder(tf.float32, [None, 3], "x"), v1.placeholder(tf.bool, [], "on")
    w = v1.get_variable("net/w", [3, 3], initializer=v1.random_normal_initializer(seed=1), use_resource=False)
    y = v1.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a @ w), [tf.constant(0), x])[1]
    y = v1.cond(on, lambda: y * w[0, 0], lambda: y)
    return {"x": (x, X[:, :3]), "on": (on, np.array(True))}, {"y": tf.identity(y, "y")}


def _chosen(tf: Any) -> Built:
    """A variable itself, a reference, is handed on by a RefSwitch."""
    v1 = tf.compat.v1
    x, on = v1.placeholder(tf.float32, [None, 4], "x"), v1.placeholder(tf.bool, [], "on")
    w = v1.get_variable("w", [4], initializer=v1.random_normal_initializer(seed=1), use_resource=False)
    off, taken = tf.raw_ops.RefSwitch(data=w._ref(), pred=on)
    y = tf.raw_ops.Merge(inputs=[tf.identity(off) * 2.0, tf.identity(taken) + 1.0])[0]
    return {"x": (x, X), "on": (on, np.array(False))}, {"y": tf.multiply(x, y, "y")}


def _parsed(tf: Any) -> Built:
    """What servers call a classification: serialised tf.train.Examples come in."""
    v1 = tf.compat.v1
    examples = v1.placeholder(tf.string, [None], EXAMPLES)
    x = v1.io.parse_example(examples, {"x": v1.io.FixedLenFeature([2], tf.float32)})["x"]
    w = v1.get_variable("w", [2, 3], initializer=v1.random_normal_initializer(seed=1), use_resource=True)
    example = tf.train.Example()
    example.features.feature["x"].float_list.value[:] = [0.5, 2.0]
    return {EXAMPLES: (examples, np.array([example.SerializeToString()] * 2, object))}, {
        "scores": tf.matmul(x, w, name="y")
    }


def _table1(tf: Any, words: str) -> Built:
    v1 = tf.compat.v1
    text = v1.placeholder(tf.string, [None], "words")
    table = v1.lookup.StaticVocabularyTable(_of_lines(tf, words), 2)
    e = v1.get_variable("e", [5, 2], initializer=v1.random_normal_initializer(seed=1), use_resource=False)
    values = np.array([b"c", b"unknown", b"a"], object)
    return {"words": (text, values)}, {"e": tf.gather(e, table.lookup(text), name="out")}


if __name__ == "__main__":
    for _name, _key, _feeds, _given in made(sys.argv[1]):
        _arrays = {f"in {k}": v for k, v in _feeds.items()} | {f"out {k}": v for k, v in _given.items()}
        np.savez(os.path.join(sys.argv[1], f"{_name}.{_key}.npz"), **_arrays)
