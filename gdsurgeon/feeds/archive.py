"""Archives of feeds: .npz files that store every tensor bit for bit; archives by numpy can also be read."""

from __future__ import annotations

import io
import re
import struct
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from gdsurgeon.errors import OutputError, UsageError, printable, quoted, reason
from gdsurgeon.ops.dtypes import DTYPES, NUMBERS, STRING
from gdsurgeon.ops.elements import numpy_dtype, require_numpy
from gdsurgeon.resources import MEMORY, memory_budget
from gdsurgeon.runtime.failures import first_line
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


def key_of(name: str, sample: int) -> str:
    """Returns the key in an archive of the value of an input for a sample; names of nodes do not contain ``@``."""
    return f"{name}@{sample}" if sample else name


def split_key(key: str) -> tuple[str, int]:
    """Returns the name of the input and the number of the sample of a key."""
    found = _SAMPLE.fullmatch(key)
    return (found[1], int(found[2])) if found is not None else (key, 0)


def save(path: str, samples: Sequence[Mapping[str, Tensor]]) -> None:
    """Writes values of inputs, by name, one mapping for each sample, to an .npz file: completely or not at all.

    Texts whose ends numpy would lose have their lengths in an entry ``KEY@length``. Elements without a dtype of numpy's
    own are stored as unsigned words, and ``KEY@dtype`` names TensorFlow's dtype.

    Raises:
        OutputError: the file cannot be written; nothing is left behind.
    """
    from numpy.lib import format as npy

    buffer = io.BytesIO()
    try:
        with zipfile.ZipFile(buffer, "w") as archive:
            for number, sample in enumerate(samples):
                for name, tensor in sample.items():
                    if "@" in name or "\0" in name:
                        raise OutputError(f"{printable(path)} cannot be written: {quoted(name)} is not an input name")
                    for suffix, array in _arrays(tensor).items():
                        entry = f"{key_of(name, number)}{suffix}.npy"
                        with archive.open(entry, "w", force_zip64=True) as file:
                            npy.write_array(file, array, allow_pickle=False)
    except (ValueError, struct.error, zipfile.LargeZipFile) as error:  # a name that is too long, or not valid Unicode
        raise OutputError(f"{printable(path)} cannot be written: {printable(first_line(error))}") from error
    with OutputFile(path) as output:
        output.stage([buffer.getvalue()])
        output.publish()


def _arrays(tensor: Tensor) -> dict[str, Array]:
    """Returns the arrays that hold a tensor, by the suffix of its key."""
    import numpy as np

    if isinstance(tensor.data, list):
        texts, sizes = tensor.data, [len(text) for text in tensor.data]
        lengths = np.array(sizes, np.int64).reshape(tensor.shape)
        if max(sizes, default=0) * len(sizes) > 4 * sum(sizes) + (1 << 20):  # numpy would pad all to the longest one
            return {"": np.frombuffer(b"".join(texts), np.uint8), _LENGTH: lengths, _DTYPE: np.array("string")}
        array = np.array(texts, f"S{max([1, *sizes])}").reshape(tensor.shape)
        return {"": array, _LENGTH: lengths} if any(text.endswith(b"\0") for text in texts) else {"": array}
    dtype, stored = DTYPES[tensor.dtype], numpy_dtype(tensor.dtype)
    if NUMBERS.get(stored.name) == tensor.dtype and stored.isbuiltin == 1:
        return {"": tensor.numpy()}
    words = np.frombuffer(tensor.data, f"u{dtype.size}").reshape(tensor.shape)
    return {"": words, _DTYPE: np.array(dtype.name)}


def load(path: str, what: str = "the feeds") -> list[dict[str, Tensor | Array]]:
    """Returns the values in an .npz file by input name, one mapping for each sample; at least one mapping.

    A value is a Tensor, or a numpy array if it cannot be a Tensor without change: TensorFlow does not have its dtype,
    or it has raw words and the file does not give their dtype.

    Raises:
        UsageError: the file cannot be read.
    """
    with Archive(path, what) as archive:
        archive.check_size()
        out: dict[int, dict[str, Tensor | Array]] = defaultdict(dict)
        for key in archive.keys:
            name, sample = split_key(key)
            out[sample][name] = archive.read(key)
    return [out[sample] for sample in range(max(out, default=0) + 1)]


