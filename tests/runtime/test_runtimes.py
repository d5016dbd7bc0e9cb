"""Graphs in TensorFlow: what is fed and fetched, dtypes and shapes, refusals."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from support import graphs
from support.graphs import const, graph_bytes, node, placeholder
from support.patience import LONG_ENOUGH
from support.workers import lent_worker, loading

from gdsurgeon.errors import ValidationError
from gdsurgeon.ops.dtypes import NUMBERS
from gdsurgeon.runtime.base import SessionOptions
from gdsurgeon.runtime.client import Worker
from gdsurgeon.runtime.failures import TensorFlowError
from gdsurgeon.runtime.protocol import Channel, OutputInfo, Result
from gdsurgeon.runtime.tensor import Tensor, from_numpy
from gdsurgeon.runtime.worker import Child

pytestmark = pytest.mark.tensorflow

WAIT = LONG_ENOUGH


def fetch(worker: Worker, data: bytes, feeds: dict[str, Tensor], *names: str) -> list[Tensor]:
    worker.load("g", data)
    summary = worker.run("g", "r", feeds, names)
    tensors = [worker.tensor("r", k) for k in range(len(names))]
    summary.result(WAIT)
    return [tensor.result(WAIT) for tensor in tensors]


def forwarding(dtype: str) -> bytes:
    """x -> y, which is the same."""
    return graph_bytes(placeholder("x", dtype), graphs.identity("y", "x", kind=dtype))


def refused(worker: Worker, code: str, data: bytes, feeds: dict[str, Tensor], *names: str) -> str:
    """TensorFlow's message, by which it refuses a run, with a status."""
    worker.load("g", data).result(WAIT)
    with pytest.raises(TensorFlowError) as caught:
        worker.run("g", "r", feeds, names).result(WAIT)
    assert caught.value.code == code
    return caught.value.message


def tensor(values: Any, dtype: str = "float32") -> Tensor:
    return from_numpy(np.array(values, dtype))


ROW = tensor([[1.0, 2, 3]])


def test_info_and_devices(worker: Worker) -> None:
    info = worker.info().result(WAIT)
    assert info.runtime == "capi" and info.version.startswith("2.")
    devices = worker.devices().result(WAIT)
    assert devices[0].endswith("device:CPU:0") and not any("GPU" in name for name in devices)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1, 1), (70_000,)])
def test_shapes_in_and_out(worker: Worker, shape: tuple[int, ...]) -> None:
    value = from_numpy(np.random.default_rng(0).random(shape, np.float32))
    got, fed = fetch(worker, graphs.doubling(), {"x": value}, "y", "x")
    assert got.shape == shape and np.array_equal(got.numpy(), value.numpy() * 2)
    assert fed.tobytes() == value.tobytes()


@pytest.mark.parametrize(
    ("texts", "shape"),
    [([b"a\0b\0\0"], ()), ([b"", b"x" * 1000, b"\xff"], (3,)), ([], (0, 2)), ([b"1", b"2", b"3", b"4"], (2, 2))],
)
def test_strings_in_and_out(worker: Worker, texts: list[bytes], shape: tuple[int, ...]) -> None:
    value = Tensor(NUMBERS["string"], shape, texts)
    joined = node("z", "StringJoin", ["a", "x"], N=2)
    data = graph_bytes(placeholder("x", "string"), const("a", b"left\0", "string"), joined)
    got, fed = fetch(worker, data, {"x": value}, "z", "x")
    assert (fed.shape, fed.data) == (shape, texts)
    assert (got.shape, got.data) == (shape, [b"left\0" + text for text in texts])


def test_signature(worker: Worker) -> None:
    data = graph_bytes(
        placeholder("a", "float32", (-1, 3)),
        placeholder("b", "string", None),
        placeholder("c", "uint8", ()),
        node("v", "VariableV2", dtype="float32", shape=(2,)),
        node("s", "Split", ["axis", "a"], T="float32", num_split=3),
        const("axis", 1, "int32"),
    )
    worker.load("g", data)
    found = worker.signature("g", ["a", "b:0", "c", "v", "s:2"]).result(WAIT)
    assert found == [(1, (-1, 3)), (7, None), (4, ()), (1, (2,)), (1, (-1, 1))]
    for name in ("nobody", "a:1", "a:x", "^a", "a:-1", "", ":0"):
        with pytest.raises(TensorFlowError) as caught:
            worker.signature("g", [name]).result(WAIT)
        assert caught.value.code == "not_found"


def test_old_scalar_placeholders_have_unknown_shape(worker: Worker) -> None:
    worker.load("g", placeholder("x", "float32", ()))
    assert worker.signature("g", ["x"]).result(WAIT) == [(1, None)]


