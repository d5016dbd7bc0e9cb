"""Graphs that run in a TensorFlow server elsewhere: the same bits, and an end to waiting for one that has gone."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from support import runtime_graphs as graphs
from support.patience import LONG_ENOUGH, until
from support.runtime_graphs import a_type, const, graph, node, placeholder
from support.servers import ServerProcess, running_server, unheard_target

from gdsurgeon.runtime import server as module
from gdsurgeon.runtime.base import SessionOptions, TensorSpec
from gdsurgeon.runtime.client import Pending, Worker
from gdsurgeon.runtime.failures import RuntimeFailure, TensorFlowError
from gdsurgeon.runtime.protocol import RunSummary
from gdsurgeon.runtime.server import Server, parse_target
from gdsurgeon.runtime.tensor import Tensor, from_numpy

WAIT = LONG_ENOUGH
X = from_numpy(np.random.default_rng(3).standard_normal((4, 5), np.float32))


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    """A server for all tests here that do not kill it."""
    with running_server() as started:
        yield started


@pytest.fixture(scope="module")
def capi_worker() -> Iterator[Worker]:
    """One that may connect to any server, as that of a command may to its own."""
    with Worker(runtime="capi", allow_ops=True) as worker:
        yield worker


@pytest.fixture(scope="module")
def python_worker() -> Iterator[Worker]:
    with Worker(runtime="python", allow_ops=True) as worker:
        yield worker


Asked = tuple[str, list[tuple[Worker, Pending[None]]]]


@pytest.fixture(scope="module")
def unanswered() -> Iterator[Asked]:
    """An address where somebody listens who does not answer, and what has been asked of him: it takes ten seconds."""
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        target = f"grpc://127.0.0.1:{mute.getsockname()[1]}"
        with both_workers(target) as workers:
            options = SessionOptions(target=target)
            yield target, [(w, w.load("g", data=graphs.doubling(), options=options)) for w in workers]


@contextmanager
def both_workers(target: str) -> Iterator[tuple[Worker, Worker]]:
    with Worker(runtime="capi", target=target) as capi, Worker(runtime="python", target=target) as python:
        yield capi, python


def refused(worker: Worker, target: str) -> TensorFlowError:
    loading = worker.load("g", data=graphs.doubling(), options=SessionOptions(target=target))
    running = worker.run("g", "r", {"x": X}, ["y"])  # sent along: fails for the same reason
    with pytest.raises(TensorFlowError) as caught:
        loading.result(WAIT)
    with pytest.raises(TensorFlowError) as again:
        running.result(WAIT)
    assert again.value.message == caught.value.message
    return caught.value


def mixed() -> bytes:
    """float32 x, strings s -> m, some arithmetic on x, and t, the strings with an end to them."""
    return graph(
        placeholder("x", "float32", [-1, -1]),
        placeholder("s", "string", [-1]),
        const("end", Tensor(7, (), [b"!\0"]), "string"),
        node("p", "MatMul", ["x", "x"], T=a_type("float32"), transpose_b=graphs.field(5, 1)),
        node("m", "Tanh", ["p"], T=a_type("float32")),
        node("t", "StringJoin", ["s", "end"], N=graphs.field(3, 2)),
    )


# --- a server that is there ----------------------------------------------------------------------------


@pytest.mark.tensorflow
@pytest.mark.usefixtures("unanswered")  # which is looked at later, so that nobody has to wait
def test_the_same_bits_as_here(worker: Worker, server: ServerProcess) -> None:
    feeds = {"x": X, "s": Tensor(7, (2,), [b"a\0b", b""])}
    for key, target in (("here", ""), ("there", server.target)):
        worker.load(key, data=mixed(), options=SessionOptions(target=target))
        worker.run(key, key, feeds, ["m", "t"])
    assert [c.equal for c in worker.compare("here", "there", [(0, 0), (1, 1)]).result(WAIT)] == [True, True]
    assert worker.tensor("there", 1).result(WAIT).data == [b"a\0b!\0", b"!\0"]
    assert worker.signature("there", ["m"]).result(WAIT) == [(1, (-1, -1))]


@pytest.mark.tensorflow
def test_it_does_run_there(worker: Worker, server: ServerProcess) -> None:
    worker.load("there", data=graphs.doubling(), options=SessionOptions(target=server.target))
    traced = worker.run("there", "r", {"x": X}, ["y"], trace=True).result(WAIT).metadata
    assert traced is not None and b"/job:local/" in traced and b"/job:localhost/" not in traced
    [device] = worker.devices(server.target).result(WAIT)
    assert (device.name, device.type) == ("/job:local/replica:0/task:0/device:CPU:0", "CPU")
    assert "/job:localhost/" in worker.devices().result(WAIT)[0].name


@pytest.mark.tensorflow
def test_graphs_there_are_strangers_to_each_other(worker: Worker, server: ServerProcess) -> None:
    """One waits while the other runs, and variables of the same name are not the same variable."""
    counter = graph(
        node("v", "VariableV2", dtype=a_type("float32"), shape=graphs.a_shape([])),
        const("zero", from_numpy(np.float32(0)), "float32"),
        const("one", from_numpy(np.float32(1)), "float32"),
        node("init", "Assign", ["v", "zero"], T=a_type("float32")),
        node("more", "AssignAdd", ["v", "one"], T=a_type("float32")),
    )
    worker.load("counter", data=counter, options=SessionOptions(target=server.target))
    worker.load("other", data=counter, options=SessionOptions(target=server.target))
    for key, result_id in (("counter", "none"), ("other", "none"), ("counter", "first"), ("counter", "second")):
        worker.run(key, result_id, {}, ["init" if result_id == "none" else "more"]).result(WAIT)
    worker.run("other", "third", {}, ["more"])
    found = [worker.tensor(name, 0).result(WAIT).numpy().item() for name in ("first", "second", "third")]
    assert found == [1.0, 2.0, 1.0]


@pytest.mark.tensorflow
def test_two_graphs_at_once(server: ServerProcess) -> None:
    with Worker(runtime="capi", target=server.target) as worker:
        worker.load("stuck", data=graphs.hanging(), options=SessionOptions(target=server.target))
        worker.load("free", data=graphs.doubling(), options=SessionOptions(target=server.target))
        waiting = worker.run("stuck", "r1", {}, ["y"])
        worker.run("free", "r2", {"x": X}, ["y"])
        assert np.array_equal(worker.tensor("r2", 0).result(WAIT).numpy(), X.numpy() * 2)
        assert not waiting.done


@pytest.mark.tensorflow
def test_what_a_server_refuses_are_tensorflows_own_words(worker: Worker, server: ServerProcess) -> None:
    worker.load("g", data=graphs.doubling(), options=SessionOptions(target=server.target))
    with pytest.raises(TensorFlowError) as caught:
        worker.run("g", "r", {}, ["y"]).result(WAIT)
    assert caught.value.code == "invalid_argument" and "'x'" in caught.value.message
    worker.unload("g").result(WAIT)
    with pytest.raises(RuntimeFailure, match="no graph 'g' is loaded"):
        worker.run("g", "r", {"x": X}, ["y"]).result(WAIT)


# --- one that is not -----------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_a_server_that_dies(capi_worker: Worker, python_worker: Worker) -> None:
    """While one graph runs there, and before another one does; for workers of both kinds."""
    with running_server() as server:
        asked: list[tuple[Worker, Pending[RunSummary], Pending[list[TensorSpec]]]] = []
        for worker in (capi_worker, python_worker):
            worker.load("running", data=graphs.hanging(b"it waits"), options=SessionOptions(target=server.target))
            worker.load("loaded", data=graphs.doubling(), options=SessionOptions(target=server.target)).result(WAIT)
            asked.append((worker, worker.run("running", "r", {}, ["y"]), worker.signature("running", ["y"])))
            worker.run("loaded", "r", {"x": X}, ["y"]).result(WAIT)
        assert until(lambda: server.printed().count(b"it waits") == len(asked))
        server.kill()
        for worker, running, after in asked:
            for pending in (running, worker.run("loaded", "r2", {"x": X}, ["y"]), worker.devices(server.target)):
                with pytest.raises(TensorFlowError, match="connection refused") as caught:
                    pending.result(WAIT)
                assert caught.value.code == "unavailable" and server.target in caught.value.message
            # The graph is known here still, can be unloaded, and its worker goes on.
            assert after.result(WAIT) == [(1, None)]
            worker.unload("running").result(WAIT)
            worker.load("loaded", data=graphs.doubling()).result(WAIT)
            assert worker.run("loaded", "r", {"x": X}, ["y"]).result(WAIT).outputs[0].shape == (4, 5)


@pytest.mark.tensorflow
def test_nobody_listens(worker: Worker) -> None:
    with unheard_target() as target:
        error = refused(worker, target)
        assert error.code == "unavailable"
        assert error.message == f"no TensorFlow server answers at {target}: connection refused"
        with pytest.raises(TensorFlowError, match="no TensorFlow server answers"):
            worker.devices(target).result(WAIT)
    assert refused(worker, "grpc://no-such-host.invalid:2222").code == "unavailable"


@pytest.mark.tensorflow
def test_somebody_else_listens(unanswered: Asked) -> None:
    target, asked = unanswered
    for worker, loading in asked:
        with pytest.raises(TensorFlowError, match="something listens, and has not answered for 10 s") as caught:
            loading.result(WAIT)
        assert caught.value.code == "unavailable" and target in caught.value.message
        worker.load("g", data=graphs.doubling())
        worker.run("g", "r", {"x": X}, ["y"]).result(WAIT)


@pytest.mark.tensorflow
@pytest.mark.parametrize("target", ["localhost:2222", "grpc://localhost", "http://localhost:2222", "local", "grpc://"])
def test_no_address(worker: Worker, target: str) -> None:
    error = refused(worker, target)
    assert error.code == "invalid_argument"
    assert error.message == f"{target!r} is not the address of a TensorFlow server, a grpc://host:port"
    with pytest.raises(TensorFlowError, match="is not the address"):
        worker.devices(target).result(WAIT)


# --- the waiting itself --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target,address",
    [
        ("grpc://10.0.0.7:8470", ("10.0.0.7", 8470)),
        ("grpc://my_host.example:1", ("my_host.example", 1)),
        ("grpc://[fe80::1%eth0]:65535", ("fe80::1%eth0", 65535)),
        ("grpc://host:2222/", ("host", 2222)),
    ],
)
def test_addresses(target: str, address: tuple[str, int]) -> None:
    assert parse_target(target) == address


@pytest.mark.parametrize(
    "target",
    ["grpc://a:0", "grpc://a:65536", "grpc://a:-1", "grpc://:1", "grpc://a:1,b:2", "grpc://::1:5", "grpc://a:1\n"],
)
def test_no_addresses(target: str) -> None:
    with pytest.raises(TensorFlowError, match="is not the address"):
        Server(target)


class Door(Server):
    """A server whose knocks are answered from a list; the last answer is repeated."""

    def __init__(self, *answers: str | None) -> None:
        super().__init__("grpc://door:1")
        self._answers = list(answers)
        self.knocks = 0

    def _knock(self) -> str | None:
        self.knocks += 1
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.01)


@pytest.mark.usefixtures("quick")
def test_a_call_that_hangs_is_left_when_nobody_opens_twice_in_a_row() -> None:
    door = Door(None, None, "refused", None, "refused", "timed out")
    with pytest.raises(
        TensorFlowError, match=r"^the TensorFlow server at grpc://door:1 has gone: timed out$"
    ) as caught:
        door.call(threading.Event().wait)
    assert caught.value.code == "unavailable" and door.knocks == 6
    called: list[int] = []
    with pytest.raises(TensorFlowError) as again:
        door.call(lambda: called.append(1))
    assert again.value is caught.value and not called


@pytest.mark.usefixtures("quick")
def test_a_single_knock_that_is_missed_is_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door(None, "refused", None)
    release, knock = threading.Event(), door._knock

    def knocked() -> str | None:
        found = knock()
        if door.knocks == 4:
            release.set()
        return found

    monkeypatch.setattr(door, "_knock", knocked)
    assert door.call(release.wait) is True
    assert door.lost is None and door.knocks >= 4


def test_nothing_is_called_where_nobody_opens() -> None:
    door = Door("refused", None)
    called: list[int] = []
    with pytest.raises(TensorFlowError, match="has gone: refused"):
        door.call(lambda: called.append(1))
    assert not called and door.lost is None
    assert door.call(lambda: 7) == 7  # nothing hangs, so it may have come back


@pytest.mark.usefixtures("quick")
def test_a_limit_on_an_answer() -> None:
    door = Door(None)
    with pytest.raises(TensorFlowError, match=r"something listens, and has not answered for 0\.05 s"):
        door.call(threading.Event().wait, limit=0.05)
    assert door.lost is not None


def test_what_is_raised_comes_through() -> None:
    def fail() -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        Door(None).call(fail)
