"""The path of the output, and checks that it replaces no other file."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import ExitStack

from gdsurgeon.errors import Line, UsageError, printable, unwritable
from gdsurgeon.proof.settings import Event, Progress, silent
from gdsurgeon.wire.folder import Lock, changed_meanwhile
from gdsurgeon.wire.output import (
    STANDARD_OUTPUT,
    Earlier,
    Output,
    check_state,
    link_or_copy,
    resolved,
    same_file,
    temporary_name,
)
from gdsurgeon.wire.source import STANDARD_INPUT


def output_path(model: str, out: str | None, *, dry_run: bool, becomes: str) -> str:
    """Returns the path of the output, which does not replace the model; ``-`` is standard output.

    If no output is named, `becomes` replaces the suffix of the model's name; it may contain that suffix.

    Raises:
        UsageError: the output is the input, or exists already and is not named.
    """
    if out is None:
        is_special = os.path.exists(model) and not os.path.isfile(model) and not os.path.isdir(model)
        if model in STANDARD_INPUT or is_special:
            return "-"
        if os.path.basename(os.path.normpath(model)) in (".", ".."):
            model = os.path.abspath(model)
        stem, suffix = (os.path.normpath(model), "") if os.path.isdir(model) else os.path.splitext(model)
        out = stem + becomes.format(suffix=suffix)
        if os.path.lexists(out) and not dry_run:
            raise UsageError(f"{printable(out)} exists already", advice="replace-path", code="file-exists", file=out)
        return out
    if _is_same(model, out):
        raise UsageError(
            f"{printable(out)} is MODEL itself ({printable(model)})",
            advice="replace-model",
            code="would-replace",
            file=out,
            other=model,
        )
    return out


def check_agree(out: str | None, *, in_place: bool, backup: str | None) -> None:
    """Raises UsageError if the options of the output contradict each other."""
    if backup is not None and not in_place:
        line = Line("{backup} keeps the file that {in_place} replaces; it needs {in_place}")
        raise UsageError(line, code="missing-option", option="in_place")
    if backup == "":
        raise UsageError(Line("{backup} needs a suffix, such as .bak"), code="bad-value", option="backup")
    if in_place and out is not None:
        line = Line("{in_place} and {out} exclude each other: give only one")
        raise UsageError(line, code="conflicting-options", option="in_place")


def check_takes_binary(output: Output) -> None:
    """Raises UsageError if `output` is a terminal."""
    if output.is_terminal():
        raise UsageError(
            "the result is binary, and the output is a terminal", advice="write-elsewhere", code="is-a-terminal"
        )


def check_outside(out: str, folder: str) -> None:
    """Raises UsageError if `out` is in `folder`, the model; '' if the model is not a folder."""
    if folder and resolved(out).startswith(os.path.join(resolved(folder), "")):
        line = f"{printable(out)} is inside MODEL ({printable(folder)})"
        raise UsageError(line, code="inside-model", file=out, model=folder)


def check_replaces_nothing(written: Sequence[tuple[str, str]], read: Sequence[str], **facts: str) -> None:
    """Raises UsageError, with `facts`, if a written file (argument, path) is also read, or is written twice."""
    for place, (argument, path) in enumerate(written):
        for other in (*read, *(earlier for _, earlier in written[:place])):
            if _collide(other, path):
                line = Line(
                    "{argument} {file} would replace {other}, which is an input or output",
                    argument=argument, file=printable(path), other=printable(other),
                )  # fmt: skip
                raise UsageError(line, code="would-replace", facts={"file": path, "other": other, **facts})


def _collide(path: str, written: str) -> bool:
    """Returns whether writing one path replaces the other; either may not exist yet."""
    if _is_same(path, written):
        return True
    named = path not in STANDARD_INPUT and written not in STANDARD_OUTPUT
    return named and resolved(path) == resolved(written) and not path.startswith("/dev/")


def _is_same(read: str, written: str) -> bool:
    """Returns whether both paths are the same file or folder, including standard input and output."""
    try:
        first = os.fstat(0) if read in STANDARD_INPUT else os.stat(read)
        second = os.fstat(1) if written in STANDARD_OUTPUT else os.stat(written)
    except OSError:
        return False
    return (stat.S_ISREG(first.st_mode) or stat.S_ISDIR(first.st_mode)) and os.path.samestat(first, second)


def lock_of(model: str, progress: Progress = silent) -> Lock:
    """Returns a lock on a model that is replaced; it waits for other runs that replace it. Raises: see `Lock`."""
    return Lock(model, lambda: progress(Event("waiting")))


def back_up(model: str, suffix: str | None, staging: Output, stack: ExitStack) -> None:
    """Keeps the model, and other files that `staging` replaces, under names with `suffix`; None: they are not kept.

    The model must still be in the state in which it was read, if `staging` replaces it.

    A file is linked if possible, otherwise copied. If `staging` does not appear, `stack` restores the earlier files
    with these names, also after a signal at any time.

    Raises:
        OutputError: it cannot be kept, or has changed.
    """
    if staging.replaces is not None:
        check_state(model, staging.replaces)
    if suffix is None:
        return
    if os.path.isdir(model):
        from gdsurgeon.container.output import FolderBackup

        stack.enter_context(FolderBackup(os.path.realpath(model), backup_path(model, suffix), staging)).keep()
        return
    for path in dict.fromkeys((model, *staging.replaced)):
        backup = backup_path(path, suffix)
        stack.enter_context(Earlier(backup, staging)).keep()
        if same_file(path, backup):
            continue  # a link to it already
        temporary = temporary_name(backup)
        try:
            link_or_copy(os.path.realpath(path), temporary)
            os.replace(temporary, backup)
        except OSError as error:
            if not os.path.exists(path):
                raise changed_meanwhile(path) from error
            raise unwritable(backup, error, role="the backup") from error
        finally:
            if os.path.lexists(temporary):
                os.unlink(temporary)


def backup_path(model: str, suffix: str) -> str:
    """Returns the path under which the old file is kept."""
    return os.path.realpath(model) + suffix
