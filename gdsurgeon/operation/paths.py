"""Where the result of an operation goes, and what it must not overwrite."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import ExitStack

from gdsurgeon.errors import Line, UsageError, printable, unwritable
from gdsurgeon.proof.settings import Event, Progress, silent
from gdsurgeon.wire.lock import Lock, changed_meanwhile
from gdsurgeon.wire.output import STANDARD_OUTPUT, Earlier, Output, link_or_copy, resolved, same_file, temporary_name
from gdsurgeon.wire.source import STANDARD_INPUT


def output_path(
    model: str, out: str | None, *, in_place: bool, backup: str | None, dry_run: bool, becomes: str = ".edited{suffix}"
) -> str:
    """Where the output goes; ``-`` is standard output.

    Where no other name is given BECOMES takes the place of the model's suffix, which it may name.

    Raises:
        UsageError: the options contradict each other, or the output is the input and `in_place` was not asked for.
    """
    check_agree(out, in_place=in_place, backup=backup)
    if in_place:
        if model in STANDARD_INPUT:
            raise UsageError(
                Line("standard input cannot be replaced; {in_place} needs a file"),
                code="bad-value",
                facts={"option": "in_place"},
            )
        return model
    if out is None:
        if model in STANDARD_INPUT or not (_is_regular(model) or os.path.isdir(model)):
            return "-"
        out = _default(model, becomes)
        if os.path.lexists(out) and not dry_run:
            raise UsageError(
                f"{printable(out)} exists already", advice="replace-path", code="file-exists", facts={"file": out}
            )
        return out
    if _is_same(model, out):
        raise UsageError(
            f"{printable(out)} is MODEL itself ({printable(model)})",
            advice="replace-model",
            code="would-replace",
            facts={"file": out, "other": model},
        )
    return out


def check_agree(out: str | None, *, in_place: bool, backup: str | None) -> None:
    """Raises UsageError where what is said of the output contradicts itself."""
    if backup is not None and not in_place:
        raise UsageError(
            Line("{backup} keeps the file that {in_place} replaces; it needs {in_place}"),
            code="missing-option",
            facts={"option": "in_place"},
        )
    if backup is not None and not backup:
        raise UsageError(Line("{backup} needs a suffix, such as .bak"), code="bad-value", facts={"option": "backup"})
    if in_place and out is not None:
        raise UsageError(
            Line("{in_place} and {out} exclude each other: give only one"),
            code="conflicting-options",
            facts={"option": "in_place"},
        )


def _default(model: str, becomes: str) -> str:
    """The name of MODEL as BECOMES has it."""
    if os.path.basename(os.path.normpath(model)) in (".", ".."):
        model = os.path.abspath(model)
    stem, suffix = (os.path.normpath(model), "") if os.path.isdir(model) else os.path.splitext(model)
    return stem + becomes.format(suffix=suffix)


def check_apart(out: str, request_backup: str | None, report: str | None, model: str, others: Sequence[str]) -> None:
    """Sees to it that nothing that is written falls on something else that is read or written.

    Args:
        out: the output.
        request_backup: the suffix under which the replaced file is kept.
        report: where the report goes.
        model: the graph that is edited.
        others: everything else that is read: further graphs, files of names, feeds, libraries.

    Raises:
        UsageError: two of them are one file, and one would be lost.
    """
    backup = backup_path(model, request_backup) if request_backup else None
    for other in others:
        if _collide(other, out):
            raise UsageError(
                f"the output would replace {printable(other)}, which is also an input",
                code="would-replace",
                facts={"file": out, "other": other},
            )
        if backup is not None and _collide(other, backup):
            raise UsageError(
                f"the backup would replace {printable(other)}, which is also an input",
                code="would-replace",
                facts={"file": backup, "other": other},
            )
    if report is None:
        return
    if report in STANDARD_OUTPUT and out in STANDARD_OUTPUT:
        raise UsageError(
            Line("the graph and the {report} cannot both be written to standard output"),
            code="conflicting-options",
            facts={"option": "report"},
        )
    for path in (model, out, *others, *((backup,) if backup else ())):
        if path not in STANDARD_OUTPUT and _collide(path, report):
            raise UsageError(
                Line("{report} {file} would replace {other}", file=printable(report), other=printable(path)),
                code="would-replace",
                facts={"option": "report", "file": report, "other": path},
            )


def check_takes_binary(output: Output) -> None:
    """Raises UsageError where OUTPUT is a terminal."""
    if output.is_terminal():
        raise UsageError(
            "the result is binary, and the output is a terminal", advice="write-elsewhere", code="is-a-terminal"
        )


def check_outside(out: str, folder: str) -> None:
    """Raises UsageError where OUT is in FOLDER, the model itself; '' where that is none."""
    if folder and resolved(out).startswith(os.path.join(resolved(folder), "")):
        facts = {"file": out, "model": folder}
        raise UsageError(f"{printable(out)} is inside MODEL ({printable(folder)})", code="inside-model", facts=facts)


def check_replaces_nothing(written: Sequence[tuple[str, str]], read: Sequence[str]) -> None:
    """Sees to it that no file that is written (argument, path) is one that is read, or is written twice.

    Raises:
        UsageError: one is.
    """
    for i, (argument, path) in enumerate(written):
        file = printable(path)
        for other in read:
            if _collide(other, path):
                line = "{argument} {file} would replace {other}, which is an input"
                raise UsageError(
                    Line(line, argument=argument, file=file, other=printable(other)),
                    code="would-replace",
                    facts={"file": path, "other": other},
                )
        for another, other in written[:i]:
            if _collide(other, path):
                line = "{argument} and {another} would both write {file}"
                raise UsageError(
                    Line(line, argument=argument, another=another, file=file),
                    code="would-replace",
                    facts={"file": path, "other": other},
                )


def _collide(path: str, written: str) -> bool:
    """Whether to write the one is to lose the other; either may not exist yet."""
    if _is_same(path, written):
        return True
    named = path not in STANDARD_INPUT and written not in STANDARD_OUTPUT
    return named and resolved(path) == resolved(written) and not path.startswith("/dev/")


def _is_regular(path: str) -> bool:
    """Whether PATH is a regular file, or may become one (what is missing is reported when it is opened)."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return True


