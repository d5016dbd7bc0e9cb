"""set-device: cleared, mapped, set; in the graph and inside functions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support import graphs
from support.expecting import expect, refuse
from support.graphs import FLOAT, dtypes, func, function, graph, node, placeholder
from support.paths import FIXTURES

from gdsurgeon.cli.main import exit_code
from gdsurgeon.edits.claims import SameOutputs
from gdsurgeon.edits.set_device import set_device
from gdsurgeon.errors import EditError, GdsurgeonError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.select import Selection

WORKER = "/job:worker/replica:0/task:1/device:GPU:0"


def placed(*devices: str) -> Graph:
    """Nodes n0, n1, ... on DEVICES, behind a placeholder that is on none."""
    return graph(
        placeholder("x"), *(node(f"n{i}", "Identity", ["x"], device=d, T=FLOAT) for i, d in enumerate(devices))
    )


def devices(found: Graph) -> list[str]:
    """Those of the nodes in file order, without the placeholder's."""
    return [n.device for n in graphs.parsed(found).node if n.name != "x"]


def refused(found: Graph, words: str, **options: Any) -> None:
    refuse(found, words, lambda g: set_device(g, **options), error=GdsurgeonError)


def with_functions() -> Graph:
    inner = node("y", "Identity", ["x"], device="/gpu:0", T=FLOAT)
    other = node("y", "Identity", ["x"], device="/cpu:0", T=FLOAT)
    plain = node("y", "Identity", ["x"], T=FLOAT)
    library = graphs.library(function("f", inner), function("g", other), function("h", plain))
    call = node("call", "PartitionedCall", ["x"], device=WORKER, Tin=dtypes(FLOAT), Tout=dtypes(FLOAT), f=func("f"))
    return graph(placeholder("x"), call, trailer=library + graphs.VERSIONS)


def inner_devices(found: Graph) -> dict[str, list[str]]:
    return {f.signature.name: [n.device for n in f.node_def] for f in graphs.parsed(found).library.function}


def test_clear() -> None:
    after = [placeholder("x"), *(node(f"n{i}", "Identity", ["x"], T=FLOAT) for i in range(4))]
    before = placed("/gpu:0", "", WORKER, "nonsense")
    result = expect(before, lambda g: set_device(g, clear=True), after, command="set-device --clear")
    assert result.intent.changed == ["n0", "n2", "n3"]
    assert result.claims == (SameOutputs(even_alone=True),)
    assert result.notes == [
        "/gpu:0  ->  no device: 1 node",
        f"{WORKER}  ->  no device: 1 node",
        "nonsense  ->  no device: 1 node",
    ]


@pytest.mark.parametrize(
    ("pair", "before", "after"),
    [
        (("/gpu:0", "/cpu:0"), "/gpu:0", "/device:CPU:0"),
        (("/gpu:0", "/cpu:0"), "/device:GPU:0", "/device:CPU:0"),
        (("/device:GPU:0", "/device:CPU:0"), "/gpu:0", "/device:CPU:0"),
        (("/gpu:0", "/cpu:0"), WORKER, "/job:worker/replica:0/task:1/device:CPU:0"),
        (("/gpu:0", "/cpu:0"), "/gpu:1", "/gpu:1"),
        (("gpu:0", "cpu:0"), "/gpu:0", "/device:CPU:0"),
        (("/gpu:*", "/cpu:0"), "/gpu:1", "/device:CPU:0"),
        (("/gpu", "/cpu:0"), "/device:GPU:*", "/device:CPU:0"),
        (("/gpu:0", "/cpu:*"), "/gpu:0", "/device:CPU:*"),
        (("/job:worker", "/job:localhost"), WORKER, "/job:localhost/replica:0/task:1/device:GPU:0"),
        (("/job:worker/task:1", ""), WORKER, "/replica:0/device:GPU:0"),
        (("/job:worker/gpu:0", "/cpu:0"), WORKER, "/replica:0/task:1/device:CPU:0"),
        (("/job:worker", "/cpu:2"), WORKER, "/replica:0/task:1/device:CPU:2"),
        (("/gpu:0", ""), "/gpu:0", ""),
        (("nonsense", "/cpu:0"), "nonsense", "/device:CPU:0"),
        (("/device:MYNPU:0", "/cpu:0"), "/device:MyNpu:0", "/device:CPU:0"),
    ],
)
def test_map(pair: tuple[str, str], before: str, after: str) -> None:
    found = placed(before, "/gpu:0", "/device:GPU:1", WORKER, "nonsense", "/device:MyNpu:0")
    set_device(found, pairs=[pair])
    assert devices(found)[0] == after


