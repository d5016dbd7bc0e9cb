"""TensorFlow through its Python package: slow to start, used if the C API cannot be loaded."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.runtime import gradients
from gdsurgeon.runtime.base import (
    FULL_TRACE,
    Backward,
    Derivation,
    RunResult,
    Served,
    SessionOptions,
    SignatureCall,
    TensorSpec,
)
from gdsurgeon.runtime.capi import package_folder
from gdsurgeon.runtime.checked import Runtime, TensorFlowGraph, TensorName, check_output, check_size, no_node
from gdsurgeon.runtime.failures import TensorFlowError, TensorFlowMissing, code_name
from gdsurgeon.runtime.protocol import Bytes
from gdsurgeon.runtime.tensor import Array, Tensor, from_numpy

if TYPE_CHECKING:
    from tensorflow import Graph
    from tensorflow import Operation as GraphOperation
    from tensorflow import Tensor as GraphTensor


def open_python() -> Runtime:
    """Returns TensorFlow over its Python package.

    Raises:
        TensorFlowMissing: it is not installed or cannot be imported.
    """
    package_folder()
    if sys.flags.no_site:
        # `import tensorflow` loads its plugins from the package folders that `site` knows.
        import site

        known = list(sys.path)
        site.main()
        sys.path[:] = known
    prepare_import()
    try:
        tf = importlib.import_module("tensorflow")
    except Exception as error:  # a broken installation fails with more than ImportError
        raise TensorFlowMissing(f"TensorFlow cannot be imported: {first_line(error)}") from error

    def load_op_library(path: str) -> None:
        with _translated(tf):
            tf.load_library(path)  # load_op_library would also generate Python functions for the ops

    return Runtime("python", str(tf.__version__), partial(PythonGraph, tf), load_op_library, tf)


def derive(tf: ModuleType, data: bytes, wanted: Derivation) -> Backward:
    """See `gdsurgeon.runtime.gradients.derive`."""
    check_size(len(data))
    with _translated(tf):
        return gradients.derive(tf, data, wanted)


def call_signatures(tf: ModuleType, folder: str, tags: Sequence[str], calls: Sequence[SignatureCall]) -> Served:
    """Loads a SavedModel and calls its signatures in order; the state of variables is kept between the calls.

    The model is loaded by ``tf.saved_model.load``, as in Keras and Python programs. The loader of TensorFlow 1, which
    also reads the collections, must load it as well. Without `calls` the model is only loaded.
    """
    # The functions run as they are written, like the graphs in sessions here.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    loader = "tf.saved_model.load"
    try:
        model = tf.saved_model.load(folder, tags=list(tags) or None)
        loader = "tf.compat.v1.saved_model.load"
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            tf.compat.v1.saved_model.load(session, list(tags) or ["serve"], folder)
    except Exception as error:  # the Python code of the loader may raise anything
        return Served([], not_loaded=first_line(error), loader=loader)
    answers: list[dict[str, Tensor]] = []
    for key, inputs in calls:
        try:
            fed = {name: tf.constant(_to_array(tf, value), dtype=value.dtype) for name, value in inputs.items()}
            given = model.signatures[key](**fed)
            answers.append({name: _from_array(v.numpy(), v.dtype.as_datatype_enum) for name, v in given.items()})
        except Exception as error:
            return Served(answers, refused=first_line(error))
    return Served(answers)


class PythonGraph(TensorFlowGraph):
    """`TensorFlowGraph` on tf.Graph and tf.compat.v1.Session."""

    def __init__(self, tf: ModuleType, data: Bytes, default_device: str, options: SessionOptions) -> None:
        self._tf = tf
        check_size(memoryview(data).nbytes)
        self._graph: Graph = tf.Graph()
        with _translated(tf):
            graph_def = tf.compat.v1.GraphDef.FromString(bytes(data))
            with self._graph.as_default(), self._graph.device(default_device or None):
                tf.graph_util.import_graph_def(graph_def, name="")
            config = tf.compat.v1.ConfigProto.FromString(options.config_proto())
            self._session: Any = tf.compat.v1.Session(graph=self._graph, config=config)

    def close(self) -> None:
        session, self._session, self._graph = self._session, None, None
        if session is not None:
            # Nothing can be done about a session that does not close.
            with contextlib.suppress(TensorFlowError), _translated(self._tf):
                session.close()

    def signatures(self) -> dict[str, list[TensorSpec]]:
        """Returns dtype and shape of every output of every node."""
        nodes = self._graph.get_operations()
        return {node.name: [_spec(output) for output in node.outputs] for node in nodes}

    def devices(self) -> list[str]:
        with _translated(self._tf):
            return [device.name for device in self._session.list_devices()]

    def _node(self, name: str) -> GraphOperation:
        try:
            return self._graph.get_operation_by_name(name)
        except (KeyError, ValueError, UnicodeError):
            raise no_node(name) from None

    def _output(self, key: TensorName) -> GraphTensor:
        name, index = key
        node = self._node(name)
        check_output(name, index, len(node.outputs))
        return node.outputs[index]

    def _signature(self, key: TensorName) -> TensorSpec:
        return _spec(self._output(key))

    def _run(
        self, feeds: dict[TensorName, Tensor], fetches: list[TensorName], targets: Sequence[str], trace: bool
    ) -> RunResult:
        tf = self._tf
        v1 = tf.compat.v1
        outputs = [self._output(key) for key in fetches]
        fed = {self._output(key): _to_array(tf, value) for key, value in feeds.items()}
        nodes = [self._node(name) for name in targets]
        options = v1.RunOptions.FromString(FULL_TRACE) if trace else None
        metadata = v1.RunMetadata() if trace else None
        with _translated(tf):
            got = self._session.run([*outputs, *nodes], feed_dict=fed, options=options, run_metadata=metadata)
        tensors = [
            _from_array(array, self._signature(key).dtype)
            for array, key in zip(got[: len(fetches)], fetches, strict=True)
        ]
        return RunResult(tensors, metadata.SerializeToString() if metadata is not None else None)


def _spec(output: GraphTensor) -> TensorSpec:
    dtype = output.dtype.base_dtype.as_datatype_enum
    if output.shape.rank is None:
        return TensorSpec(dtype, None)
    return TensorSpec(dtype, tuple(-1 if size is None else size for size in output.shape.as_list()))


def prepare_import() -> None:
    """Lets modules be imported that look for a folder for temporary files.

    They find the folder by writing to it, which an isolated process cannot. Nothing is written there.
    """
    tempfile.tempdir = tempfile.tempdir or os.environ.get("TMPDIR") or "/tmp"


def first_line(error: Exception) -> str:
    """Returns the first line of the text of `error`, or its class if it has no text."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _to_array(tf: ModuleType, value: Tensor) -> Array:
    array = value.numpy()
    if value.dtype == STRING:
        return array
    # Quantized types are structured in TensorFlow's NumPy: the same words with a different name.
    return array.view(tf.dtypes.as_dtype(value.dtype).as_numpy_dtype)


