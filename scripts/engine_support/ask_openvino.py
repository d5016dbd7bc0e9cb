#!/usr/bin/env python3
"""Says of each op that standard input names whether OpenVINO's TensorFlow frontend has a conversion rule for it.

    python ask_openvino.py MODEL... < OPS      prints the version, then a line for each: OP, a tab, and yes or no

It is given a graph with a node of each, and says where there is no rule. Loops of version 1 it takes as a whole: the
ops of a MODEL that it takes count as taken.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from gdsurgeon.wire.protos import GraphDef

sys.modules["openvino_telemetry"] = None  # it reports to its makers when it is imported
import openvino  # noqa: E402
from openvino.frontend import FrontEndManager  # noqa: E402

NO_RULE = re.compile(r"No conversion rule found for operations: ([^\n]*)")


def graph(ops: list[str]) -> bytes:
    """A graph with a node of each of OPS that reads an input."""
    out = GraphDef()
    given = out.node.add(name="x", op="Placeholder")
    given.attr["dtype"].type = 1
    for size in (1, 8, 8, 4):
        given.attr["shape"].shape.dim.add(size=size)
    for op in ops:
        node = out.node.add(name=f"y_{op}", op=op)
        node.input.append("x")
        node.attr["T"].type = 1
    return out.SerializeToString()


def lacking(ops: list[str]) -> set[str]:
    """Returns the ops without a rule."""
    frontend = FrontEndManager().load_by_framework("tf")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.pb"
        path.write_bytes(graph(ops))
        try:
            frontend.convert(frontend.load(str(path)))
        except Exception as error:
            found = NO_RULE.search(str(error))
            return {name.strip() for name in found[1].split(",")} if found else set()
    return set()


def of_model(path: str) -> set[str]:
    """The ops of a frozen graph, where it is taken; none where it is not."""
    frontend = FrontEndManager().load_by_framework("tf")
    try:
        frontend.convert(frontend.load(path))
    except Exception:
        return set()
    return {node.op for node in GraphDef.FromString(Path(path).read_bytes()).node}


def main() -> None:
    """Prints the version, then the ops."""
    ops = sys.stdin.read().split()
    if "NoSuchOp" not in lacking(["Relu", "NoSuchOp"]):
        sys.exit("OpenVINO does not say what it has no rule for")
    print(openvino.__version__.partition("-")[0], flush=True)
    # One at a time: a node that brings the conversion to an end hides the others.
    together = {op for path in sys.argv[1:] for op in of_model(path)}
    for op in ops:
        print(f"{op}\t{'no' if op not in together and op in lacking([op]) else 'yes'}", flush=True)


if __name__ == "__main__":
    main()
