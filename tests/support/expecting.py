"""What every edit is held to: the graph before, the edit, the graph after."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gdsurgeon.analysis.checks.check import check, check_edited
from gdsurgeon.cli.main import exit_code
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import EditError, GdsurgeonError, ValidationError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof.accounting import check_accounted
from support import graphs
from support.desk import check_error
from support.running import run

Edit = Callable[[Graph], EditResult]
Records = Sequence[bytes]


def expect(
    before: Graph | Records,
    edit: Edit,
    after: Records | None = None,
    *,
    trailer: bytes = graphs.VERSIONS,
    command: str = "",
    same: Sequence[str] = (),
    fed: Mapping[str, Any] | None = None,
    **wanted: Any,
) -> EditResult:
    """EDIT makes AFTER of BEFORE: the same nodes in that order, with their inputs, control inputs, attrs and devices.

    Args:
        before: the graph, which is edited in place, or its nodes.
        trailer: the bytes after the nodes: the library and the versions.
        command: the command line that does the same, without the model and where the output goes.
        same: tensors that TensorFlow finds to be what they were, when it runs both graphs on FED.
        wanted: more of what the edit makes, see `check_made`.
    """
    found = before if isinstance(before, Graph) else graphs.graph(*before)
    original = graphs.written(found)
    result = edit(found)
    check_accounted(found, result, found.chunks())
    if after is not None:
        check_graph(found, *after, trailer=trailer)
    check_made(found, result, **wanted)
    if command:
        assert from_command_line(command, original) == graphs.written(found)
    if same:
        assert run(found, *same, **(fed or {})) == run(original, *same, **(fed or {}))
    return result


VIEWS: Mapping[str, Callable[[Graph], Any]] = {
    "inputs": graphs.inputs,
    "ops": graphs.ops,
    "names": graphs.names,
    "colocations": graphs.colocations,
    "functions": lambda found: [function.signature.name for function in graphs.parsed(found).library.function],
    "devices": lambda found: {node.name: node.device for node in graphs.parsed(found).node if node.device},
}


def check_made(found: Graph, result: EditResult, reads: Mapping[str, Sequence[str] | None] = {}, **wanted: Any) -> None:
    """Checks that an edited graph is sound, and what WANTED says of it and of the result.

    Args:
        reads: the inputs of some nodes; None for a node that the graph must not have.
        wanted: a view of the whole graph by its name in `VIEWS`; the codes and facts of all `notes` or `warnings`;
            `claims`; or a field of the intent.
    """
    assert sound(found)
    inputs = graphs.inputs(found)
    assert {name: inputs.get(name) for name in reads} == {name: read and [*read] for name, read in reads.items()}
    for key, value in wanted.items():
        if key in ("notes", "warnings"):
            told = getattr(result, key)
            assert len(told) == len(value), told
            for remark, (code, facts) in zip(told, value, strict=True):
                check_error(remark, code, facts)
        elif key in VIEWS:
            assert VIEWS[key](found) == value
        else:
            assert getattr(result if key == "claims" else result.intent, key) == value, key


def account(found: Graph, result: EditResult) -> None:
    """Makes all checks of an edit that need no TensorFlow. Raises ValidationError if the result is wrong."""
    chunks = found.chunks()
    faults = check_edited(found)
    if faults:
        raise ValidationError("faults:", details=tuple(faults))
    check_accounted(found, result, chunks)


def sound(found: Graph) -> bool:
    """Whether the graph as it would be written has no fault."""
    return check(from_bytes(graphs.written(found))).faults == []


def check_graph(found: Graph, *records: bytes, trailer: bytes = graphs.VERSIONS) -> None:
    """Checks that FOUND has the nodes RECORDS, in this order; unchanged nodes have their old bytes; it is sound."""
    wanted = graphs.proto(*records, trailer=trailer)
    assert graphs.parsed(found) == wanted
    old = {n.name: n for n in graphs.parsed(found.pristine()).node}
    old_bodies, bodies = graphs.bodies_by_name(found.pristine()), graphs.bodies_by_name(found)
    for new in wanted.node:
        if old.get(new.name) == new:
            assert bodies[new.name] == old_bodies[new.name]
    assert sound(found)
    assert check_edited(found) == []


def refused(
    found: Graph,
    code: str,
    edit: Callable[[Graph], object],
    /,
    *others: Graph,
    error: type[GdsurgeonError] = EditError,
    **facts: Any,
) -> Any:
    """The error of EDIT, which has the code CODE and FACTS, and leaves FOUND, and OTHERS that it reads, unchanged."""
    graphs_ = (found, *others)
    before = [(graphs.written(each), each.is_changed, list(each.names())) for each in graphs_]
    with pytest.raises(error) as caught:
        edit(found)
    check_error(caught.value, code, facts)
    assert [(graphs.written(each), each.is_changed, list(each.names())) for each in graphs_] == before
    return caught.value


def from_command_line(command: str, model: bytes) -> bytes:
    """What COMMAND, such as 'rename a=b', makes of MODEL."""
    name, *arguments = shlex.split(command)
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "model.pb", Path(folder) / "out.pb"
        path.write_bytes(model)
        assert exit_code([name, str(path), *arguments, "-o", str(out), "--validate", "structure", "--quiet"]) == 0
        return out.read_bytes()
