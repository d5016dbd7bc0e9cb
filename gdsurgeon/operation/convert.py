"""The operation that changes the form of a model's file, between binary and text, and nothing that it says."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from gdsurgeon.arguments import StrPath, fit_fields, path_of, public
from gdsurgeon.container.files import GRAPH_FILE, TEXT_FILE, saved_model_at
from gdsurgeon.container.load import folder_state, meta_of, model_folder
from gdsurgeon.container.output_folder import OutputFolder
from gdsurgeon.container.restoring import check_assets
from gdsurgeon.errors import InputError, OutputError, UsageError, ValidationError, printable, quoted
from gdsurgeon.graph.load import LARGEST_TEXT, from_source
from gdsurgeon.operation.paths import check_apart, check_outside, check_takes_binary, output_path
from gdsurgeon.text import size
from gdsurgeon.wire import sniff
from gdsurgeon.wire.messages import decode_error, message
from gdsurgeon.wire.output import STANDARD_OUTPUT, Output, OutputFile
from gdsurgeon.wire.source import STANDARD_INPUT, Source, Window, open_source
from gdsurgeon.wire.text import is_text_name, to_binary, to_text
from gdsurgeon.wire.write import Chunk, SourceSpan, size_of

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from gdsurgeon.wire.protos import NodeDef

MUCH_TEXT = 64 << 20
"""Bytes of a text from which on somebody is told that it is large."""


@dataclass(frozen=True)
class ConvertRequest:
    """What to convert, and to what.

    Attributes:
        model: a path: a GraphDef, a MetaGraph, a SavedModel's file or its folder; or ``-`` for standard input.
        out: a path, ``-`` for standard output, or None: MODEL's name with another suffix.
        text: whether the result is text; None: as the suffix of OUT says, or else what MODEL is not.
        dry_run: do everything but write.
    """

    model: StrPath
    out: StrPath | None = None
    text: bool | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        fit_fields(self)


class Converted(NamedTuple):
    """What was done.

    Attributes:
        out: where the result is.
        kind: the message: GraphDef, MetaGraphDef or SavedModel.
        was_text, is_text: the forms.
        before, after: bytes of the file.
        seconds: for all of it.
        idle: why there was nothing to do; '' where something was done.
        warnings: what there is to say besides.
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
    """A file: its bytes, which message it holds, and in which form."""

    source: Source
    kind: str
    is_text: bool

    def data(self) -> bytes:
        return self.source.read(0, self.source.size)

    def message(self) -> Message:
        """What it holds. Raises InputError: it is corrupt."""
        data = to_binary(self.data(), self.source.name, self.kind) if self.is_text else self.data()
        try:
            return message(f"tensorflow.{self.kind}").FromString(data)
        except decode_error():
            raise InputError(
                f"{printable(self.source.name)} is corrupt: protobuf cannot parse it",
                code="corrupt",
                facts={"file": self.source.name},
            ) from None


@public
def operate_convert(
    request: ConvertRequest, *, before_publishing: Callable[[Callable[[], bool]], None] = lambda _appeared: None
) -> Converted:
    """Writes the model in another form. What is written is read back, and is the same message, or nothing appears.

    The structure is not looked at: a broken graph that protobuf can read becomes text, to be mended by hand. Of a
    folder, links and assets outside of it are refused; its file alone is converted all the same.

    Args:
        request: what to do.
        before_publishing: called, when all is proven and nothing has appeared yet, with what says whether the result
            has appeared.

    Raises:
        GdsurgeonError: of any kind; the input is untouched, an earlier output as it was, and nothing left behind.
    """
    started = time.monotonic()
    folder, path = _place(os.fspath(request.model))
    files = folder_state(folder) if folder else None
    read = _read(path)
    try:
        for meta in read.message().meta_graphs if folder else ():  # type: ignore[attr-defined]
            check_assets(meta, folder)
        is_text = _is_text(request, read, folder)
        out = _out(request, folder, path, is_text=is_text)
        with _output(out, folder, is_text=is_text) as output:
            output.files = files
            if not is_text and not request.dry_run:
                check_takes_binary(output)
            chunks = _chunks(read, is_text=is_text)
            after = size_of(chunks)
            target = output if not request.dry_run else OutputFile("-")
            with target:
                _check_same(read, target.stage(chunks), is_text=is_text)
                read.source.check_unchanged()
                before_publishing(lambda: target.has_appeared)
                if not request.dry_run:
                    target.publish()
    finally:
        read.source.close()
    form = "text" if is_text else "binary"
    idle = f"{printable(read.source.name)} is already {form}" if read.is_text == is_text else ""
    warnings = list(_warnings(read, after, is_text=is_text))
    seconds = time.monotonic() - started
    return Converted(out, read.kind, read.is_text, is_text, read.source.size, after, seconds, idle, warnings)