def _is_same(read: str, written: str) -> bool:
    """Whether what is read and what is written are one regular file, standard input and output included."""
    try:
        first = os.fstat(0) if read in STANDARD_INPUT else os.stat(read)
        second = os.fstat(1) if written in STANDARD_OUTPUT else os.stat(written)
    except OSError:
        return False
    return (stat.S_ISREG(first.st_mode) or stat.S_ISDIR(first.st_mode)) and os.path.samestat(first, second)


def lock_of(model: str, progress: Progress = silent) -> Lock:
    """A lock on MODEL, which is to be replaced; another run that replaces it is waited for. Raises: see `Lock`."""
    return Lock(model, lambda: progress(Event("waiting")))


def back_up(model: str, suffix: str) -> None:
    """Keeps the old file under its name with SUFFIX; the file itself where links are possible, else a copy.

    Raises:
        OutputError: it cannot be written.
    """
    backup = backup_path(model, suffix)
    if same_file(model, backup):
        return  # a link to it already
    temporary = temporary_name(backup)
    try:
        link_or_copy(os.path.realpath(model), temporary)
        os.replace(temporary, backup)
    except OSError as error:
        if not os.path.exists(model):
            raise changed_meanwhile(model) from error
        raise unwritable(backup, error, role="the backup") from error
    finally:
        if os.path.lexists(temporary):
            os.unlink(temporary)


def back_up_all(model: str, suffix: str | None, staging: Output, stack: ExitStack) -> None:
    """Keeps MODEL, and what else STAGING replaces, under names with SUFFIX; as it was, where STAGING does not appear.

    SUFFIX is None where nothing is to be kept. What STACK is left by puts it back: whatever is done is done when it
    knows of that, at whichever instant a signal comes.

    Raises:
        OutputError: it cannot be kept.
    """
    if suffix is not None and os.path.isdir(model):
        from gdsurgeon.container.output_folder import FolderBackup

        stack.enter_context(FolderBackup(os.path.realpath(model), backup_path(model, suffix), staging)).keep()
    elif suffix is not None:
        for path in (model, *staging.replaced):
            stack.enter_context(Earlier(backup_path(path, suffix), staging)).keep()
            back_up(path, suffix)


def backup_path(model: str, suffix: str) -> str:
    """Where the old file is kept."""
    return os.path.realpath(model) + suffix
