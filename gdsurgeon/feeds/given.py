"""The user's values of feeds: text of the command line, files, archives of arrays."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import partial

from gdsurgeon.errors import Line, UsageError, printable, quoted, reason
from gdsurgeon.feeds.archive import Archive, of_dtype, split_key
from gdsurgeon.feeds.numbers import packed
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.attrs import FullShape, Shape
from gdsurgeon.graph.constants import parse_literal
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.served import node_of, serving_of, tensor_meant
from gdsurgeon.ops import dtypes
from gdsurgeon.ops.elements import require_numpy
from gdsurgeon.runtime.failures import first_line
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.text import near_miss


def check_names(overrides: Overrides, known: Iterable[str]) -> None:
    """Checks that the user's feeds exist in the graph.

    Raises:
        UsageError: a name is not in `known`, or an archive has no name that is.
    """
    names = list(known)
    for name in overrides.names():
        if name not in names:
            text = f"no placeholder {quoted(name)} exists to feed.{near_miss(name, names)}".rstrip(".")
            raise UsageError(text, code="no-such-input", node=name)
    if overrides.archive is not None:
        wanted = {*names, *overrides.archive_keys.values()}
        with Archive(overrides.archive) as archive:
            keys = archive.keys
        if not wanted.intersection(split_key(key)[0] for key in keys):
            has = ", ".join(map(quoted, keys[:5])) or "nothing"
            line = "{archive} {file} has {keys}, but no placeholder has this name"
            raise UsageError(Line(line, file=printable(overrides.archive), keys=has))


def as_meant(overrides: Overrides, graph: Graph) -> Overrides:
    """Returns the overrides with ``KEY/name`` replaced by names of the graph, also for the keys of an archive."""
    serving = serving_of(graph)
    if serving is None:
        return overrides
    names = overrides.names()
    if overrides.archive is not None:
        with Archive(overrides.archive) as archive:
            names += [split_key(key)[0] for key in archive.keys]
    return overrides.renamed(
        {name: node_of(partial(tensor_meant, graph), name) for name in names if name in serving.spellings}
    )


def given_feeds(name: str, dtype: int, stated: Shape, overrides: Overrides) -> tuple[Tensor, ...]:
    """Returns the user's values for a placeholder, one for each sample; empty without values.

    In an archive, the value of sample k has the key ``name@k`` for k >= 1. A sample without a value uses the first
    value.

    Args:
        name: the placeholder.
        dtype: its DataType.
        stated: its shape in the graph.
        overrides: the user's values and shapes.

    Raises:
        UsageError: a value cannot be read.
    """
    value = overrides.values.get(name)
    what = f"the feed for {quoted(name)}"
    if isinstance(value, str):
        ones = (1,) * len(stated or ())
        read = _from_file if value.startswith("@") else _from_text
        return (read(name, dtype, ones, value),)
    if value is not None:
        return (of_array(what, dtype, _as_dtype(value, dtype)),)
    if overrides.archive is None:
        return ()
    called = overrides.archive_keys.get(name, name)
    with Archive(overrides.archive) as archive:
        keys = {sample: key for key in archive.keys for base, sample in (split_key(key),) if base == called}
        if keys and 0 not in keys:
            line = "{archive} {file} has {key}, but no {first} for the first sample"
            key = quoted(keys[min(keys)])
            raise UsageError(Line(line, file=printable(overrides.archive), key=key, first=quoted(called)))
        found = {sample: of_array(what, dtype, archive.read(key)) for sample, key in keys.items()}
    return tuple(found.get(sample, found[0]) for sample in range(max(found, default=-1) + 1))


def _from_file(name: str, dtype: int, ones: FullShape, text: str) -> Tensor:
    """Returns the value in a file, ``@FILE``: a .npy file, or the bytes of one string."""
    path = text[1:]
    what = f"the feed {printable(path)} for {quoted(name)}"
    if path.endswith(".npy"):
        return of_array(f"the feed for {quoted(name)}", dtype, array_file(what, path))
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise UsageError(f"{what} cannot be read: {reason(error)}") from error
    if dtype != dtypes.STRING:
        raise UsageError(
            f"{quoted(name)} is {dtypes.dtype_name(dtype)}: a feed from a file must be .npy; raw bytes are "
            "only for strings"
        )
    return Tensor(dtypes.STRING, ones, [data])


def _as_dtype(value: object, dtype: int) -> object:
    """Returns `value` as an array of `dtype` if the kind is the same, as float64 for float32; otherwise `value`.

    NumPy's default dtypes are float64 and int64, which few inputs have.
    """
    import numpy as np

    from gdsurgeon.ops.elements import numpy_dtype

    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or dtypes.DTYPES[dtype].kind not in tuple("iuf"):
        return array
    wanted = numpy_dtype(dtype)
    if wanted.isbuiltin != 1 or (array.dtype.kind == "f" and wanted.kind != "f"):
        return array
    found = array.astype(wanted)
    return found if wanted.kind == "f" or np.array_equal(found, array) else array


def array_file(what: str, path: str) -> object:
    """Returns the array in the .npy file `path`; `what` describes it in messages.

    Raises:
        UsageError: it cannot be read.
    """
    require_numpy(what)
    import numpy as np

    try:
        found = np.load(path, allow_pickle=False)
    except OSError as error:
        raise UsageError(
            f"{what} cannot be read: {reason(error)}", code="unreadable", file=path, reason=reason(error)
        ) from error
    except Exception as error:  # NumPy raises many kinds of errors for a wrong file
        message = f"{what} cannot be read: it is not a valid .npy file"
        raise UsageError(message, code="wrong-format", file=path) from error
    if not isinstance(found, np.ndarray):
        raise UsageError(f"{what} is an archive, not a .npy file", code="wrong-format", file=path)
    return found


def of_array(what: str, dtype: int, value: object) -> Tensor:
    """Returns `value` as a tensor of `dtype`. Raises UsageError if this is not possible; `what` describes it."""
    try:
        return of_dtype(value, dtype)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{what} does not fit: {printable(first_line(error))}") from error


def _from_text(name: str, dtype: int, ones: FullShape, text: str) -> Tensor:
    """Returns a value of the command line: a number, true, a text, or nested lists in brackets."""
    what = f"the feed {quoted(text)} for {quoted(name)}"
    try:
        shape, flat, is_scalar = parse_literal(text, dtype)
    except ValueError as error:
        raise UsageError(f"{what} {error}") from None
    try:
        return Tensor(dtype, ones if is_scalar else shape, packed(dtype, flat))
    except (TypeError, ValueError, OverflowError, KeyError, AttributeError, struct.error):
        raise UsageError(f"{what} is not {dtypes.dtype_name(dtype)}") from None