def _place(model: str) -> tuple[str, str]:
    """The folder of a SavedModel, '' where MODEL is a file; and the file."""
    if model in STANDARD_INPUT:
        if model_folder(model):
            raise UsageError(
                "a SavedModel in a tar stream cannot be converted: unpack it, and name its folder", code="wrong-format"
            )
        return "", model
    folder = saved_model_at(model) if os.path.isdir(model) else ""
    if not folder:
        return "", meta_of(model)
    path = os.path.join(folder, GRAPH_FILE)
    return folder, path if os.path.isfile(path) else os.path.join(folder, TEXT_FILE)


def _read(path: str) -> _Read:
    """The file PATH, by what its beginning says that it is. Raises InputError: it is nothing that is converted."""
    source = open_source(path)
    window = Window(source, 0, source.size)
    if sniff.is_binary_graph(window):
        return _Read(source, "GraphDef", False)
    head = source.read(0, min(sniff.HEAD, source.size))
    kind = sniff.kind_of_text(head) if sniff.is_text(head) and sniff.foreign_format(head) is None else ""
    if kind:
        if source.size > LARGEST_TEXT:
            raise InputError(
                f"{printable(source.name)} is {size(source.size)} of text; protobuf reads at most 2 GiB",
                code="too-large",
            )
        return _Read(source, kind, True)
    binary = {sniff.META_GRAPH: "MetaGraphDef", sniff.SAVED_MODEL: "SavedModel"}
    found = sniff.container_format(window)
    if found in binary:
        return _Read(source, binary[found], False)
    graph = from_source(source)  # it says what the file is, where it is none
    return _Read(source, "GraphDef", graph.text is not None)


def _is_text(request: ConvertRequest, read: _Read, folder: str) -> bool:
    """Whether the result is text."""
    if request.text is not None:
        return request.text
    out = path_of(request.out)
    if out is not None and not folder and out not in STANDARD_OUTPUT:
        said = is_text_name(out), is_text_name(out, True)
        if said[0] == said[1]:
            return said[0]
    return not read.is_text


def _out(request: ConvertRequest, folder: str, path: str, *, is_text: bool) -> str:
    model = folder or path
    becomes = ".converted" if folder else ".pbtxt" if is_text else ".pb"
    out = output_path(
        model, path_of(request.out), in_place=False, backup=None, dry_run=request.dry_run, becomes=becomes
    )
    check_apart(out, None, None, model, ())
    check_outside(out, folder)
    return out


def _output(out: str, folder: str, *, is_text: bool) -> Output:
    if not folder:
        return OutputFile(out)
    if out in STANDARD_OUTPUT:
        raise UsageError(
            "a SavedModel is converted to a folder: write to a folder, or convert only a file of the SavedModel",
            code="bad-value",
            facts={"option": "out"},
        )
    return OutputFolder(out, folder, graph_file=TEXT_FILE if is_text else GRAPH_FILE)


def _chunks(read: _Read, *, is_text: bool) -> list[Chunk]:
    """The file in the form that is wanted; as it is, where it has that."""
    if read.is_text == is_text:
        return [SourceSpan(read.source, 0, read.source.size)]
    if read.is_text:
        return [to_binary(read.data(), read.source.name, read.kind)]
    read.message()  # what is wrong with it is the file's fault
    text = to_text(read.data(), read.kind)
    if len(text) > LARGEST_TEXT:
        raise OutputError(f"the text would be {size(len(text))}; protobuf reads at most 2 GiB", code="too-large")
    return [text]


def _check_same(read: _Read, staged: str, *, is_text: bool) -> None:
    """Raises ValidationError where the file STAGED, read back, does not hold what was read."""
    if read.is_text == is_text:
        return  # it is a copy
    source = open_source(staged)
    try:
        before, after = read.message(), read._replace(source=source, is_text=is_text).message()
        if _spelt(before) != _spelt(after):
            raise ValidationError(
                f"the result, read back, differs from {printable(read.source.name)}: text stores every NaN "
                "as the same value",
                details=tuple(_differing(before, after)),
                code="differs",
            )
    finally:
        with suppress(OSError):
            source.close()


def _spelt(found: Message) -> bytes:
    """The bytes of a message, which are the same for equal ones."""
    return bytes(found.SerializeToString(deterministic=True))


def _differing(before: Message, after: Message) -> Iterator[str]:
    """The nodes that differ, some of them."""
    nodes: list[list[NodeDef]] = [list(getattr(found, "node", ())) for found in (before, after)]
    names = [a.name for a, b in zip(*nodes, strict=False) if _spelt(a) != _spelt(b)]
    yield from (f"node {quoted(name)}" for name in names[:10])


def _warnings(read: _Read, after: int, *, is_text: bool) -> Iterator[str]:
    if is_text and not read.is_text and after > MUCH_TEXT:
        times = after / max(read.source.size, 1)
        yield (f"the text is {size(after)}, {times:.1f} times the size of the input, because it spells out all weights")
