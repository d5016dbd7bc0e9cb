"""Engines for tests: a module that stands in for OpenCV's, and does what the graph says that it does."""

from __future__ import annotations

from pathlib import Path

from support.graphs import node

_MODULE = """
import ctypes, os, re, time
import numpy as np

__version__ = "9.8.7"

class error(Exception):
    pass

def said(what, data, default):
    found = re.search(what + b":(.*?):;", bytes(data), re.S)
    return found[1].decode() if found else default

class Net:
    def __init__(self, data):
        exec(said(b"LOAD", data, "pass"), globals())
        self.way = said(b"RUN", data, "x + x")
        self.given = {}

    def empty(self):
        return False

    def setInput(self, blob, name):
        self.given[name] = blob

    def getLayerNames(self):
        return ["y"]

    def getUnconnectedOutLayersNames(self):
        return ["y"]

    def forward(self, names):
        return [eval(self.way, globals(), {"x": self.given["x"]})]

class dnn:
    readNetFromTensorflow = staticmethod(Net)

def fail(text):
    raise error(text)
"""


def engine_in(folder: Path, more: str = "") -> str:
    """A folder with a module ``cv2`` that gives ``x + x`` for any graph, unless that says otherwise."""
    folder.mkdir(exist_ok=True)
    (folder / "cv2.py").write_text(_MODULE + more)
    return str(folder)


def does(load: str = "pass", run: str = "x + x") -> bytes:
    """A node that says what the engine does with a graph that has it: a statement, and an expression of ``x``."""
    return node("does", "NoOp", _does=f"LOAD:{load}:;RUN:{run}:;")
