"""Counts what feeds reach of a graph, and searches for feeds that reach more.

After coverage-guided fuzzing (Odena et al., TensorFuzz, 2019).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.errors import ValidationError, printable
from gdsurgeon.ops.dtypes import FLOAT16, FLOAT32, FLOAT64, INT32, INT64
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.models.coverage import Coverage
from gdsurgeon.proof.models.trace import node_times
from gdsurgeon.proof.proof import agrees, difference
from gdsurgeon.proof.subject import Feeds
from gdsurgeon.proof.trial import EDITED, ORIGINAL, ComparedPair, Fetch
from gdsurgeon.runtime.tensor import Tensor, from_numpy
from gdsurgeon.text import first_lines

FACTORS = (-1.0, 8.0, -8.0, 64.0, 0.125, -64.0, 512.0)
"""What feeds are multiplied by, one after another, while there is time."""
MOST_DETAILS = 20
MOST_ASKED = 1 << 20
"""Elements of what is asked of a table that are looked at."""
_FLOATS = (FLOAT16, FLOAT32, FLOAT64)
_INTEGERS = (INT32, INT64)
_RESULT, _MINE, _THEIRS = "coverage", "on further feeds", "on further feeds, the other"


def search(executor: Executor, coverage: Coverage, fed: Feeds) -> Iterator[tuple[str, Feeds]]:
    """Covers FED, and then `_others`, until the time has passed that the settings give.

    Yields what was done to FED, and the feeds, of each that the model takes. Raises Refused where it does not take FED.
    """
    _cover(executor, coverage, fed)
    started, seconds = time.monotonic(), executor.settings.effort
    for change, feeds in _others({name: executor.fetched(value) for name, value in fed.items()}) if seconds else ():
        if time.monotonic() - started > seconds:
            return
        try:
            _cover(executor, coverage, feeds)
        except Refused:
            continue  # a feed that the model does not take
        yield change, feeds


def _cover(executor: Executor, coverage: Coverage, fed: Feeds) -> None:
    """Runs what decides at the places of COVERAGE on the feeds FED, and counts what it was. Raises Refused."""
    places = coverage.places
    tensors = places.tensors
    if not tensors:
        return
    ran = executor.wait(executor.run(ORIGINAL, _RESULT, fed, tensors, trace=bool(places.loops)))
    at = {tensor: index for index, tensor in enumerate(tensors)}
    found = executor.statistics(_RESULT)
    for place in places.sides:
        coverage.note(place, found[at[place.tensor]])
    coverage.note_turns({node.name: node.runs for node in node_times(ran.metadata or b"")})
    for lookup in places.lookups:
        if found[at[lookup.tensor]].count <= MOST_ASKED and lookup.rows <= MOST_ASKED:
            asked = executor.tensor(_RESULT, at[lookup.tensor])
            keys = _elements(executor.tensor(_RESULT, at[lookup.keys])) if lookup.keys else []
            coverage.note_rows(lookup, _elements(asked), keys)
    asked_for = [(at[item.tensor], item.axis) for item in places.channels]
    for item, alive in zip(places.channels, executor.positive_channels(_RESULT, asked_for), strict=True):
        coverage.note_alive(item.node, alive)
    executor.drop(_RESULT)
    coverage.feeds += 1


def _elements(tensor: Tensor) -> list[object]:
    return list(tensor.data) if isinstance(tensor.data, list) else list(tensor.numpy().reshape(-1).tolist())


def _others(values: Mapping[str, Tensor]) -> Iterator[tuple[str, Feeds]]:
    """VALUES with other numbers, and how they differ: whole ones by which loops end at once, floats of other sizes."""
    import numpy as np

    whole = {name: value.numpy() for name, value in values.items() if value.dtype in _INTEGERS}
    for first, step in ((0, 0), (1, 0), (0, 1)) if whole else ():
        counted = {name: np.arange(old.size, dtype=old.dtype).reshape(old.shape) for name, old in whole.items()}
        changed = {name: from_numpy(numbers * step + numbers.dtype.type(first)) for name, numbers in counted.items()}
        yield "with whole numbers counted up" if step else f"with whole numbers {first}", {**values, **changed}
    floats = {name: value.numpy() for name, value in values.items() if value.dtype in _FLOATS}
    for factor in FACTORS if floats else ():
        changed = {name: from_numpy(old * old.dtype.type(factor)) for name, old in floats.items()}
        yield f"multiplied by {factor:g}", {**values, **changed}


class BothModels(NamedTuple):
    """Two models that have given the same, to be compared on further feeds.

    Attributes:
        pairs: what is compared.
        fed: what the other one was fed last.
        names: what inputs of the model are called in the other one, where that is another name.
        rtol, atol: by how much floats may differ.
        of_largest: the same as a part of the largest element of each tensor.
    """

    pairs: Sequence[ComparedPair]
    fed: Feeds
    names: Mapping[str, str]
    rtol: float
    atol: float
    of_largest: float = 0.0


def search_further(executor: Executor, coverage: Coverage, fed: Feeds, both: BothModels) -> None:
    """Covers FED and, as long as the settings say, further feeds, on which both models are compared, too.

    Raises:
        Refused: the model does not take FED.
        ValidationError: the models differ on further feeds.
    """
    for change, feeds in search(executor, coverage, fed):
        wrong = differing_on(executor, both, feeds)
        if wrong:
            text = f"the outputs agree on the feeds, and differ on the same {change}:"
            raise ValidationError(text, details=first_lines(wrong, MOST_DETAILS), code="differs-further")


def differing_on(executor: Executor, both: BothModels, feeds: Feeds) -> list[str]:
    """How the outputs differ on FEEDS, a line each; none where one of the models does not take them."""
    tried = [
        (pair, pair.mine.tensor)
        for pair in both.pairs
        if not pair.reason and isinstance(pair.mine, Fetch) and (pair.mine.run, pair.theirs.run) == (ORIGINAL, EDITED)
    ]
    if not tried:
        return []
    called = {both.names.get(name, name): value for name, value in feeds.items()}
    others = {**both.fed, **{name: value for name, value in called.items() if name in both.fed}}
    try:
        executor.wait(executor.run(ORIGINAL, _MINE, feeds, [tensor for _, tensor in tried]))
        executor.wait(executor.run(EDITED, _THEIRS, others, [pair.theirs.tensor for pair, _ in tried]))
    except Refused:
        return []
    places = [(i, i) for i in range(len(tried))]
    found = executor.comparisons(executor.compare(_MINE, _THEIRS, places, rtol=both.rtol, atol=both.atol))
    executor.drop(_MINE)
    executor.drop(_THEIRS)
    return [
        f"{printable(pair.after)}: {difference(each)}"
        for (pair, _), each in zip(tried, found, strict=True)
        if not agrees(each, both.rtol, both.atol, both.of_largest)
    ]
