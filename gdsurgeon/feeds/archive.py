"""Archives of feeds: .npz files that store every tensor bit for bit; archives by numpy can also be read."""

from __future__ import annotations

import io
import re
import struct
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from gdsurgeon.errors import OutputError, UsageError, printable, quoted, reason
from gdsurgeon.ops.dtypes import DTYPES, NUMBERS, STRING
from gdsurgeon.ops.numpy_dtypes import numpy_dtype, require_numpy
from gdsurgeon.resources import MEMORY, memory_budget
from gdsurgeon.runtime.tensor import Array, Tensor, from_numpy
from gdsurgeon.text import size
from gdsurgeon.values import Closing
from gdsurgeon.wire.output import OutputFile

_SAMPLE = re.compile(r"(.+)@([1-9][0-9]{0,8})", re.DOTALL)
_LENGTH, _DTYPE = "@length", "@dtype"
_OBJECTS = (
    "may be any Python object: np.array(texts, 'S') stores texts; if they may end with zeros, also store "
    "their lengths as NAME@length"
)
_MADE = (1980, 1, 1, 0, 0, 0)  # the first time that a zip archive knows: the same archive whenever it is made


def key_of(name: str, sample: int) -> str:
    """Returns the key in an archive of the value of an input for a sample; names of nodes do not contain ``@``."""
    return f"{name}@{sample}" if sample else name


def split_key(key: str) -> tuple[str, int]:
    """Returns the name of the input and the number of the sample of a key."""
    found = _SAMPLE.fullmatch(key)
    return (found[1], int(found[2])) if found is not None else (key, 0)


def save(path: str, samples: Sequence[Mapping[str, Tensor]]) -> None:
    """Writes values of inputs, by name, one mapping for each sample, to the .npz file PATH: whole or not at all.

    Texts whose ends numpy would lose have their lengths in an entry ``KEY@length``; where no dtype of numpy's own says
    what the elements are, ``KEY@dtype`` names TensorFlow's, and they are stored as plain words.

    Raises:
        OutputError: it cannot be written; nothing is left behind.
    """
    buffer = io.BytesIO()
    try:
        with zipfile.ZipFile(buffer, "w") as archive:
            for number, sample in enumerate(samples):
                for name, tensor in sample.items():
                    if "@" in name or "\0" in name:
                        raise OutputError(f"{printable(path)} cannot be written: {quoted(name)} is not an input name")
                    for suffix, array in _arrays(tensor):
                        _write(archive, key_of(name, number) + suffix, array)
    except (ValueError, struct.error, zipfile.LargeZipFile) as error:  # a name that is too long, or is no Unicode
        raise OutputError(f"{printable(path)} cannot be written: {first_line(error)}") from error
    with OutputFile(path) as output:
        output.stage([buffer.getvalue()])
        output.publish()


def _write(archive: zipfile.ZipFile, key: str, array: Array) -> None:
    from numpy.lib import format as npy

    entry = io.BytesIO()
    npy.write_array(entry, array, allow_pickle=False)
    info = zipfile.ZipInfo(key + ".npy", _MADE)
    info.external_attr = 0o644 << 16
    archive.writestr(info, entry.getvalue())


def _arrays(tensor: Tensor) -> list[tuple[str, Array]]:
    """The entries that hold TENSOR: a suffix of its key, and an array."""
    import numpy as np

    if isinstance(tensor.data, list):
        return _text_arrays(tensor.data, tensor.shape)
    dtype, stored = DTYPES[tensor.dtype], numpy_dtype(tensor.dtype)
    if NUMBERS.get(stored.name) == tensor.dtype and stored.isbuiltin == 1:
        return [("", tensor.numpy())]
    words = np.frombuffer(tensor.data, f"u{dtype.size}").reshape(tensor.shape)
    return [("", words), (_DTYPE, np.array(dtype.name))]


def _text_arrays(texts: list[bytes], shape: tuple[int, ...]) -> list[tuple[str, Array]]:
    import numpy as np

    lengths = (_LENGTH, np.array([len(text) for text in texts], np.int64).reshape(shape))
    total = sum(map(len, texts))
    longest = max(map(len, texts), default=0)
    if longest * len(texts) > 4 * total + (1 << 20):  # one long text among short ones: numpy would pad them all
        return [("", np.frombuffer(b"".join(texts), np.uint8)), lengths, (_DTYPE, np.array("string"))]
    array = np.array(texts, f"S{max(longest, 1)}").reshape(shape)
    return [("", array), lengths] if any(text.endswith(b"\0") for text in texts) else [("", array)]


def load(path: str, what: str = "the feeds") -> list[dict[str, Tensor | Array]]:
    """The values in the .npz file PATH by input name, one mapping for each sample; at least one mapping.

    A value is a Tensor, or a numpy array if it cannot be a Tensor without change: TensorFlow does not have its dtype,
    or it has raw words and the file does not give their dtype.

    Raises:
        UsageError: the file cannot be read.
    """
    with Archive(path, what) as archive:
        archive.check_size()
        out: list[dict[str, Tensor | Array]] = [
            {} for _ in range(max((split_key(key)[1] for key in archive.keys), default=0) + 1)
        ]
        for key in archive.keys:
            name, sample = split_key(key)
            out[sample][name] = archive.read(key)
    return out


