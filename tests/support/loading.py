"""What loaders make of a SavedModel: each runs a signature of it, on inputs by the names that callers have for them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gdsurgeon.container.load import open_model
from gdsurgeon.runtime import library as libraries
from gdsurgeon.runtime.base import SessionOptions
from gdsurgeon.runtime.capi import CApiGraph
from gdsurgeon.runtime.checked import LoadedGraph
from gdsurgeon.runtime.tensor import from_numpy

Inputs = Mapping[str, np.ndarray]
Given = dict[str, Any]


def by_tensorflow_2(tf: Any, path: str, inputs: Inputs, key: str = "serving_default") -> Given:
    loaded = tf.saved_model.load(path)
    given = loaded.signatures[key](**{name: tf.constant(value) for name, value in inputs.items()})
    return {name: value.numpy().tolist() for name, value in given.items()}


def by_tensorflow_1(tf: Any, path: str, inputs: Inputs, key: str = "serving_default") -> Given:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], path)
        signature = loaded.signature_def[key]
        feeds = {signature.inputs[name].name: value for name, value in inputs.items()}
        fetches = {name: info.name for name, info in signature.outputs.items()}
        return {name: value.tolist() for name, value in session.run(fetches, feeds).items()}


def by_keras(tf: Any, path: str, inputs: Inputs, key: str = "serving_default") -> Given:
    """A layer of a Keras model, which takes one tensor."""
    import keras

    (value,) = inputs.values()
    given = keras.layers.TFSMLayer(path, call_endpoint=key)(tf.constant(value))
    return {name: value.numpy().tolist() for name, value in given.items()}


def by_c_api(tf: Any, path: str, inputs: Inputs, key: str = "serving_default") -> Given:
    """As TensorFlow Serving and other languages load it."""
    del tf
    serving = open_model(path).graph.serving
    assert serving is not None
    served = serving.signatures[key]
    graph = _CApiModel(path)
    try:
        feeds = {served.inputs[name]: from_numpy(value) for name, value in inputs.items()}
        given = graph.run(feeds, list(served.outputs.values())).tensors
        return {name: value.numpy().tolist() for name, value in zip(served.outputs, given, strict=True)}
    finally:
        graph.close()


class _CApiModel(CApiGraph):
    """The graph and session that TF_LoadSessionFromSavedModel makes of the SavedModel in FOLDER."""

    def __init__(self, folder: str) -> None:
        LoadedGraph.__init__(self, "")
        self._library = libraries.load()
        self._graph = self._library.TF_NewGraph()
        opened = (ctypes.CDLL(found) for found in libraries._library_paths(libraries.package_folder()))
        load = next(getattr(one, _LOAD) for one in opened if hasattr(one, _LOAD))
        load.restype, load.argtypes = ctypes.c_void_p, [ctypes.c_void_p] * 8
        settings = self._library.TF_NewSessionOptions()
        config = SessionOptions(cpu_only=True).config_proto()
        self._library.check(self._library.TF_SetConfig, settings, config, len(config))
        tags = (ctypes.c_char_p * 1)(b"serve")
        name = ctypes.c_char_p(os.fsencode(folder))
        try:
            self._session = self._library.check(load, settings, None, name, tags, 1, self._graph, None)
        finally:
            self._library.TF_DeleteSessionOptions(settings)


_LOAD = "TF_LoadSessionFromSavedModel"
LOADERS: tuple[Callable[..., Given], ...] = (by_tensorflow_1, by_tensorflow_2, by_keras, by_c_api)
