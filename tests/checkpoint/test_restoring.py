"""What TensorFlow restores from checkpoints that were edited: objects find their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.desk import Desk

from gdsurgeon.container.checkpoint.edit import OBJECT_GRAPH
from gdsurgeon.container.checkpoint.open import open_checkpoint

pytestmark = pytest.mark.tensorflow


def made(tf: Any, value: float) -> Any:
    """A model of two variables with the slots of an optimiser, to be saved or restored."""
    optimiser = tf.compat.v1.train.AdamOptimizer(0.1)
    model = tf.Module()
    model.kernel = tf.Variable(tf.fill([2, 3], value), name="net/kernel")
    model.bias = tf.Variable(tf.fill([3], value), name="net/bias")
    optimiser.apply_gradients([(tf.ones_like(v), v) for v in (model.kernel, model.bias)])
    return tf.train.Checkpoint(model=model, optimizer=optimiser)


@pytest.fixture(scope="module")
def saved(tf: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, np.ndarray]:
    checkpoint = made(tf, 2.0)
    return checkpoint.save(str(tmp_path_factory.mktemp("saved") / "m")), checkpoint.model.kernel.numpy()


def valued(tf: Any, dtype: str, value: list[Any]) -> Any:
    """VALUE as a tensor of DTYPE."""
    return tf.constant(value) if dtype == "string" else tf.cast(tf.cast(value, tf.float32), dtype)


def edited(desk: Desk, prefix: str, *arguments: str) -> str:
    ran = desk.run("checkpoint", prefix, *arguments, "-o", "n")
    assert ran.code == 0, ran.err
    return str(desk.folder / "n")


def test_objects_find_their_values_under_new_keys(tf: Any, desk: Desk, saved: tuple[str, np.ndarray]) -> None:
    prefix, kernel = saved
    path = edited(desk, prefix, "--regex", "^model/=net/", "--rename-scope", "optimizer=adam")
    assert any(name == "net/kernel/.ATTRIBUTES/VARIABLE_VALUE" for name, _ in tf.train.list_variables(path))
    fresh = made(tf, 0.0)
    fresh.restore(path).assert_existing_objects_matched().assert_consumed()
    assert np.array_equal(fresh.model.kernel.numpy(), kernel)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        named = tf.compat.v1.get_variable("net/kernel", [2, 3])
        tf.compat.v1.train.Saver([named]).restore(session, path)  # by names, which it finds in the object graph, too
        assert np.array_equal(session.run(named), kernel)


def test_an_optimiser_that_was_dropped_is_not_looked_for(tf: Any, desk: Desk, saved: tuple[str, np.ndarray]) -> None:
    prefix, kernel = saved
    path = edited(desk, prefix, "--drop", "OPTIMIZER_SLOT", "--drop", "^optimizer/")
    assert not any("optimizer" in name.lower() for name, _ in tf.train.list_variables(path))
    fresh = made(tf, 0.0)
    fresh.restore(path).expect_partial()
    assert np.array_equal(fresh.model.kernel.numpy(), kernel)
    fresh.optimizer.apply_gradients([(tf.ones_like(fresh.model.kernel), fresh.model.kernel)])


def test_a_value_that_was_set_is_restored(tf: Any, desk: Desk, saved: tuple[str, np.ndarray]) -> None:
    prefix, _ = saved
    np.save("bias.npy", np.array([7, 8, 9], np.float32))
    path = edited(desk, prefix, "--set", "model/bias/.ATTRIBUTES/VARIABLE_VALUE=@bias.npy")
    fresh = made(tf, 0.0)
    fresh.restore(path).assert_existing_objects_matched()
    assert fresh.model.bias.numpy().tolist() == [7, 8, 9]


def test_without_the_object_graph_it_is_one_of_names(tf: Any, desk: Desk, saved: tuple[str, np.ndarray]) -> None:
    prefix, kernel = saved
    path = edited(desk, prefix, "--drop", f"^{OBJECT_GRAPH}$")
    with open_checkpoint(path) as checkpoint:
        assert OBJECT_GRAPH not in checkpoint
    assert np.array_equal(tf.train.load_variable(path, "model/kernel/.ATTRIBUTES/VARIABLE_VALUE"), kernel)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "bool", "string", "complex64"])
def test_values_of_other_dtypes_are_set(tf: Any, desk: Desk, dtype: str) -> None:
    before, after = ([b"a", b"bc"], [b"", b"d"]) if dtype == "string" else ([0, 1], [1, 1])
    path = str(desk.folder / "m")
    tensors = [valued(tf, dtype, before)]
    tf.raw_ops.SaveV2(prefix=path, tensor_names=["w"], shape_and_slices=[""], tensors=tensors)
    value = valued(tf, dtype, after)
    array = np.array(after, "S") if dtype == "string" else value.numpy()
    np.save("w.npy", array.view("V1") if dtype.startswith("float8") else array)  # of which numpy reads no name
    (read,) = tf.raw_ops.RestoreV2(
        prefix=edited(desk, path, "--set", "w=@w.npy"), tensor_names=["w"], shape_and_slices=[""], dtypes=[value.dtype]
    )
    assert read.numpy().tolist() == value.numpy().tolist()
