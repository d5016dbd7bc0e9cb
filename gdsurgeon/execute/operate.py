"""The whole operation: load, check, edit, stage, prove, publish. Nothing appears that was not proven."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gdsurgeon.errors import OutputError, UsageError, printable
from gdsurgeon.execute.proof import Proof
from gdsurgeon.execute.settings import Overrides, Settings
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.journal import EditResult
from gdsurgeon.graph.load import load
from gdsurgeon.wire.output import Output, same_file
from gdsurgeon.wire.write import Chunk, read_chunks, size_of

if TYPE_CHECKING:
    from gdsurgeon.analysis.signature import Signature
    from gdsurgeon.execute.proving import Proving

LEVELS = ("none", "structure", "load", "run")
LARGEST = (1 << 31) - 1
"""Bytes of the largest GraphDef that TensorFlow can load."""

Edit = Callable[[Graph], EditResult]


@dataclass
class Request:
    """What to operate on, where to put the result, and how far to go in proving it.

    Attributes:
        model: a path, or ``-`` for standard input.
        out: a path, ``-`` for standard output, or None for the default.
        in_place: replace the model.
        backup: with `in_place`, the suffix under which the old file is kept.
        dry_run: do everything but write.
        level: one of `LEVELS`.
        text: whether the output is text; None: as the input, unless the output's suffix says otherwise.
    """

    model: str
    out: str | None = None
    in_place: bool = False
    backup: str | None = None
    dry_run: bool = False
    level: str = "run"
    text: bool | None = None
    settings: Settings = field(default_factory=Settings)
    overrides: Overrides = field(default_factory=Overrides)


@dataclass
class Counts:
    """Nodes, and how many of each op where that is known."""

    nodes: int
    ops: dict[str, int] | None


@dataclass
class Outcome:
    """What an operation has done.

    `before` and `after` have no signature where the structure was not looked at.
    """

    request: Request
    out: str
    size: int
    result: EditResult
    proof: Proof
    counts_before: Counts
    counts_after: Counts
    before: Signature | None
    after: Signature | None
    warnings: list[str]
    seconds: float


def operate(request: Request, edit: Edit) -> Outcome:
    """Applies EDIT to the model and publishes the result, proven as far as the request says.

    Raises:
        GdsurgeonError: of any kind; the input is untouched, an earlier output as it was, and nothing left behind.
    """
    started = time.monotonic()
    out = output_path(request)
    with Output(out) as output:
        if request.level in ("load", "run"):
            from gdsurgeon.execute.proving import Proving

            with Proving(request.settings, request.overrides, request.level) as proving:
                outcome = _operate(request, edit, output, proving)
        else:
            outcome = _operate(request, edit, output, None)
    outcome.seconds = time.monotonic() - started
    return outcome


def output_path(request: Request) -> str:
    """Where the output goes.

    Raises:
        UsageError: the options contradict each other, or the output is the input and `in_place` was not asked for.
    """
    model, out = request.model, request.out
    if request.backup is not None and not request.in_place:
        raise UsageError("--backup keeps the file that --in-place replaces; without -i there is none")
    if request.in_place:
        if out is not None:
            raise UsageError("-i replaces MODEL, and -o names another output: give one of them")
        if model == "-":
            raise UsageError("standard input cannot be replaced: -i needs a file")
        return model
    if out is None:
        if model == "-":
            return "-"
        out = _default_output(model)
        if os.path.lexists(out) and not request.dry_run:
            raise UsageError(f"{printable(out)} is already there", hint="-o PATH replaces PATH")
        return out
    if model != "-" and out != "-" and same_file(model, out):
        raise UsageError(f"{printable(out)} is MODEL itself", hint="-i replaces MODEL")
    return out


def _default_output(model: str) -> str:
    stem, suffix = os.path.splitext(model)
    return f"{stem}.edited{suffix}"


def _operate(request: Request, edit: Edit, output: Output, proving: Proving | None) -> Outcome:
    graph = load(request.model)
    if proving is not None:
        proving.begin(graph)
    seen_before = None
    warnings: list[str] = []
    if request.level != "none":
        from gdsurgeon.analysis.check import apply_repairs, require_sound

        findings = require_sound(graph)
        warnings += findings.warnings
        seen_before = _seen(graph)
        apply_repairs(graph, findings)
    result = edit(graph)
    chunks = graph.chunks()
    size = size_of(chunks)
    if size > LARGEST:
        raise _too_big(graph, size)
    text = _is_text(request, graph, output)
    proof = _publish(request, graph, result, chunks, text, output, proving)
    after, counts_after = _seen(graph)
    before, counts_before = seen_before or (None, Counts(graph.layout.node_count, None))
    return Outcome(
        request, output.name, size, result, proof, counts_before, counts_after, before, after,
        [*warnings, *result.warnings, *proof.warnings], 0.0,
    )  # fmt: skip


def _seen(graph: Graph) -> tuple[Signature | None, Counts]:
    """The signature and the counts, unless a big file would have to be indexed for them alone."""
    if not graph.has_table:
        return None, Counts(graph.node_count, None)
    from gdsurgeon.analysis.signature import signature

    return signature(graph), Counts(graph.node_count, graph.op_counts())


def _is_text(request: Request, graph: Graph, output: Output) -> bool:
    if request.text is not None:
        return request.text
    if request.out is not None and not output.is_stream:
        suffix = os.path.splitext(request.out)[1].lower()
        if suffix in (".pbtxt", ".txt", ".prototxt", ".textproto"):
            return True
        if suffix == ".pb":
            return False
    return graph.text


def _publish(
    request: Request,
    graph: Graph,
    result: EditResult,
    chunks: list[Chunk],
    text: bool,
    output: Output,
    proving: Proving | None,
) -> Proof:
    """Stages the bytes, has them proven, and only then makes them the output."""
    binary = b""
    if text:
        from gdsurgeon.wire.text import to_binary, to_text

        written = to_text(read_chunks(chunks))
        binary = to_binary(written, output.name)  # what a reader of the text will have
        chunks = [written]
    if proving is None:
        if request.dry_run:
            return Proof(request.level)
        if output.is_stream:
            output.stream(chunks)
            graph.source.check_unchanged()
            return Proof(request.level)
    staging = Output("-") if request.dry_run else output
    with staging:
        staged = staging.stage(chunks)
        graph.source.check_unchanged()
        proof = Proof(request.level)
        if proving is not None:
            proof = proving.prove(graph, result, binary if text else staged)
        if not request.dry_run:
            if request.backup is not None:
                _back_up(request.model, request.backup)
            staging.publish()
    return proof


def _back_up(model: str, suffix: str) -> None:
    """Keeps the old file under its name with SUFFIX; the file itself where links are possible, else a copy."""
    import shutil

    target = os.path.realpath(model)
    backup = target + suffix
    temporary = f"{backup}.gdsurgeon-{os.getpid()}.tmp"
    try:
        try:
            os.link(target, temporary)
        except OSError:
            shutil.copy2(target, temporary)
        os.replace(temporary, backup)
    except OSError as error:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        reason = (error.strerror or str(error)).lower()
        raise OutputError(f"the backup {printable(backup)} cannot be written: {reason}") from error


def _too_big(graph: Graph, size: int) -> OutputError:
    largest = sorted(graph.nodes(), key=lambda node: node.record.end - node.record.start if node.record else 0)[-5:]
    details = tuple(
        f"{printable(node.name)} ({node.op}): {(node.record.end - node.record.start) / 2**20:,.1f} MiB"
        for node in reversed(largest)
        if node.record is not None
    )
    return OutputError(
        f"the result would be {size / 2**30:.2f} GiB, and TensorFlow loads no GraphDef of 2 GiB or more; "
        "the largest nodes:",
        details=details,
    )