class Archive(Closing):
    """The values in the .npz file PATH; each is read when it is asked for. Use as a context manager.

    Attributes:
        keys: the names of the values.

    Raises:
        UsageError: the file cannot be read, or is no archive.
    """

    def __init__(self, path: str, what: str = "the feeds") -> None:
        self.path = path
        self._what = what
        try:
            self._zip = zipfile.ZipFile(path)
            entries = [entry.removesuffix(".npy") for entry in self._zip.namelist() if entry.endswith(".npy")]
        except OSError as error:
            raise self._unreadable(reason(error)) from error
        except Exception as error:  # the zip reader raises many kinds of errors for a wrong file
            raise self._unreadable("it is not a valid .npz archive") from error
        self._entries = frozenset(entries)
        self.keys = [key for key in entries if not self._belongs_to_another(key)]
        for key in self.keys:
            if split_key(key)[1] > len(self.keys):
                self.close()
                raise self._unreadable(
                    f"{quoted(key)} is for sample {split_key(key)[1]}, but earlier samples are missing"
                )

    def _belongs_to_another(self, key: str) -> bool:
        return any(key.endswith(end) and key.removesuffix(end) in self._entries for end in (_LENGTH, _DTYPE))

    def close(self) -> None:
        """Closes the file."""
        self._zip.close()

    def check_size(self, entries: Iterable[str] | None = None) -> None:
        """Checks what ENTRIES, or all of them, unfold to: a few bytes may be gigabytes.

        Raises:
            UsageError: they would take more than a quarter of the memory budget.
        """
        names = self._zip.namelist() if entries is None else entries
        unfolded, most = sum(self._zip.getinfo(name).file_size for name in names), memory_budget() // 4
        if most and unfolded > most:
            raise self._unreadable(
                f"it needs {size(unfolded)} of memory, but only {size(most)} may be used ({MEMORY} sets the limit)"
            )

    def read(self, key: str) -> Tensor | Array:
        """The value KEY: see `load`.

        Raises:
            UsageError: it cannot be read.
        """
        array = self._array(key)
        lengths = self._array(key + _LENGTH) if key + _LENGTH in self._entries else None
        name = str(self._array(key + _DTYPE)[()]) if key + _DTYPE in self._entries else ""
        try:
            if lengths is not None and (array.dtype.kind == "S" or name == "string"):
                return _texts(array, lengths)
            return from_numpy(array, NUMBERS[name]) if name else from_numpy(array)
        except (TypeError, KeyError) as error:
            if name or lengths is not None:
                raise self._unreadable(f"{quoted(key)} does not match its description") from error
            return array
        except ValueError as error:
            raise self._unreadable(f"{quoted(key)} does not match its description") from error

    def _array(self, key: str) -> Array:
        require_numpy(f"{self._what} {printable(self.path)}")
        from numpy.lib import format as npy

        self.check_size([key + ".npy"])
        try:
            with self._zip.open(key + ".npy") as entry:
                found: Array = npy.read_array(entry, allow_pickle=False)
                return found
        except Exception as error:  # whatever the zip and array readers make of a broken file
            if "allow_pickle" in str(error):
                raise self._unreadable(f"{quoted(key)} has the dtype object, and its values {_OBJECTS}") from error
            raise self._unreadable(first_line(error)) from error

    def _unreadable(self, why: str) -> UsageError:
        message = f"{self._what} {printable(self.path)} cannot be read: {why}"
        return UsageError(message, code="unreadable", facts={"file": self.path})


def _texts(array: Array, lengths: Array) -> Tensor:
    """Texts of known lengths. Raises ValueError if the lengths do not fit the data."""
    sizes = [int(size) for size in lengths.reshape(-1)]
    if array.dtype.kind == "S":
        width = array.dtype.itemsize
        if array.shape != lengths.shape or not all(0 <= size <= width for size in sizes):
            raise ValueError("the lengths do not fit the texts")
        starts = [width * i for i in range(len(sizes))]
    else:
        if sum(sizes) != array.nbytes or min(sizes, default=0) < 0:
            raise ValueError("the lengths do not fit the texts")
        starts = [0, *accumulate(sizes)]
    data = array.tobytes()
    return Tensor(STRING, lengths.shape, [data[at : at + size] for at, size in zip(starts, sizes, strict=False)])


def of_dtype(value: object, dtype: int) -> Tensor:
    """VALUE of an archive or an array file as a tensor for an input of DTYPE.

    Words without a meaning of their own take that of DTYPE, where the sizes agree: numpy has no name for bfloat16 and
    the like, and the quantised types come as plain integers.

    Raises:
        TypeError: no tensor can be that.
        ValueError: likewise.
    """
    tensor = value if isinstance(value, Tensor) else None
    if tensor is None:
        import numpy as np

        array = np.asarray(value)
        if array.dtype.kind == "V" and array.dtype.itemsize == DTYPES[dtype].size and array.dtype.names is None:
            return Tensor(dtype, array.shape, array.tobytes())
        tensor = from_numpy(array)
    if DTYPES[dtype].is_quantized and DTYPES[tensor.dtype].numpy == DTYPES[dtype].numpy:
        return Tensor(dtype, tensor.shape, tensor.data)
    return tensor


def first_line(error: Exception) -> str:
    """The first line of the message of an error from another library."""
    return printable(str(error).split("\n")[0]) or type(error).__name__
