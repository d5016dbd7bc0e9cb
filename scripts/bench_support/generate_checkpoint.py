"""Writes a checkpoint for the bench: generate_checkpoint.py PREFIX BYTES, in ten tensors of float32."""

from __future__ import annotations

import random
import sys

from gdsurgeon.container.checkpoint.bundle import Item, build_bundle
from gdsurgeon.container.checkpoint.edit import BundleOutput
from gdsurgeon.container.checkpoint.table import checksum
from gdsurgeon.ops.dtypes import FLOAT32

TENSORS = 10


def main() -> None:
    prefix, size = sys.argv[1], int(sys.argv[2])
    data = random.Random(1).randbytes(size // TENSORS // 4 * 4)
    crc = checksum([data])
    shape = (len(data) // 4,)
    files = build_bundle([Item(f"layer_{n}/kernel", FLOAT32, shape, (data,), crc) for n in range(TENSORS)])
    with BundleOutput(prefix, *files) as output:
        output.stage()
        output.publish()


if __name__ == "__main__":
    main()
