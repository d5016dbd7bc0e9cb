"""The TensorFlow ops that other engines support. `scripts/make_engine_table.py` makes the table by testing each engine.

The table is read only when an engine is requested.
"""

from __future__ import annotations

import os
from functools import cache
from typing import NamedTuple

from gdsurgeon.wire.messages import DATA

TITLES = {"opencv": "OpenCV", "openvino": "OpenVINO", "tfjs": "TensorFlow.js", "tflite": "TFLite"}
"""The titles of engines, by name."""
SELECT = "select"


class Engine(NamedTuple):
    """An engine, with the ops that one release of it supports.

    Attributes:
        name: ``opencv``, ...
        version: of the release that was tested.
        ops: the supported ops. The value is ``select`` if the op needs TensorFlow's kernel linked into the program,
            else ''.
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
    """Returns the engine `name`, which must be one of `TITLES`."""
    with open(os.path.join(DATA, "engines.txt"), encoding="utf-8") as file:
        text = file.read()
    head, _, rest = text[text.index(f">{name}\t") :].partition("\n")
    lines = rest.partition(">")[0].splitlines()
    version = head.partition("\t")[2]
    return Engine(name, version, {op: kind for op, _, kind in (line.partition("\t") for line in lines)})
