#!/usr/bin/env python3
"""Says of each op that standard input names whether OpenCV's importer takes it, by having it take a graph of that.

    python ask_opencv.py < OPS      prints the version, then a line for each: OP, a tab, and yes or no

What the importer has no code for becomes a layer of that name, if OpenCV has one; else it says, when the net is run,
that it "can't create layer". A layer that misses an argument of its own then ("not found into dictionary") is one for
an op of ONNX that is called the same. Any other complaint is about the graph, which has a node of the op and nothing
that it needs; so is a crash.
"""

from __future__ import annotations

import sys

import cv2
import numpy as np

from gdsurgeon.wire.protos import GraphDef


def graph(op: str) -> bytes:
    """A graph with a node of OP that reads an input."""
    out = GraphDef()
    given = out.node.add(name="x", op="Placeholder")
    given.attr["dtype"].type = 1
    for size in (1, 8, 8, 4):
        given.attr["shape"].shape.dim.add(size=size)
    node = out.node.add(name="y", op=op)
    node.input.append("x")
    node.attr["T"].type = 1
    return out.SerializeToString()


def is_taken(op: str) -> bool:
    """Whether OpenCV has something for OP."""
    try:
        net = cv2.dnn.readNetFromTensorflow(np.frombuffer(graph(op), np.uint8))
        net.setInput(np.ones((1, 4, 8, 8), np.float32))
        net.forward()
    except cv2.error as error:
        return not any(said in str(error) for said in ("Can't create layer", "not found into dictionary"))
    return True


def main() -> None:
    """Prints what is asked for."""
    print(cv2.__version__, flush=True)
    for op in sys.stdin.read().split():
        print(f"{op}\t{'yes' if is_taken(op) else 'no'}", flush=True)


if __name__ == "__main__":
    main()
