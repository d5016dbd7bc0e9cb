#!/usr/bin/env python3
"""Tests which ops of TensorFlow other engines accept, and writes gdsurgeon/data/engines.txt.

    pip download --no-deps --only-binary :all: -d wheels opencv-python-headless openvino tensorflowjs
    python scripts/make_engine_table.py wheels/*.whl     update the engines in these wheels
    python scripts/make_engine_table.py --tflite         update TFLite from the installed TensorFlow (ten minutes)
    python scripts/make_engine_table.py --list           print the versions and the number of ops

The source is the released engine itself. A wheel is unpacked into a temporary folder, and a separate Python process
imports the engine from there and loads graphs into it (`ask_opencv`, `ask_openvino`, `scripts/ask_tflite.py`). The
converter to TensorFlow.js checks ops against lists in its wheel, so the script reads these lists. All ops of all
releases of TensorFlow are tested (`gdsurgeon/data/releases.z`). Entries of other engines are kept.

The table is text. Each engine has a line ``>``, name, tab, version; then follows a line for each op that it accepts.
An op ends in a tab and ``select`` if TFLite accepts it only as an op of TensorFlow that is linked into the program.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from make_release_table import TABLE as RELEASES
from make_release_table import read as read_releases
from make_tensorflow_tables import DATA

TABLE = DATA / "engines.txt"
ROOT = Path(__file__).parent.parent
LOOP = ROOT / "fixtures" / "while_v1.pb"
"""A graph of ops that engines support only together."""
Table = dict[str, tuple[str, dict[str, str]]]
"""By engine: the version, and '' or ``select`` by op."""

OF_WHEEL = {"opencv": r"opencv_(contrib_)?python(_headless)?-", "openvino": r"openvino-", "tfjs": r"tensorflowjs-"}
IF_IT_CRASHES = {"opencv": "yes", "openvino": "yes", "tflite": "no"}
"""The entry for an op if an engine crashes: an importer without support for the op fails before it crashes."""
MOST_CRASHES = 4
"""Maximum number of further attempts for an op in TFLite's converter, with different random graphs."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("wheels", nargs="*", type=Path, help="wheels of OpenCV, OpenVINO, tensorflowjs")
    parser.add_argument("--tflite", action="store_true", help="also test the installed TensorFlow")
    parser.add_argument("--list", action="store_true", help="print the content of the table, and change nothing")
    parser.add_argument("--ask", choices=("opencv", "openvino"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.ask:
        for line in {"opencv": ask_opencv, "openvino": ask_openvino}[arguments.ask](sys.stdin.read().split()):
            print(line, flush=True)
        return 0
    table = read(TABLE.read_text()) if TABLE.exists() else {}
    if not arguments.list:
        for wheel in arguments.wheels:
            engine = next((key for key, name in OF_WHEEL.items() if re.match(name, wheel.name)), None)
            if engine is None:
                parser.error(f"{wheel.name} is not a wheel of a known engine")
            table[engine] = of_wheel(engine, wheel)
        if arguments.tflite:
            table["tflite"] = answers("tflite", [])
        TABLE.write_text(written(table))
    for key, (version, ops) in sorted(table.items()):
        print(f"{key} {version}: {len(ops)} ops, {sum(map(bool, ops.values()))} of them linked from TensorFlow")
    print(f"{TABLE.name}: {TABLE.stat().st_size:,} bytes")
    return 0


def of_wheel(engine: str, wheel: Path) -> tuple[str, dict[str, str]]:
    """Returns the entry of the engine in a wheel."""
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        if engine == "tfjs":
            lists = [json.loads(archive.read(n)) for n in archive.namelist() if re.search(r"/op_list/\w+\.json$", n)]
            return wheel.name.split("-")[1], {op["tfOpName"]: "" for ops in lists for op in ops}
        archive.extractall(folder)
        return answers(engine, [folder])


def answers(engine: str, path: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Returns the entry of an engine; `path` are the folders where Python finds it.

    A process tests the ops in turn. If it crashes, a new process continues with the next op.
    """
    rest = sorted({op for _, rows in read_releases(RELEASES.read_bytes()).values() for op in rows})
    own = ["ask_tflite.py"] if engine == "tflite" else ["make_engine_table.py", "--ask", engine]
    program = [sys.executable, str(Path(__file__).parent / own[0]), *own[1:]]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*path, str(ROOT)])}
    version, out = "", {}
    while rest:
        found = subprocess.run(
            program, input="\n".join(rest), env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, check=False,
        ).stdout.splitlines()  # fmt: skip
        version = found[0] if found else version
        out |= dict(line.split("\t") for line in found[1:])
        rest = rest[len(found[1:]) :]
        if rest:  # the process crashed
            op, _, attempt = rest[0].partition("#")
            out[op] = IF_IT_CRASHES[engine]
            again = [f"{op}#{int(attempt or 0) + 1}"] if engine == "tflite" and attempt != str(MOST_CRASHES) else []
            rest = again + rest[1:]
        print(f"{engine}: {len(rest)} ops to be tested", file=sys.stderr)
    if not version:
        raise SystemExit(f"{engine} does not start")
    return version, {op: answer.replace("yes", "") for op, answer in out.items() if answer != "no"}


def graph_of(op: str) -> bytes:
    """Returns a graph with a node that reads an image."""
    from gdsurgeon.wire.protos import GraphDef

    out = GraphDef()
    given = out.node.add(name="x", op="Placeholder")
    given.attr["dtype"].type = 1
    for size in (1, 8, 8, 4):
        given.attr["shape"].shape.dim.add(size=size)
    out.node.add(name="y", op=op, input=["x"]).attr["T"].type = 1
    return bytes(out.SerializeToString())


def ask_opencv(ops: Sequence[str]) -> Iterator[str]:
    """Yields the version of OpenCV, then for each op whether its importer accepts a graph with this op.

    If the importer has no code for an op, it creates a layer with this name, if OpenCV has one; else the run fails with
    "can't create layer". A layer that then lacks an argument ("not found into dictionary") is a layer for an op of ONNX
    with the same name. Other errors are about the graph, whose node has only one input; so is a crash.
    """
    import cv2
    import numpy as np

    yield cv2.__version__
    for op in ops:
        answer = "yes"
        try:
            net = cv2.dnn.readNetFromTensorflow(np.frombuffer(graph_of(op), np.uint8))
            net.setInput(np.ones((1, 4, 8, 8), np.float32))
            net.forward()
        except cv2.error as error:
            if any(text in str(error) for text in ("Can't create layer", "not found into dictionary")):
                answer = "no"
        yield f"{op}\t{answer}"


def ask_openvino(ops: Sequence[str]) -> Iterator[str]:
    """Yields the version of OpenVINO, then for each op whether its frontend has a conversion rule.

    The frontend converts loops of version 1 as a whole: the ops of `LOOP` are supported if it converts this graph.
    """
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]  # it reports to its makers on import
    import openvino
    from openvino.frontend import FrontEndManager

    from gdsurgeon.wire.protos import GraphDef

    def error(path: Path) -> str:
        frontend = FrontEndManager().load_by_framework("tf")
        try:
            frontend.convert(frontend.load(str(path)))
        except Exception as refusal:
            return str(refusal)
        return ""

    def has_rule(op: str) -> bool:
        path.write_bytes(graph_of(op))
        found = re.search(r"No conversion rule found for operations: ([^\n]*)", error(path))
        return found is None or op not in (name.strip() for name in found[1].split(","))

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.pb"
        if has_rule("NoSuchOp"):
            sys.exit("OpenVINO does not report ops without a rule")
        yield openvino.__version__.partition("-")[0]
        together = set() if error(LOOP) else {node.op for node in GraphDef.FromString(LOOP.read_bytes()).node}
        # One at a time: a node that ends the conversion hides the others.
        for op in ops:
            yield f"{op}\t{'yes' if op in together or has_rule(op) else 'no'}"


def written(table: Table) -> str:
    """Returns the text of a table."""
    lines = []
    for key, (version, ops) in sorted(table.items()):
        lines += [f">{key}\t{version}", *(f"{op}\t{kind}".rstrip() for op, kind in sorted(ops.items()))]
    return "\n".join([*lines, ""])


def read(text: str) -> Table:
    """Returns the table of a text."""
    out: Table = {}
    for part in text.split(">")[1:]:
        (name, version), *ops = (line.partition("\t")[::2] for line in part.splitlines())
        out[name] = version, dict(ops)
    return out


if __name__ == "__main__":
    sys.exit(main())
