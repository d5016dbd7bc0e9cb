#!/usr/bin/env python3
"""Asks engines which ops of TensorFlow they take, and keeps that in gdsurgeon/data/engines.txt.

    pip download --no-deps --only-binary :all: -d wheels opencv-python-headless openvino tensorflowjs
    python scripts/make_engine_table.py wheels/*.whl     these engines
    python scripts/make_engine_table.py --tflite         TFLite, of the TensorFlow that is installed (ten minutes)
    python scripts/make_engine_table.py --list           says what the table holds

The source is the released engine itself. A wheel is unpacked into a temporary folder, and a separate Python process
imports the engine from there and loads graphs into it (`ask_opencv`, `ask_openvino`, `scripts/ask_tflite.py`). The
converter to TensorFlow.js checks ops against lists in its wheel, so the script reads these lists. The ops are all ops
of all releases of TensorFlow (`gdsurgeon/data/releases.z`). Entries of other engines are kept.

The table is text: ``>``, the engine, a tab and its version; then an op a line, with a tab and ``select`` where TFLite
takes it as an op of TensorFlow that is linked into the program.
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
"""By engine its version, and for each op that it takes '' or ``select``."""

OF_WHEEL = {"opencv": r"opencv_(contrib_)?python(_headless)?-", "openvino": r"openvino-", "tfjs": r"tensorflowjs-"}
IF_IT_CRASHES = {"opencv": "yes", "openvino": "yes", "tflite": "no"}
"""The entry for an op if an engine crashes: an importer without support for the op fails before it crashes."""
MOST_CRASHES = 4
"""Maximum number of further attempts for an op in TFLite's converter, with different random graphs."""


def main() -> int:
    """Carries out the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("wheels", nargs="*", type=Path, help="of OpenCV, OpenVINO, tensorflowjs")
    parser.add_argument("--tflite", action="store_true", help="ask the TensorFlow that is installed, too")
    parser.add_argument("--list", action="store_true", help="say what the table holds, and change nothing")
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
                parser.error(f"{wheel.name} is of no engine that is known here")
            table[engine] = of_wheel(engine, wheel)
        if arguments.tflite:
            table["tflite"] = answers("tflite", [])
        TABLE.write_text(written(table))
    for key, (version, ops) in sorted(table.items()):
        print(f"{key} {version}: {len(ops)} ops, {sum(map(bool, ops.values()))} of them of TensorFlow")
    print(f"{TABLE.name}: {TABLE.stat().st_size:,} bytes")
    return 0


def of_wheel(engine: str, wheel: Path) -> tuple[str, dict[str, str]]:
    """The version of an engine, and what it takes."""
    if engine == "tfjs":
        with zipfile.ZipFile(wheel) as archive:
            lists = [json.loads(archive.read(n)) for n in archive.namelist() if re.search(r"/op_list/\w+\.json$", n)]
        return wheel.name.split("-")[1], {op["tfOpName"]: "" for ops in lists for op in ops}
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        return answers(engine, [folder])


def answers(engine: str, path: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The version of an engine that Python finds on PATH, and what it says of each op."""
    rest = sorted({op for _, rows in read_releases(RELEASES.read_bytes()).values() for op in rows})
    version, out = "", {}
    while rest:
        said = asked(engine, path, rest)
        version = next(said, version)
        count = 0
        for line in said:
            op, _, answer = line.partition("\t")
            out[op] = answer
            count += 1
        rest = rest[count:]
        if rest:  # it has crashed
            op, _, times = rest[0].partition("#")
            out[op] = IF_IT_CRASHES[engine]
            again = f"{op}#{int(times or 0) + 1}"
            rest = [again, *rest[1:]] if engine == "tflite" and times != str(MOST_CRASHES) else rest[1:]
        print(f"{engine}: {len(rest)} ops to be asked for", file=sys.stderr)
    if not version:
        raise SystemExit(f"{engine} cannot be asked")
    return version, {op: "select" if answer == "select" else "" for op, answer in out.items() if answer != "no"}


def asked(engine: str, path: Sequence[str], ops: Sequence[str]) -> Iterator[str]:
    """The lines that an engine answers with."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*path, str(ROOT)])}
    own = ["ask_tflite.py"] if engine == "tflite" else ["make_engine_table.py", "--ask", engine]
    program = [sys.executable, str(Path(__file__).parent / own[0]), *own[1:]]
    done = subprocess.run(
        program, input="\n".join(ops).encode(), env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        check=False,
    )  # fmt: skip
    return iter(done.stdout.decode().splitlines())


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
    """The text of a table."""
    lines = []
    for key, (version, ops) in sorted(table.items()):
        lines.append(f">{key}\t{version}")
        lines += [f"{op}\t{kind}" if kind else op for op, kind in sorted(ops.items())]
    return "\n".join(lines) + "\n"


def read(text: str) -> Table:
    """The table of a text."""
    out: Table = {}
    ops: dict[str, str] = {}
    for line in text.splitlines():
        name, _, rest = line.partition("\t")
        if name.startswith(">"):
            ops = {}
            out[name[1:]] = rest, ops
        else:
            ops[name] = rest
    return out


if __name__ == "__main__":
    sys.exit(main())
