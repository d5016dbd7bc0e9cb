"""CRC32C (Castagnoli), the checksum of every block and tensor of a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable

CHUNK = 1 << 20
"""Bytes of a file to read at a time."""


def checksum(data: bytes) -> int:
    """Returns the CRC32C of `data`."""
    return extend(0, data)


def checksum_of(pieces: Iterable[bytes]) -> int:
    """Returns the CRC32C of `pieces` joined."""
    crc = 0
    for piece in pieces:
        crc = extend(crc, piece)
    return crc


def extend(crc: int, data: bytes) -> int:
    """Returns the CRC32C of bytes with the checksum `crc`, followed by `data`."""
    import google_crc32c  # only when a checksum is needed: commands start faster

    return int(google_crc32c.extend(crc, data))


def mask(crc: int) -> int:
    """Returns `crc` as LevelDB stores it; the plain checksum of data that contains checksums would be weaker."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