def test_several_pairs_at_once() -> None:
    found = placed("/gpu:0", "/gpu:1", WORKER)
    result = set_device(found, pairs=[("/gpu:0", "/gpu:1"), ("/gpu:1", "/gpu:0"), ("/job:worker", "")])
    assert devices(found) == ["/device:GPU:1", "/device:GPU:0", "/replica:0/task:1/device:GPU:1"]
    assert len(result.notes) == 3


def test_pairs_that_contradict_each_other() -> None:
    refused(placed("/gpu:0"), "different things of '/gpu:0'", pairs=[("/gpu:0", "/cpu:0"), ("/gpu:*", "/cpu:1")])


def test_set() -> None:
    found = placed("/gpu:0", "", "/cpu:0")
    result = set_device(found, device="cpu:0", nodes=["n0", "n1", "n2"])
    assert devices(found) == ["/device:CPU:0", "/device:CPU:0", "/cpu:0"]  # which is the same device
    assert result.intent.changed == ["n0", "n1"]
    assert result.notes == ["/gpu:0  ->  /device:CPU:0: 1 node", "no device  ->  /device:CPU:0: 1 node"]


def test_a_selection_bounds_what_is_cleared_and_mapped() -> None:
    found = placed("/gpu:0", "/gpu:0", "/gpu:0")
    set_device(found, clear=True, nodes=Selection(regexes=("[01]$",)))
    assert devices(found) == ["", "", "/gpu:0"]
    found = with_functions()
    set_device(found, pairs=[("/gpu:0", "/cpu:0")], nodes=["call"])
    assert inner_devices(found) == {"f": ["/gpu:0"], "g": ["/cpu:0"], "h": [""]}


def test_functions() -> None:
    found = with_functions()
    result = set_device(found, pairs=[("/gpu:0", "/cpu:0")])
    assert inner_devices(found) == {"f": ["/device:CPU:0"], "g": ["/cpu:0"], "h": [""]}
    assert devices(found) == ["/job:worker/replica:0/task:1/device:CPU:0"]
    assert (result.intent.changed, result.intent.functions.changed) == (["call"], ["f"])
    assert result.notes[1] == "/gpu:0  ->  /device:CPU:0: 1 node inside functions"
    found = with_functions()
    result = set_device(found, clear=True)
    assert inner_devices(found) == {"f": [""], "g": [""], "h": [""]}
    assert result.intent.functions.changed == ["f", "g"]


def test_what_is_not_changed_keeps_its_bytes() -> None:
    found = with_functions()
    before = {f.signature.name: f for f in graphs.parsed(found).library.function}
    set_device(found, pairs=[("/cpu:0", "/cpu:1")])
    after = {f.signature.name: f for f in graphs.parsed(found).library.function}
    assert [name for name in after if after[name] != before[name]] == ["g"]
    assert graphs.bodies(found) == graphs.bodies(with_functions())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pairs": [("/tpu:0", "/cpu:0")]}, r"no device is '/tpu:0': the devices are '/gpu:0' \(2\), '/cpu:0' \(1\)"),
        ({"pairs": [("/gpu:0", "foo")]}, "'foo' is not a device"),
        ({"pairs": [("/gpu:0", "/device:GPU:0")]}, r"nothing would change: the devices are '/gpu:0' \(2\)"),
        ({"device": "/cpu:0", "nodes": ["n2"]}, "each of the 1 nodes asks for '/cpu:0' already"),
        ({"device": "foo", "nodes": ["n2"]}, "'foo' is not a device"),
        ({"device": "", "nodes": ["n2"]}, "'' is not a device"),
        ({"device": "/cpu:0"}, "select them"),
        ({"clear": True, "nodes": ["x"]}, "nothing would change: no node asks for a device"),
        ({"clear": True, "nodes": ["nope"]}, "has no node 'nope'"),
        ({"clear": True, "device": "/cpu:0"}, "either cleared, mapped or set"),
        ({}, "either cleared, mapped or set"),
    ],
)
def test_refusals(options: dict[str, Any], words: str) -> None:
    refused(placed("/gpu:0", "/gpu:0", "/cpu:0"), words, **options)