class Archive(Closing):
    """The values in an .npz file; `read` reads one of them. Use as a context manager.

    Attributes:
        path: the file.
        keys: the names of the values.

    Raises:
        UsageError: the file cannot be read, or is not an archive.
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
        described = {key + end for key in entries for end in (_LENGTH, _DTYPE)}
        self.keys = [key for key in entries if key not in described]
        for key in self.keys:
            if split_key(key)[1] > len(self.keys):
                self.close()
                raise self._unreadable(
                    f"{quoted(key)} is for sample {split_key(key)[1]}, but earlier samples are missing"
                )

    def close(self) -> None:
        """Closes the file."""
        self._zip.close()

    def check_size(self, entries: Iterable[str] | None = None) -> None:
        """Checks the size of `entries`, or of all entries, without compression: a few bytes may be gigabytes.

        Raises:
            UsageError: they would need more than a quarter of the memory budget.
        """
        names = self._zip.namelist() if entries is None else entries
        unfolded, most = sum(self._zip.getinfo(name).file_size for name in names), memory_budget() // 4
        if most and unfolded > most:
            raise self._unreadable(
                f"it needs {size(unfolded)} of memory, but only {size(most)} may be used ({MEMORY} sets the limit)"
            )

    def read(self, key: str) -> Tensor | Array:
        """Returns one value: see `load`.

        Raises:
            UsageError: it cannot be read.
        """
        array = self._array(key)
        lengths = self._array(key + _LENGTH) if key + _LENGTH in self._entries else None
        name = str(self._array(key + _DTYPE)[()]) if key + _DTYPE in self._entries else ""
        try:
            if lengths is not None and (array.dtype.kind == "S" or name == "string"):
                return _texts(array, lengths)
            return from_numpy(array, NUMBERS[name] if name else None)
        except (TypeError, KeyError, ValueError) as error:
            if name or lengths is not None or isinstance(error, ValueError):
                raise self._unreadable(f"{quoted(key)} does not match its description") from error
            return array

    def _array(self, key: str) -> Array:
        require_numpy(f"{self._what} {printable(self.path)}")
        from numpy.lib import format as npy

        self.check_size([key + ".npy"])
        try:
            with self._zip.open(key + ".npy") as entry:
                found: Array = npy.read_array(entry, allow_pickle=False)
                return found
        except Exception as error:  # the zip and array readers raise many kinds of errors for a broken file
            if "allow_pickle" in str(error):
                raise self._unreadable(f"{quoted(key)} has the dtype object, and its values {_OBJECTS}") from error
            raise self._unreadable(printable(first_line(error))) from error

    def _unreadable(self, why: str) -> UsageError:
        message = f"{self._what} {printable(self.path)} cannot be read: {why}"
        return UsageError(message, code="unreadable", file=self.path)


def _texts(array: Array, lengths: Array) -> Tensor:
    """Returns texts of known lengths. Raises ValueError if the lengths do not fit the data."""
    sizes = [int(size) for size in lengths.reshape(-1)]
    is_padded, width = array.dtype.kind == "S", array.dtype.itemsize
    fits = array.shape == lengths.shape and max(sizes, default=0) <= width if is_padded else sum(sizes) == array.nbytes
    if not fits or min(sizes, default=0) < 0:
        raise ValueError("the lengths do not fit the texts")
    starts = range(0, width * len(sizes), width) if is_padded else accumulate(sizes, initial=0)
    data = array.tobytes()
    return Tensor(STRING, lengths.shape, [data[at : at + size] for at, size in zip(starts, sizes, strict=False)])


def of_dtype(value: object, dtype: int) -> Tensor:
    """Returns a value of an archive or an array file as a tensor for an input of `dtype`.

    Elements without a dtype of numpy's own get `dtype` if the sizes are equal: numpy has no name for bfloat16 and the
    like, and quantized dtypes are stored as plain integers.

    Raises:
        TypeError: no tensor can have this value.
        ValueError: likewise.
    """
    if not isinstance(value, Tensor):
        import numpy as np

        array = np.asarray(value)
        if array.dtype.kind == "V" and array.dtype.itemsize == DTYPES[dtype].size and array.dtype.names is None:
            return Tensor(dtype, array.shape, array.tobytes())
        value = from_numpy(array)
    if DTYPES[dtype].is_quantized and DTYPES[value.dtype].numpy == DTYPES[dtype].numpy:
        return Tensor(dtype, value.shape, value.data)
    return value
