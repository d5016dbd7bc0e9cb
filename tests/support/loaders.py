"""The loaders of SavedModels, which each run a signature.

    python -m support.loaders LOADER CALLS.pkl RESULTS.pkl

A process of its own, with one loader for many models: CALLS.pkl holds a list of `Call`, RESULTS.pkl gets one mapping of
outputs for each of them, or the text of the loader's error.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_char_p
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gdsurgeon.runtime import capi
from gdsurgeon.runtime.base import SessionOptions
from gdsurgeon.runtime.capi import CApiGraph, TFBuffer
from gdsurgeon.runtime.tensor import from_numpy
from gdsurgeon.wire.protos import MetaGraphDef
from support.aside import ran_aside

Loader = Callable[[Any, str, str, Mapping[str, np.ndarray]], dict[str, Any]]
"""Gives, for TensorFlow's package, a folder, a key, and values for the inputs, the outputs as lists."""


def by_tensorflow_2(tf: Any, path: str, key: str, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    given = tf.saved_model.load(path).signatures[key](**{name: tf.constant(value) for name, value in inputs.items()})
    return {name: value.numpy().tolist() for name, value in given.items()}


def by_keras(tf: Any, path: str, key: str, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """As a layer, which takes one input."""
    if len(inputs) != 1:
        return by_tensorflow_2(tf, path, key, inputs)
    given = tf.keras.layers.TFSMLayer(path, call_endpoint=key)(tf.constant(*inputs.values()))
    return {name: value.numpy().tolist() for name, value in given.items()}


def by_tensorflow_1(tf: Any, path: str, key: str, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        signature = tf.compat.v1.saved_model.load(session, ["serve"], path).signature_def[key]
        feeds = {signature.inputs[name].name: value for name, value in inputs.items()}
        fetches = {name: info.name for name, info in signature.outputs.items()}
        return {name: value.tolist() for name, value in session.run(fetches, feeds).items()}


class _Session(CApiGraph):
    """What TF_LoadSessionFromSavedModel loads, as servers and other languages do."""

    def __init__(self, folder: str) -> None:
        capi.FUNCTIONS += "TF_LoadSessionFromSavedModel pppspippp\n"
        api = self._library = capi.load_installed()
        self._session, self._graph = None, api.TF_NewGraph()
        config, options, meta = SessionOptions().config_proto(), api.TF_NewSessionOptions(), api.TF_NewBuffer()
        api.check(api.TF_SetConfig, options, config, len(config))
        load, tags = api.TF_LoadSessionFromSavedModel, (c_char_p * 1)(b"serve")
        self._session = api.check(load, options, None, os.fsencode(folder), tags, 1, self._graph, meta)
        written = TFBuffer.from_address(meta)
        self.meta = MetaGraphDef.FromString(ctypes.string_at(written.data, written.length))


def by_c_api(tf: Any, path: str, key: str, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    del tf
    session = _Session(path)
    try:
        signature = session.meta.signature_def[key]
        feeds = {signature.inputs[name].name: from_numpy(value) for name, value in inputs.items()}
        given = session.run(feeds, [info.name for info in signature.outputs.values()]).tensors
        return {name: value.numpy().tolist() for name, value in zip(signature.outputs, given, strict=True)}
    finally:
        session.close()


def by_command_line(tf: Any, path: str, key: str, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Runs `saved_model_cli run`, TensorFlow's own command, in this process."""
    del tf
    from tensorflow.python.tools import saved_model_cli

    with tempfile.TemporaryDirectory() as folder:
        command = ["run", "--dir", path, "--tag_set", "serve", "--signature_def", key, "--outdir", folder]
        for name, value in inputs.items():
            np.save(f"{folder}/input {name}.npy", value)
        fed = [f"{name}={folder}/input {name}.npy" for name in inputs]
        with contextlib.redirect_stdout(None):
            saved_model_cli.create_parser().parse_args([*command, "--inputs", ";".join(fed)]).func()
        files = [file for file in Path(folder).glob("*.npy") if not file.name.startswith("input ")]
        return {file.stem: np.load(file, allow_pickle=True).tolist() for file in files}


ALL: tuple[Loader, ...] = (by_tensorflow_1, by_c_api, by_tensorflow_2, by_keras)
"""Each loader of signatures."""
OF_GRAPHS: tuple[Loader, ...] = (by_tensorflow_1, by_c_api)
"""Those that run the nodes that the signature names."""
OF_OBJECTS: tuple[Loader, ...] = (by_tensorflow_2, by_keras)
"""Those that run the functions that the objects name."""
EACH: dict[str, Loader] = {load.__name__: load for load in (*ALL, by_command_line)}


class Call(NamedTuple):
    """A call of a signature: the model's folder, the key of the signature, and its inputs."""

    path: str
    key: str
    inputs: Mapping[str, np.ndarray]


def called(calls: Sequence[Call], loader: str) -> list[dict[str, Any] | str]:
    """Makes the calls by one loader, in a process of its own; returns the outputs or the text of an error for each."""
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder, "calls.pkl"), Path(folder, "results.pkl")
        asked.write_bytes(pickle.dumps([tuple(call) for call in calls]))
        failed = ran_aside("support.loaders", loader, str(asked), str(answered))
        assert not failed, failed
        results: list[dict[str, Any] | str] = pickle.loads(answered.read_bytes())
        return results


def _called(tf: Any, load: Loader, call: Call) -> dict[str, Any] | str:
    try:
        return load(tf, *call)
    except (Exception, SystemExit):
        return traceback.format_exc(limit=-1)


if __name__ == "__main__":
    import tensorflow

    tensorflow.get_logger().setLevel("ERROR")
    _loader = EACH[sys.argv[1]]
    _calls = pickle.loads(Path(sys.argv[2]).read_bytes())
    Path(sys.argv[3]).write_bytes(pickle.dumps([_called(tensorflow, _loader, Call(*each)) for each in _calls]))