def test_signatures_of_all_nodes() -> None:
    split = node("s", "Split", ["axis", "a"], T="float32", num_split=3)
    data = graph_bytes(placeholder("a", "float32", (-1, 3)), const("axis", 1, "int32"), split)
    with lent_worker(runtime="python") as worker:
        found = worker.signatures(data).result(WAIT)
        assert found == {"a": [(1, (-1, 3))], "axis": [(3, ())], "s": [(1, (-1, 1))] * 3}
        assert worker.signatures(b"").result(WAIT) == {}
        for refused in (b"\xff", node("a", "NoSuchOp")):
            with pytest.raises(TensorFlowError):
                worker.signatures(refused).result(WAIT)


def test_the_python_package_runs_no_graphs() -> None:
    with lent_worker(runtime="python") as worker, pytest.raises(TensorFlowError) as caught:
        worker.load("g", graphs.doubling()).result(WAIT)
    assert caught.value.code == "unimplemented"


def test_fetches_may_repeat_and_be_fed(worker: Worker) -> None:
    x = tensor([1.0, 2.0])
    got = fetch(worker, graphs.doubling(), {"x:0": x}, "y", "x", "y:0")
    assert [t.numpy().tolist() for t in got] == [[2, 4], [1, 2], [2, 4]]


def test_targets_and_state(worker: Worker) -> None:
    data = graph_bytes(
        node("v", "VariableV2", dtype="float32", shape=(20_000,)),
        const("zeros", np.zeros(20_000)),
        const("ones", np.ones(20_000)),
        node("init", "Assign", ["v", "zeros"], T="float32"),
        node("more", "AssignAdd", ["v", "ones"], T="float32"),
        node("y", "Identity", ["v"], T="float32"),
    )
    worker.load("g", data)
    worker.run("g", "none", {}, [], ["init"])
    worker.run("g", "before", {}, ["y"])
    summary = worker.run("g", "none", {}, [], ["more", "more"]).result(WAIT)
    assert summary.outputs == [] and summary.metadata is None
    worker.run("g", "after", {}, ["y"])
    # Earlier results must not change with the variable whose memory it may have shared.
    assert worker.tensor("before", 0).result(WAIT).numpy().max() == 0
    assert worker.tensor("after", 0).result(WAIT).numpy().min() == 1


@pytest.mark.parametrize(
    ("device", "options"),
    [
        ("", None),
        ("/device:CPU:0", SessionOptions()),
        ("", SessionOptions(optimize=True)),
        ("", SessionOptions(cpu_only=True)),
    ],
)
@pytest.mark.parametrize("trace", [False, True])
def test_options(worker: Worker, device: str, options: SessionOptions | None, trace: bool) -> None:
    worker.load("g", graphs.doubling(), default_device=device, options=options)
    summary = worker.run("g", "r", {"x": tensor([1.5])}, ["y"], trace=trace).result(WAIT)
    assert summary.outputs == [OutputInfo(1, (1,), 4)] and summary.seconds > 0
    assert (b"CPU:0" in summary.metadata) if trace and summary.metadata else summary.metadata is None
    assert worker.tensor("r", 0).result(WAIT).numpy().tolist() == [3.0]


def test_results_feed_later_runs_and_compare_in_the_child(worker: Worker) -> None:
    x = tensor(np.arange(6.0).reshape(2, 3))
    worker.load("twice", graphs.doubling())
    worker.load("same", forwarding("float32"))
    worker.run("twice", "r1", {"x": x}, ["y"])
    worker.run("same", "r2", {"x": Result("r1", 0)}, ["y", "x"])
    worker.run("twice", "r3", {"x": Result("r2", 0)}, ["y"])
    found = worker.compare("r1", "r2", [(0, 0), (0, 1)])
    worse = worker.compare("r1", "r3", [(0, 0)], rtol=0.5)
    worker.drop("r1")
    assert [c.equal for c in found.result(WAIT)] == [True, True]
    [c] = worse.result(WAIT)
    assert not c.equal and c.close and c.max_abs == 10 and c.differing == 5
    assert worker.tensor("r3", 0).result(WAIT).numpy().tolist() == [[0, 4, 8], [12, 16, 20]]


def test_tensors_put_into_the_child_are_results(worker: Worker) -> None:
    worker.load("g", graphs.doubling())
    x, strings = tensor(np.arange(6.0)), Tensor(7, (2,), [b"a\0", b""])
    putting = worker.put("mine", [x, strings])
    worker.run("g", "r", {"x": Result("mine", 0)}, ["y", "x"])
    compared = worker.compare("mine", "r", [(0, 1), (0, 0)])
    back = [worker.tensor("mine", k) for k in range(2)]
    worker.put("mine", [tensor([1.0])])  # earlier requests concern the earlier graph
    assert [c.equal for c in compared.result(WAIT)] == [True, False]
    assert back[0].result(WAIT).tobytes() == x.tobytes() and back[1].result(WAIT).data == strings.data
    assert putting.result(WAIT) is None
    assert worker.tensor("mine", 0).result(WAIT).numpy().tolist() == [1.0]
    worker.drop("mine")
    with pytest.raises(ValidationError) as caught:
        worker.tensor("mine", 0).result(WAIT)
    assert caught.value.code == "failed"


