"""TensorFlow's Python package, which makes gradients and loads SavedModels. It runs no graphs: it is slow to start."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.runtime.base import Backward, Derivation, Runtime, Served, SignatureCall, TensorSpec, check_size
from gdsurgeon.runtime.capi import package_folder
from gdsurgeon.runtime.failures import TensorFlowError, TensorFlowMissing, code_name, first_line
from gdsurgeon.runtime.tensor import Tensor, from_numpy

if TYPE_CHECKING:
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
        with _translated():
            tf.load_library(path)  # load_op_library would also generate Python functions for the ops

    def load(*_: object) -> NoReturn:
        raise TensorFlowError("unimplemented", "graphs run through TensorFlow's C API")

    return Runtime("python", str(tf.__version__), load, load_op_library)


def derive(data: bytes, wanted: Derivation) -> Backward:
    """See `gdsurgeon.runtime.gradients.derive`."""
    from gdsurgeon.runtime import gradients

    check_size(len(data))
    with _translated():
        return gradients.derive(data, wanted)


def call_signatures(folder: str, tags: Sequence[str], calls: Sequence[SignatureCall]) -> Served:
    """Loads a SavedModel and calls its signatures in order; the state of variables is kept between the calls.

    The model is loaded by ``tf.saved_model.load``, as in Keras and Python programs. The loader of TensorFlow 1, which
    also reads the collections, must load it as well. Without `calls` the model is only loaded.
    """
    import tensorflow as tf

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
            # Quantized types are structured in TensorFlow's NumPy: the same words with a different name.
            kinds = {name: tf.dtypes.as_dtype(value.dtype) for name, value in inputs.items()}
            fed = {name: tf.constant(inputs[name].numpy().view(k.as_numpy_dtype), k) for name, k in kinds.items()}
            answers.append({name: _tensor(value) for name, value in model.signatures[key](**fed).items()})
        except Exception as error:
            return Served(answers, refused=first_line(error))
    return Served(answers)


def _tensor(value: Any) -> Tensor:
    import numpy as np

    dtype = value.dtype.as_datatype_enum
    # A text is returned as bytes, from which NumPy would strip trailing zeros.
    return from_numpy(np.array(value.numpy(), object if dtype == STRING else None), dtype)


def signatures(data: bytes) -> dict[str, list[TensorSpec]]:
    """Returns DataType and inferred shape of every output of every node of a serialised GraphDef."""
    import tensorflow as tf

    check_size(len(data))
    graph = tf.Graph()
    with _translated(), graph.as_default():
        tf.graph_util.import_graph_def(tf.compat.v1.GraphDef.FromString(data), name="")
    return {node.name: [_spec(output) for output in node.outputs] for node in graph.get_operations()}


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


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Raises the exceptions of all Python layers of TensorFlow as TensorFlowError."""
    try:
        yield
    except (TensorFlowError, MemoryError):
        raise
    except Exception as error:  # OpError, ValueError, TypeError, RuntimeError, DecodeError, KeyError, ...
        number = getattr(error, "error_code", None) or getattr(error.__cause__ or error.__context__, "error_code", None)
        code = "not_found" if isinstance(error, FileNotFoundError) else "invalid_argument"
        raise TensorFlowError(code_name(number) if number else code, str(error) or type(error).__name__) from error
