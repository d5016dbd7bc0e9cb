"""TensorFlow through its own Python package: slow to come up, there for where the C API cannot be reached."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from types import ModuleType
from typing import Any, cast

from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.runtime.base import FULL_TRACE, Device, Operation, RunResult, SessionOptions, TensorSpec
from gdsurgeon.runtime.checked import LoadedGraph, Runtime, TensorName, check_output, check_size, no_node
from gdsurgeon.runtime.differentiation.gradients import Backward, Derivation, derive
from gdsurgeon.runtime.differentiation.modules import GraphOperation, GraphTensor, TensorGraph
from gdsurgeon.runtime.failures import TensorFlowError, TensorFlowMissing, code_name
from gdsurgeon.runtime.library import package_folder
from gdsurgeon.runtime.signatures import ModelFolder, Served, SignatureCall, call_signatures
from gdsurgeon.runtime.tensor import Array, Tensor, from_numpy


class PythonRuntime(Runtime):
    """`gdsurgeon.runtime.checked.Runtime` on `import tensorflow`.

    Raises:
        TensorFlowMissing: it is not installed or cannot be imported.
    """

    name = "python"

    def __init__(self) -> None:
        package_folder()
        if sys.flags.no_site:
            # `import tensorflow` loads its plugins from where `site` says that packages are.
            import site

            known = list(sys.path)
            site.main()
            sys.path[:] = known
        # TensorFlow's import asks for a folder of temporary files, and that is found by writing to it, which a process
        # that is locked in cannot. Nothing is written there.
        tempfile.tempdir = tempfile.tempdir or os.environ.get("TMPDIR") or "/tmp"
        try:
            self._tf = self._imported()
        except Exception as error:  # a broken installation fails with more than ImportError
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise TensorFlowMissing(f"TensorFlow cannot be imported: {first}") from error
        self.version = str(self._tf.__version__)

    def _imported(self) -> ModuleType:
        """The package."""
        import tensorflow

        return cast("ModuleType", tensorflow)

    def load(
        self,
        data: bytes | bytearray | memoryview,
        default_device: str = "",
        options: SessionOptions | None = None,
    ) -> PythonGraph:
        """See `gdsurgeon.runtime.checked.Runtime.load`."""
        return PythonGraph(self._tf, data, default_device, options or SessionOptions())

    def load_op_library(self, path: str) -> None:
        """See `gdsurgeon.runtime.checked.Runtime.load_op_library`."""
        with _translated(self._tf):
            self._tf.load_library(path)  # load_op_library would also generate Python functions for the ops

    def derive(self, data: bytes | bytearray | memoryview, wanted: Derivation) -> Backward:
        """See `gdsurgeon.runtime.differentiation.gradients.derive`."""
        check_size(memoryview(data).nbytes)
        with _translated(self._tf):
            return derive(self._tf, data, wanted)

    def call_signatures(self, folder: ModelFolder, calls: Sequence[SignatureCall]) -> Served:
        """See `gdsurgeon.runtime.signatures.call_signatures`."""
        return call_signatures(self._tf, folder, calls, partial(_to_array, self._tf), _from_array)


class PythonGraph(LoadedGraph):
    """`gdsurgeon.runtime.checked.LoadedGraph` on tf.Graph and tf.compat.v1.Session."""

    def __init__(
        self, tf: ModuleType, data: bytes | bytearray | memoryview, default_device: str, options: SessionOptions
    ) -> None:
        self._tf = tf
        check_size(memoryview(data).nbytes)
        self._graph: TensorGraph | None = tf.Graph()
        with _translated(tf):
            graph_def = tf.compat.v1.GraphDef.FromString(bytes(data))
            with self._open_graph().as_default(), self._open_graph().device(default_device or None):
                tf.graph_util.import_graph_def(graph_def, name="")
            config = tf.compat.v1.ConfigProto.FromString(options.config_proto())
            self._session: Any = tf.compat.v1.Session(graph=self._graph, config=config)

    def close(self) -> None:
        """See `gdsurgeon.runtime.checked.LoadedGraph.close`."""
        session, self._session, self._graph = self._session, None, None
        if session is not None:
            # Nothing can be done about a session that does not close.
            with contextlib.suppress(TensorFlowError), _translated(self._tf):
                session.close()

    def operations(self) -> Iterator[Operation]:
        """See `gdsurgeon.runtime.checked.LoadedGraph.operations`."""
        for node in self._open_graph().get_operations():
            yield Operation(node.name, node.type, len(node.outputs))

    def devices(self) -> list[Device]:
        """See `gdsurgeon.runtime.checked.LoadedGraph.devices`."""
        self._open_graph()
        with _translated(self._tf):
            listed = self._session.list_devices()
        return [Device(d.name, d.device_type, d.memory_limit_bytes) for d in listed]

    def _open_graph(self) -> TensorGraph:
        if self._graph is None:
            raise TensorFlowError("failed_precondition", "the graph has been closed")
        return self._graph

    def _node(self, name: str) -> GraphOperation:
        try:
            return self._open_graph().get_operation_by_name(name)
        except (KeyError, ValueError, UnicodeError):
            raise no_node(name) from None

    def _output(self, key: TensorName) -> GraphTensor:
        name, index = key
        node = self._node(name)
        check_output(name, index, len(node.outputs))
        return node.outputs[index]

    def _signature(self, key: TensorName) -> TensorSpec:
        output = self._output(key)
        dtype = output.dtype.base_dtype.as_datatype_enum
        if output.shape.rank is None:
            return TensorSpec(dtype, None)
        return TensorSpec(dtype, tuple(-1 if size is None else size for size in output.shape.as_list()))

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


def _to_array(tf: ModuleType, value: Tensor) -> Array:
    array = value.numpy()
    if value.dtype == STRING:
        return array
    # Quantised types are structured in TensorFlow's numpy: the same words under another name.
    return array.view(tf.dtypes.as_dtype(value.dtype).as_numpy_dtype)


def _from_array(array: Array | bytes | str, dtype: int) -> Tensor:
    import numpy as np

    if dtype == STRING:
        # A scalar comes as bytes, which numpy would strip of trailing zeros.
        if isinstance(array, (bytes, str)):
            return Tensor(STRING, (), [array if isinstance(array, bytes) else array.encode()])
        return from_numpy(array)
    array = np.asarray(array, order="C")
    words = array.view(f"V{array.dtype.itemsize}") if array.ndim else array.reshape(1).view("u1")
    return Tensor(dtype, array.shape, words.tobytes())


@contextlib.contextmanager
def _translated(tf: ModuleType) -> Iterator[None]:
    """TensorFlow's exceptions, whichever of its Python layers they come from, as TensorFlowError."""
    try:
        yield
    except TensorFlowError:
        raise
    except tf.errors.OpError as error:
        # Session wraps the text in where, in which Python file, the node was made: here always this file.
        plain = error.__context__ if isinstance(error.__context__, tf.errors.OpError) else error
        raise TensorFlowError(code_name(error.error_code), plain.message or "") from error
    except MemoryError:
        raise
    except Exception as error:  # ValueError, TypeError, RuntimeError, DecodeError, KeyError, ...
        cause = error.__cause__ or error.__context__
        code = "invalid_argument"
        if isinstance(cause, tf.errors.OpError):
            code = code_name(cause.error_code)
        elif isinstance(error, FileNotFoundError):
            code = "not_found"
        raise TensorFlowError(code, str(error) or type(error).__name__) from error
