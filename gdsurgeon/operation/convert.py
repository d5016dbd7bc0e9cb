"""Converts the file of a model between binary and text, without a change of its content."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from gdsurgeon.arguments import StrPath, fit_fields, path_of, public
from gdsurgeon.container.files import GRAPH_FILE, TEXT_FILE, saved_model_at
from gdsurgeon.container.load import folder_state, meta_of, model_folder
from gdsurgeon.errors import InputError, OutputError, UsageError, ValidationError, printable, quoted
from gdsurgeon.graph.load import LARGEST_TEXT, from_source
from gdsurgeon.operation.paths import check_outside, check_takes_binary, output_path
from gdsurgeon.text import size
from gdsurgeon.wire import sniff
from gdsurgeon.wire.output import STANDARD_OUTPUT, Output, OutputFile
from gdsurgeon.wire.protos import decode_error, message
from gdsurgeon.wire.source import STANDARD_INPUT, Source, Window, open_source
from gdsurgeon.wire.text import is_text_name, to_binary, to_text
from gdsurgeon.wire.write import Chunk, SourceSpan, size_of

if TYPE_CHECKING:
    from google.protobuf.message import Message

MUCH_TEXT = 64 << 20
"""Bytes of a text that cause a warning about its size."""


@dataclass(frozen=True)
class ConvertRequest:
    """The input and the output of a conversion.

    Attributes:
        model: a path: a GraphDef, a MetaGraph, a SavedModel's file or its folder; or ``-`` for standard input.
        out: a path, ``-`` for standard output, or None: the name of `model` with a different suffix.
        text: whether the result is text; None: the suffix of `out` decides, otherwise the form changes.
        dry_run: do everything except writing.
    """

    model: StrPath
    out: StrPath | None = None
    text: bool | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        fit_fields(self)


class Converted(NamedTuple):
    """The result of a conversion.

    Attributes:
        out: the path of the result.
        kind: the message: GraphDef, MetaGraphDef or SavedModel.
        was_text, is_text: the forms.
        before, after: bytes of the file.
        seconds: of the whole conversion.
        idle: why nothing would change, or ''.
        warnings: one line each.
    """

    out: str
    kind: str
    was_text: bool
    is_text: bool
    before: int
    after: int
    seconds: float
    idle: str
    warnings: list[str]


class _Read(NamedTuple):
    """A file: its bytes, the message in it, and its form."""

    source: Source
    kind: str
    is_text: bool

    def data(self) -> bytes:
        return self.source.read(0, self.source.size)

    def message(self) -> Message:
        """Returns the message. Raises InputError if it is corrupt."""
        name = self.source.name
        data = to_binary(self.data(), name, self.kind) if self.is_text else self.data()
        try:
            return message(f"tensorflow.{self.kind}").FromString(data)
        except decode_error():
            line = f"{printable(name)} is corrupt: protobuf cannot parse it"
            raise InputError(line, code="corrupt", file=name) from None


@public
def operate_convert(
    request: ConvertRequest, *, before_publishing: Callable[[Callable[[], bool]], None] = lambda _appeared: None
) -> Converted:
    """Writes the model in a different form. The written file is read back and must contain the same message.

    The structure is not checked: a broken graph that protobuf can read becomes text, which can be repaired by hand.
    In a folder, links and assets outside of it are refused; its file alone can be converted.

    Args:
        request: the input and the output.
        before_publishing: called after the check and before publishing, with a function that returns whether the result
            has appeared.

    Raises:
        GdsurgeonError: of any kind; the input and an earlier output are unchanged, and no staged file is left.
    """
    started = time.monotonic()
    folder, path = _place(os.fspath(request.model))
    files = folder_state(folder) if folder else None
    read = _read(path)
    name = printable(read.source.name)
    try:
        if folder:
            from gdsurgeon.container.restoring import check_assets

            for meta in read.message().meta_graphs:  # type: ignore[attr-defined]
                check_assets(meta, folder)
        is_text = _is_text(request, read, folder)
        out, opened = _output(request, folder, path, is_text=is_text)
        with opened as output:
            output.files = files
            if not is_text and not request.dry_run:
                check_takes_binary(output)
            chunks = _chunks(read, is_text=is_text)
            after = size_of(chunks)
            with output if not request.dry_run else OutputFile("-") as target:
                staged = target.stage(chunks)
                if read.is_text != is_text:
                    _check_same(read, staged)
                read.source.check_unchanged()
                before_publishing(lambda: target.has_appeared)
                if not request.dry_run:
                    target.publish()
    finally:
        read.source.close()
    idle = f"{name} is already {'text' if is_text else 'binary'}" if read.is_text == is_text else ""
    warnings = []
    if is_text and not read.is_text and after > MUCH_TEXT:
        times = after / max(read.source.size, 1)
        line = f"the text is {size(after)}, {times:.1f} times the size of the input, because it spells out all weights"
        warnings.append(line)
    seconds = time.monotonic() - started
    return Converted(out, read.kind, read.is_text, is_text, read.source.size, after, seconds, idle, warnings)


def _place(model: str) -> tuple[str, str]:
    """Returns the folder of a SavedModel, '' for a file, and the path of the file."""
    if model in STANDARD_INPUT:
        if model_folder(model):
            line = "a SavedModel in a tar stream cannot be converted: unpack it, and name its folder"
            raise UsageError(line, code="wrong-format")
        return "", model
    folder = saved_model_at(model) if os.path.isdir(model) else ""
    if not folder:
        return "", meta_of(model)
    path = os.path.join(folder, GRAPH_FILE)
    return folder, path if os.path.isfile(path) else os.path.join(folder, TEXT_FILE)


def _read(path: str) -> _Read:
    """Returns the file; its first bytes show its kind. Raises InputError if the kind cannot be converted."""
    source = open_source(path)
    window = Window(source, 0, source.size)
    if sniff.is_binary_graph(window):
        return _Read(source, "GraphDef", False)
    head = source.read(0, min(sniff.HEAD, source.size))
    kind = sniff.kind_of_text(head) if sniff.is_text(head) and sniff.foreign_format(head) is None else ""
    if kind:
        if source.size > LARGEST_TEXT:
            line = f"{printable(source.name)} is {size(source.size)} of text; protobuf reads at most 2 GiB"
            raise InputError(line, code="too-large")
        return _Read(source, kind, True)
    binary = {sniff.META_GRAPH: "MetaGraphDef", sniff.SAVED_MODEL: "SavedModel"}
    found = sniff.container_format(window)
    if found in binary:
        return _Read(source, binary[found], False)
    graph = from_source(source)  # if it is not a graph, the error names the kind of the file
    return _Read(source, "GraphDef", graph.text is not None)


def _is_text(request: ConvertRequest, read: _Read, folder: str) -> bool:
    """Returns whether the result is text."""
    if request.text is not None:
        return request.text
    out = path_of(request.out) if not folder else None
    return is_text_name(out or "", not read.is_text)


def _output(request: ConvertRequest, folder: str, path: str, *, is_text: bool) -> tuple[str, Output]:
    model = folder or path
    becomes = ".converted" if folder else ".pbtxt" if is_text else ".pb"
    out = output_path(model, path_of(request.out), dry_run=request.dry_run, becomes=becomes)
    check_outside(out, folder)
    if not folder:
        return out, OutputFile(out)
    if out in STANDARD_OUTPUT:
        line = "a SavedModel is converted to a folder: write to a folder, or convert only a file of the SavedModel"
        raise UsageError(line, code="bad-value", option="out")
    from gdsurgeon.container.output import OutputFolder

    return out, OutputFolder(out, folder, graph_file=TEXT_FILE if is_text else GRAPH_FILE)


def _chunks(read: _Read, *, is_text: bool) -> list[Chunk]:
    """Returns the file in the requested form; it is copied if it already has that form."""
    if read.is_text == is_text:
        return [SourceSpan(read.source, 0, read.source.size)]
    if read.is_text:
        return [to_binary(read.data(), read.source.name, read.kind)]
    read.message()  # it raises an error about the file
    text = to_text(read.data(), read.kind)
    if len(text) > LARGEST_TEXT:
        raise OutputError(f"the text would be {size(len(text))}; protobuf reads at most 2 GiB", code="too-large")
    return [text]


def _check_same(read: _Read, staged: str) -> None:
    """Raises ValidationError if the staged file, read back in its form, differs from the input."""
    with closing(open_source(staged)) as source:
        messages = read.message(), read._replace(source=source, is_text=not read.is_text).message()
    if _spelled(messages[0]) == _spelled(messages[1]):
        return
    nodes = zip(*(getattr(found, "node", ()) for found in messages), strict=False)
    details = [f"node {quoted(a.name)}" for a, b in nodes if _spelled(a) != _spelled(b)]
    raise ValidationError(
        f"the result, read back, differs from {printable(read.source.name)}: text stores every NaN as the same value",
        details=tuple(details[:10]),
        code="differs",
    )


def _spelled(found: Message) -> bytes:
    """Returns the bytes of a message, which are the same for equal messages."""
    return bytes(found.SerializeToString(deterministic=True))
