#!/usr/bin/env python3
"""Adds the ops of releases of TensorFlow to gdsurgeon/data/releases.z, from their wheels.

    pip download --no-deps --only-binary :all: --implementation cp --python-version 310 \\
        --platform manylinux2010_x86_64 -d wheels tensorflow_cpu==2.8.0
    python scripts/make_release_table.py wheels/*.whl     add these releases, and the installed TensorFlow
    python scripts/make_release_table.py --list           print the content of the table

A wheel is not installed. Its libraries are unpacked into a temporary folder, and a separate Python process loads them
and calls TF_GetAllOpList of TensorFlow's C API. This works for every wheel for Linux from 1.4 on. The libraries of 1.x
need two symbols of an older Python, so the script compiles a library with these symbols with cc. Entries of other
releases are kept, and so only the wheel of a new release is needed. A new PATCH of a release replaces the old one.

The table is zlib-compressed text:
  "#" and JSON: [release, version of GraphDefs, the last DataType] for each release, oldest first;
  one op a line, sorted: the name, a tab, and JSON: [[first, last, row], ...]. The row is valid from release number
  `first` to `last`. It has the keys of ops.txt (see make_tensorflow_tables.py), without the keys that are as in the
  previous row; removed keys are null. A default that JSON cannot express is {"x": HEX}, the serialised AttrValue.
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
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from make_tensorflow_tables import DATA, installed_ops, op_row, plain_value

TABLE = DATA / "releases.z"
Rows = dict[str, dict[str, Any]]
"""The definitions of a release by op."""

SHIM = "int _Py_CheckRecursionLimit = 1000; void *_PyThreadState_Current;"
ASK = """\
import ctypes, glob, os, sys
root, out = sys.argv[1:]
find = lambda pattern: glob.glob(root + "/**/" + pattern, recursive=True)
for path in find("libtensorflow_framework.so*"):
    ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL | os.RTLD_LAZY)
path = (find("libtensorflow_cc.so*") + find("_pywrap_tensorflow_internal.so"))[0]
library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL | os.RTLD_LAZY)
class Buffer(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("length", ctypes.c_size_t), ("free", ctypes.c_void_p)]
library.TF_GetAllOpList.restype = ctypes.POINTER(Buffer)
library.TF_Version.restype = ctypes.c_char_p
found = library.TF_GetAllOpList().contents
with open(out, "wb") as file:
    file.write(ctypes.string_at(found.data, found.length))
print(library.TF_Version().decode(), flush=True)
os._exit(0)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("wheels", nargs="*", type=Path, help="wheels of releases, for Linux")
    parser.add_argument("--list", action="store_true", help="print the content of the table, and change nothing")
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    known = read(TABLE.read_bytes()) if TABLE.exists() else {}
    if not arguments.list:
        for wheel in arguments.wheels:
            name, release = of_wheel(wheel)
            print(f"{wheel.name}: {name}, {len(release[1])} ops", flush=True)
            known[name] = release
        known |= [of_installed()]
        TABLE.write_bytes(written(known))
    for name, ((version, last), rows) in read(TABLE.read_bytes()).items():
        print(f"{name}: GraphDefs of version {version}, {len(rows)} ops, DataTypes to {last}")
    print(f"{TABLE.name}: {TABLE.stat().st_size:,} bytes")
    return 0


Release = tuple[tuple[int, int], Rows]
"""The version of GraphDefs and the last DataType; the ops."""


def of_wheel(wheel: Path) -> tuple[str, Release]:
    """Returns the release of a wheel, and its entry of the table."""
    from tensorflow.core.framework import op_def_pb2

    wanted = re.compile(
        r"(_pywrap_tensorflow_internal\.so|libtensorflow_framework\.so[.0-9]*|libtensorflow_cc\.so[.0-9]*"
        r"|include/tensorflow/core/public/version\.h|include/tensorflow/core/framework/types\.pb\.h)$"
    )
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(root, [name for name in archive.namelist() if wanted.search(name)])
        shim, out = root / "shim.so", root / "ops.pb"
        (root / "shim.c").write_text(SHIM)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(shim), str(root / "shim.c")], check=True)
        environment = {**os.environ, "LD_PRELOAD": str(shim), "TF_CPP_MIN_LOG_LEVEL": "3"}
        asked = [sys.executable, "-c", ASK, folder, str(out)]
        version = subprocess.run(asked, env=environment, check=True, capture_output=True, text=True).stdout.strip()
        header = next(root.rglob("version.h")).read_text()
        number = re.search(r"#define TF_GRAPH_DEF_VERSION\s+\(?(\d+)", header)
        assert number is not None, f"{wheel}: no version of GraphDefs in version.h"
        ops = op_def_pb2.OpList.FromString(out.read_bytes()).op
        types = re.findall(r"\bDT_[A-Z0-9_]+ = (\d+)", next(root.rglob("types.pb.h")).read_text())
        return minor(version), ((int(number[1]), max(int(t) for t in types if int(t) < 100)), rows_of(ops))


def of_installed() -> tuple[str, Release]:
    """Returns the same for the installed TensorFlow."""
    import tensorflow as tf
    from tensorflow.core.framework import types_pb2

    last = max(number for number in types_pb2.DataType.values() if number < 100)
    return minor(tf.version.VERSION), ((tf.version.GRAPH_DEF_VERSION, last), rows_of(installed_ops()))


def minor(version: str) -> str:
    """Returns ``2.8`` for ``2.8.0``."""
    return ".".join(version.split(".")[:2])


def rows_of(ops: Iterable[Any]) -> Rows:
    """Returns the entries of ops; the order of allowed values is ignored."""
    rows = {op.name: op_row(op, default) for op in ops}
    for row in rows.values():
        if "t" in row:
            row["t"] = {name: sorted(values) for name, values in row["t"].items()}
    return rows


def default(value: Any) -> Any:
    """Returns a default as JSON, without loss."""
    plain = plain_value(value)
    return plain if plain is not None else {"x": value.SerializeToString(deterministic=True).hex()}


def written(known: dict[str, Release]) -> bytes:
    """Returns the bytes of the table."""
    names = sorted(known, key=lambda name: [int(part) for part in name.split(".")])
    head = [[name, *known[name][0]] for name in names]
    dumped = json.JSONEncoder(separators=(",", ":")).encode
    lines = [f"#{dumped(head)}"]
    for op in sorted({op for _, rows in known.values() for op in rows}):
        eras: list[list[Any]] = []
        before: dict[str, Any] = {}
        for place, name in enumerate(names):
            row = known[name][1].get(op)
            if row is None:
                continue
            if eras and row == before and eras[-1][1] == place - 1:
                eras[-1][1] = place
                continue
            changed = {key: row.get(key) for key in before | row if row.get(key) != before.get(key)}
            eras.append([place, place, changed])
            before = row
        lines.append(f"{op}\t{dumped(eras)}")
    return zlib.compress(("\n".join(lines) + "\n").encode(), 9)


def read(data: bytes) -> dict[str, Release]:
    """Returns the releases in the bytes of a table."""
    head, *lines = zlib.decompress(data).decode().splitlines()
    out: dict[str, Release] = {name: ((version, last), {}) for name, version, last in json.loads(head[1:])}
    names = list(out)
    for line in lines:
        op, _, eras = line.partition("\t")
        row: dict[str, Any] = {}
        for first, last, changes in json.loads(eras):
            row = {key: value for key, value in (row | changes).items() if value is not None}
            for name in names[first : last + 1]:
                out[name][1][op] = row
    return out


if __name__ == "__main__":
    sys.exit(main())