def _from_array(array: Array | bytes | str, dtype: int) -> Tensor:
    import numpy as np

    if dtype == STRING:
        # A scalar is returned as bytes, from which NumPy would strip trailing zeros.
        if isinstance(array, (bytes, str)):
            return Tensor(STRING, (), [array if isinstance(array, bytes) else array.encode()])
        return from_numpy(array)
    array = np.asarray(array, order="C")
    words = array.view(f"V{array.dtype.itemsize}") if array.ndim else array.reshape(1).view("u1")
    return Tensor(dtype, array.shape, words.tobytes())


@contextlib.contextmanager
def _translated(tf: ModuleType) -> Iterator[None]:
    """Raises the exceptions of all Python layers of TensorFlow as TensorFlowError."""
    try:
        yield
    except (TensorFlowError, MemoryError):
        raise
    except tf.errors.OpError as error:
        # Session adds to the text in which Python file the node was made: here always this file.
        plain = error.__context__ if isinstance(error.__context__, tf.errors.OpError) else error
        raise TensorFlowError(code_name(error.error_code), plain.message or "") from error
    except Exception as error:  # ValueError, TypeError, RuntimeError, DecodeError, KeyError, ...
        cause = error.__cause__ or error.__context__
        code = "invalid_argument"
        if isinstance(cause, tf.errors.OpError):
            code = code_name(cause.error_code)
        elif isinstance(error, FileNotFoundError):
            code = "not_found"
        raise TensorFlowError(code, str(error) or type(error).__name__) from error
