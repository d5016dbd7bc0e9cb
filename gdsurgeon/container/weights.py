"""The variables of a model as a GraphDef of constants: their values are spans of the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.container.checkpoint.slices import parse_slice_spec
from gdsurgeon.container.checkpoint.stored import Checkpoint
from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.constants import TENSOR, raw_value
from gdsurgeon.graph.serving import Key
from gdsurgeon.ops.dtypes import CONTENT, ELEMENT_FIELDS, STRING, base_dtype, dtype_name
from gdsurgeon.text import nearest, suggestion
from gdsurgeon.wire.fields import LEN, encode_len, encode_varint
from gdsurgeon.wire.node_record import ATTR, DEVICE, KEY, NAME, OP, VALUE, encode_attr
from gdsurgeon.wire.scan import NODE
from gdsurgeon.wire.source import Source
from gdsurgeon.wire.write import Chunk, ChunkSource, size_of


def weights(prefix: str, keys: Mapping[str, Key], wanted: Mapping[str, tuple[int, str]]) -> Source:
    """A GraphDef with a constant for each variable that is WANTED; its bytes are read from the checkpoint when it is.

    Args:
        prefix: of the checkpoint.
        keys: where in it the values are, by variable.
        wanted: for each variable its dtype, and the device of its constant.

    Raises:
        EditError: the restore op restores no such variable, or the checkpoint has none of it, or of another dtype.
        InputError: the checkpoint cannot be read.
    """
    checkpoint = open_checkpoint(prefix)
    chunks: list[Chunk] = []
    for name, (dtype, device) in wanted.items():
        key = keys.get(name)
        if key is None:
            near = nearest(name, keys)
            raise EditError(
                f"the variable {quoted(name)} is not restored from the checkpoint, so it has no value to "
                f"freeze.{suggestion(near)}".rstrip("."),
                code="not-restored",
                facts={"variable": name, "near": near},
            )
        if key.tensor not in checkpoint:
            near = nearest(key.tensor, checkpoint.keys)
            what = f"has no tensor {quoted(key.tensor)}, from which the variable {quoted(name)} is restored"
            message = f"{printable(prefix)} {what}.{suggestion(near)}".rstrip(".")
            facts = {"file": prefix, "key": key.tensor, "variable": name, "near": near}
            raise EditError(message, code="no-such-tensor", facts=facts)
        chunks += _constant(name, checkpoint, key, dtype, device)
    return ChunkSource(chunks, f"the checkpoint {prefix}")


def _constant(name: str, checkpoint: Checkpoint, key: Key, dtype: int, device: str) -> Iterator[Chunk]:
    """The field of a GraphDef that holds the constant NAME."""
    stored = checkpoint.tensor(key.tensor)
    if stored.dtype != base_dtype(dtype):
        raise EditError(
            f"the variable {quoted(name)} is {dtype_name(dtype)}, but {quoted(key.tensor)} in the checkpoint "
            f"is {stored.dtype.name}",
            code="dtype-mismatch",
            facts={"variable": name, "expected": dtype_name(dtype), "key": key.tensor, "found": stored.dtype.name},
        )
    value: list[Chunk]
    if stored.dtype == STRING:
        shape = stored.shape
        value = [encode_len(ELEMENT_FIELDS[STRING.field], text) for text in stored.strings()]
    else:
        found = checkpoint.stretch(key.tensor, parse_slice_spec(key.slice)[1])
        shape = found.shape
        value = _wrapped(CONTENT, found.chunks) if size_of(found.chunks) else []
    tensor = raw_value(stored.dtype, shape).tensor
    tensor_chunks = _wrapped(TENSOR, [tensor.SerializeToString(), *value])
    entry = [encode_len(KEY, b"value"), *_wrapped(VALUE, tensor_chunks)]
    head = encode_len(NAME, name.encode()) + encode_len(OP, b"Const")
    head += encode_len(DEVICE, device.encode()) if device else b""
    head += encode_attr("dtype", type_value(stored.dtype).SerializeToString())
    yield from _wrapped(NODE, [head, *_wrapped(ATTR, entry)])


def _wrapped(number: int, chunks: list[Chunk]) -> list[Chunk]:
    """CHUNKS as the length-delimited field NUMBER."""
    return [encode_varint(number << 3 | LEN) + encode_varint(size_of(chunks)), *chunks]
