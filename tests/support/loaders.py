"""The ways in which others load a SavedModel, each asked for what a signature gives."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from ctypes import POINTER, c_char_p, c_int, c_void_p
from typing import Any

import numpy as np

from gdsurgeon.runtime import library
from gdsurgeon.runtime.base import SessionOptions
from gdsurgeon.runtime.capi import CApiGraph
from gdsurgeon.runtime.library import TFBuffer
from gdsurgeon.runtime.tensor import from_numpy
from gdsurgeon.wire.messages import message

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
        library._FUNCTIONS["TF_LoadSessionFromSavedModel"] = (
            c_void_p,
            [c_void_p, POINTER(TFBuffer), c_char_p, POINTER(c_char_p), c_int, c_void_p, POINTER(TFBuffer), c_void_p],
        )
        api = self._library = library.load()
        self._session, self._graph = None, api.TF_NewGraph()
        config, options, meta = SessionOptions().config_proto(), api.TF_NewSessionOptions(), api.TF_NewBuffer()
        api.check(api.TF_SetConfig, options, config, len(config))
        load, tags = api.TF_LoadSessionFromSavedModel, (c_char_p * 1)(b"serve")
        self._session = api.check(load, options, None, os.fsencode(folder), tags, 1, self._graph, meta)
        self.meta = message("tensorflow.MetaGraphDef").FromString(
            ctypes.string_at(meta.contents.data, meta.contents.length)
        )


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


ALL: tuple[Loader, ...] = (by_tensorflow_1, by_c_api, by_tensorflow_2, by_keras)
"""Each loader of signatures."""
OF_GRAPHS: tuple[Loader, ...] = (by_tensorflow_1, by_c_api)
"""Those that run the nodes that the signature names."""
OF_OBJECTS: tuple[Loader, ...] = (by_tensorflow_2, by_keras)
"""Those that run the functions that the objects name."""
