"""The signatures of a SavedModel as ``tf.saved_model.load`` gives them, as Keras and programs in Python have them.

Runs in the worker process, where TensorFlow has been imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import NamedTuple

from gdsurgeon.runtime.tensor import Array, Tensor


class ModelFolder(NamedTuple):
    """A SavedModel, and the tags of its graph that is meant; none where there is one alone."""

    path: str
    tags: Sequence[str] = ()


class SignatureCall(NamedTuple):
    """A call of the signature KEY with INPUTS, by their names."""

    key: str
    inputs: Mapping[str, Tensor]


class Served(NamedTuple):
    """The results of calls of a loaded model.

    Attributes:
        outputs: the outputs of each call by name.
        not_loaded: why the model was not loaded; '' if it was.
        loader: the loader that did not load it.
        refused: why the call after the last of these was refused; '' if no call was.
    """

    outputs: list[dict[str, Tensor]]
    not_loaded: str = ""
    refused: str = ""
    loader: str = ""


def call_signatures(
    tf: ModuleType,
    folder: ModelFolder,
    calls: Sequence[SignatureCall],
    to_array: Callable[[Tensor], Array],
    from_array: Callable[[Array, int], Tensor],
) -> Served:
    """Loads the SavedModel in FOLDER and calls its signatures in turn; the state of variables lasts from call to call.

    The loader of TensorFlow 1, which also reads the collections, must load it as well.

    Args:
        tf: the package.
        folder: of the model.
        calls: may be none, to see whether it loads.
        to_array, from_array: convert our tensors to its tensors and back; the second also gets a DataType.
    """
    # The functions are run as they are written, as graphs are by sessions here.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    loader = "tf.saved_model.load"
    try:
        model = tf.saved_model.load(folder.path, tags=list(folder.tags) or None)
        loader = "tf.compat.v1.saved_model.load"
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            tf.compat.v1.saved_model.load(session, list(folder.tags) or ["serve"], folder.path)
    except Exception as error:  # whatever the Python that loads it may raise
        return Served([], not_loaded=_text(error), loader=loader)
    answers: list[dict[str, Tensor]] = []
    for key, inputs in calls:
        try:
            fed = {name: tf.constant(to_array(value), dtype=value.dtype) for name, value in inputs.items()}
            given = model.signatures[key](**fed)
            answers.append({name: from_array(v.numpy(), v.dtype.as_datatype_enum) for name, v in given.items()})
        except Exception as error:
            return Served(answers, refused=_text(error))
    return Served(answers)


def _text(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
