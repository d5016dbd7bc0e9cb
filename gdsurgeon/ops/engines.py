"""Which ops of TensorFlow other engines take, from a table that `scripts/make_engine_table.py` makes by asking them.

Only who asks for an engine reads it.
"""

from __future__ import annotations

import os
from functools import cache
from typing import NamedTuple

from gdsurgeon.wire.messages import DATA

TITLES = {"opencv": "OpenCV", "openvino": "OpenVINO", "tfjs": "TensorFlow.js", "tflite": "TFLite"}
"""What engines are called, by their names."""
SELECT = "select"


class Engine(NamedTuple):
    """An engine, as it was when it was asked.

    Attributes:
        name: ``opencv``, ...
        version: of the release that was asked.
        ops: that it takes; ``select`` where it takes one as an op of TensorFlow that is linked into the program,
            '' elsewhere.
    """

    name: str
    version: str
    ops: dict[str, str]

    @property
    def called(self) -> str:
        """Its title and version."""
        return f"{TITLES[self.name]} {self.version}"


@cache
def engine(name: str) -> Engine:
    """The engine NAME, which is one of `TITLES`."""
    with open(os.path.join(DATA, "engines.txt"), encoding="utf-8") as file:
        text = file.read()
    head, _, rest = text[text.index(f">{name}\t") :].partition("\n")
    lines = rest.partition(">")[0].splitlines()
    version = head.partition("\t")[2]
    return Engine(name, version, {op: kind for op, _, kind in (line.partition("\t") for line in lines)})