def test_devices_inside_functions_count_among_those_there_are() -> None:
    refused(with_functions(), r"the devices are .*'/gpu:0' \(1\)", pairs=[("/gpu:7", "/cpu:0")])


def test_hostile_devices_are_escaped() -> None:
    with pytest.raises(EditError) as caught:
        set_device(placed("/gpu:\x1b[2J"), pairs=[("/gpu:7", "/cpu:0")])
    assert "\x1b" not in caught.value.message
    assert "\x1b" not in "".join(set_device(placed("/gpu:\x1b[2J"), clear=True).notes)


def test_nodes_of_another_graph() -> None:
    other = placed("/gpu:0")
    refused(placed("/gpu:0"), "belongs to another graph", clear=True, nodes=[other["n0"]])


# The command line.


def run(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> tuple[int, str]:
    code = exit_code(["set-device", *arguments])
    return code, capsys.readouterr().err


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(FIXTURES / "classifier.pb")
    first, second, third = (str(tmp_path / name) for name in ("1.pb", "2.pb", "3.pb"))
    tail = ["--validate", "structure"]
    code, said = run(capsys, [model, "--set", "/gpu:0", "--op", "Conv2D", "-o", first, *tail])
    assert (code, "no device  ->  /device:GPU:0: 19 nodes" in said) == (0, True)
    code, said = run(capsys, [first, "--map", "/gpu:0=/cpu:0", "-o", second, *tail])
    assert (code, "/device:GPU:0  ->  /device:CPU:0: 19 nodes" in said) == (0, True)
    code, said = run(capsys, [second, "--clear", "-o", third, *tail])
    assert (code, "/device:CPU:0  ->  no device: 19 nodes" in said) == (0, True)
    assert graphs.parsed(Path(third).read_bytes()) == graphs.parsed(Path(model).read_bytes())


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "give --clear, --map OLD=NEW or --set DEVICE"),
        (["--clear", "--set", "/cpu:0"], 2, "only one of them"),
        (["--set", "/cpu:0"], 2, "no nodes are selected"),
        (["--map", "/cpu:0"], 2, "'/cpu:0' is not a pair OLD=NEW"),
        (["--clear", "--require-change"], 4, "no node asks for a device"),
        (["--map", "/gpu:0=/cpu:0", "--require-change"], 4, "no device is '/gpu:0': no node asks for a device"),
    ],
)
def test_the_command_refuses(
    arguments: list[str], code: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.pb"
    tail = ["-o", str(out), "--validate", "structure"]
    done, said = run(capsys, [str(FIXTURES / "classifier.pb"), *arguments, *tail])
    assert (done, words in said, out.exists()) == (code, True, False), said


@pytest.mark.tensorflow
def test_a_graph_that_is_pinned_to_a_gpu_gives_the_same_without(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pinned, out = tmp_path / "pinned.pb", tmp_path / "out.pb"
    pinned.write_bytes(_on_gpu())
    code, said = run(capsys, [str(pinned), "--clear", "-o", str(out)])
    assert (code, "bit-identical" in said) == (0, True), said


def _on_gpu() -> bytes:
    found = from_bytes((FIXTURES / "functions_tf2.pb").read_bytes())
    set_device(found, device="/gpu:0", nodes=Selection(scopes=("",)))
    return graphs.written(found)
