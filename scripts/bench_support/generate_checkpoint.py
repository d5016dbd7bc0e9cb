"""Writes a checkpoint for the bench: generate_checkpoint.py PREFIX BYTES, in ten tensors of float32."""

from __future__ import annotations

import random
import sys

from gdsurgeon.checkpoint.crc32c import checksum, mask
from gdsurgeon.checkpoint.publish import write_bundle
from gdsurgeon.checkpoint.write import Item
from gdsurgeon.ops.dtypes import FLOAT32

TENSORS = 10


def main() -> None:
    prefix, size = sys.argv[1], int(sys.argv[2])
    data = random.Random(1).randbytes(size // TENSORS // 4 * 4)
    crc = mask(checksum(data))
    shape = (len(data) // 4,)
    write_bundle(prefix, [Item(f"layer_{n}/kernel", FLOAT32, shape, (data,), crc) for n in range(TENSORS)])


if __name__ == "__main__":
    main()