@pytest.mark.parametrize("device,expected", [("cpu", [True, False, True]), ("gpu", [True, False, False])])
def test_whose_sessions_see_a_gpu(device: str, expected: list[bool]) -> None:
    """Told by the options that the child makes of the request: not every machine has a GPU."""
    seen: list[bool] = []

    class Spy:
        def load(self, _data: bytes, _device: str, options: SessionOptions) -> object:
            seen.append(options.cpu_only)
            return None

    child = Child(Channel(socket.socketpair()[0]), Worker(device)._cpu_only)
    child.runtime = Spy()  # type: ignore[assignment]
    for cpu_only in (True, False, None):
        options = None if cpu_only is None else SessionOptions(cpu_only=cpu_only)
        loading(child, "g", b"", options).work()
        child._graphs.clear()
    assert seen == expected


# --- refusals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("feeds", "fetches", "code"),
    [
        ({"x": tensor([[1, 2, 3]], "int32")}, ["y"], "invalid_argument"),
        ({"x": tensor([[1.0, 2, 3, 4]])}, ["y"], "invalid_argument"),
        ({"x": tensor([1.0, 2, 3])}, ["y"], "invalid_argument"),
        ({"x": ROW, "x:0": ROW}, ["y"], "invalid_argument"),  # it is fed twice
        ({"z": ROW}, ["y"], "not_found"),
        ({}, ["y"], "invalid_argument"),  # it is not fed
        ({"x": ROW}, [], "invalid_argument"),  # there is nothing to do
    ],
)
def test_wrong_feeds(worker: Worker, feeds: dict[str, Tensor], fetches: list[str], code: str) -> None:
    refused(worker, code, graphs.doubling((-1, 3)), feeds, *fetches)


def test_resources_and_variants_cannot_be_fetched(worker: Worker) -> None:
    data = graph_bytes(node("r", "VarHandleOp", dtype="float32", shape=()), node("v", "OptionalNone"))
    for name in ("r", "v:0"):
        assert repr(name) in refused(worker, "invalid_argument", data, {}, name)


def test_run_time_errors_are_tensorflows_own(worker: Worker) -> None:
    data = graph_bytes(
        placeholder("x", "float32", None),
        const("s", [2, 2], "int32"),
        node("y", "Reshape", ["x", "s"], T="float32", Tshape="int32"),
    )
    message = refused(worker, "invalid_argument", data, {"x": tensor([1.0, 2.0, 3.0])}, "y")
    assert "Input to reshape is a tensor with 3 values" in message
    assert "stack trace" not in message and "File" not in message


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (b"\xff\xff\xff", "invalid_argument", ""),
        (graph_bytes(node("a", "NoSuchOp")), "not_found", "NoSuchOp"),
        (graph_bytes(node("a", "Identity", ["b"], T="float32")), "invalid_argument", "b"),
        (graph_bytes(node("a", "NoOp"), node("a", "NoOp")), "invalid_argument", "a"),
    ],
    ids=["garbage", "unknown op", "dangling", "duplicate"],
)
def test_load_errors(worker: Worker, data: bytes, code: str, words: str) -> None:
    messages = []
    for pending in (worker.load("bad", data), worker.run("bad", "r", {}, ["a"])):  # fails for the same reason
        with pytest.raises(TensorFlowError) as caught:
            pending.result(WAIT)
        assert caught.value.code == code and words in caught.value.message
        messages.append(caught.value.message)
    assert messages[0] == messages[1]


@pytest.mark.parametrize("runtime", ["capi", "python"])
def test_op_library_that_is_none(runtime: str, tmp_path: Any) -> None:
    absent = [str(tmp_path / "absent.so")]
    with Worker(op_libraries=absent, runtime=runtime) as worker, pytest.raises(TensorFlowError) as caught:
        worker.info().result(WAIT)
    assert caught.value.code == "not_found" and "absent.so" in caught.value.message


def test_queue_of_two_types_keeps_its_strings(worker: Worker) -> None:
    """A fed string may live on in TensorFlow after the run that it was fed to."""
    data = graph_bytes(
        placeholder("x", "string", (-1,)),
        node("q", "FIFOQueueV2", component_types=["string"], shapes=[]),
        node("in", "QueueEnqueueV2", ["q", "x"], Tcomponents=["string"]),
        node("y", "QueueDequeueV2", ["q"], component_types=["string"]),
    )
    worker.load("g", data)
    long = [b"long enough to be on the heap " * 3, b"short"]
    worker.run("g", "none", {"x": Tensor(7, (2,), long)}, [], ["in"])
    worker.run("g", "r", {}, ["y"])
    assert worker.tensor("r", 0).result(WAIT).data == long


def test_element_sizes_are_tensorflows() -> None:
    script = """
from gdsurgeon.runtime.capi import load_installed
from gdsurgeon.ops.dtypes import DTYPES
library = load_installed()
print([n for n, d in DTYPES.items() if d.size and library.TF_DataTypeSize(n) != d.size])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
