"""Reads the peak of the memory in use from the trace of a run.

Works on the serialised RunMetadata that `RunSummary.metadata` is, without TensorFlow.
"""

from __future__ import annotations

from collections import defaultdict

from gdsurgeon.wire.fields import LEN, WireError, fields
from gdsurgeon.wire.messages import decode_error, message
from gdsurgeon.wire.protos import StepStats

_STEP_STATS = 1  # field of RunMetadata


def peak_bytes(metadata: bytes) -> dict[str, int]:
    """The most bytes that were in use at the same time, by 'device/allocator'.

    Of what the run itself allocated: its feeds, its constants and its variables were there before. Times are in
    microseconds; within the same one, what was freed counts as still there, so that this is the most that it can
    have been. Where nothing was allocated there is no entry.

    Args:
        metadata: a serialised RunMetadata.

    Raises:
        ValueError: METADATA is none.
    """
    records: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for device in _step_stats(metadata).dev_stats:
        for node in device.node_stats:
            for memory in node.memory:
                records[f"{device.device}/{memory.allocator_name}"] += [
                    (record.alloc_micros, record.alloc_bytes) for record in memory.allocation_records
                ]
    peaks = {}
    for place, changes in records.items():
        live = peak = 0
        for _, change in sorted(changes, key=lambda record: (record[0], -record[1])):
            live += change
            peak = max(peak, live)
        if peak:
            peaks[place] = peak
    return peaks


def _step_stats(metadata: bytes) -> StepStats:
    """The StepStats in METADATA; its descriptor is kept here, that of the big message around it is not."""
    stats = message("tensorflow.StepStats")()
    try:
        for field in fields(metadata, 0, len(metadata)):
            if field.number == _STEP_STATS and field.wire_type == LEN:
                stats.MergeFromString(metadata[field.value : field.end])
    except (WireError, decode_error()) as error:
        raise ValueError(f"not the metadata of a run: {error}") from error
    return stats
