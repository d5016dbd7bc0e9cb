"""The rows on SavedModels: freezing, editing beside a large checkpoint, looking."""

from __future__ import annotations

import os
import sys

from bench_support.measure import Contender
from bench_support.rows import CP, GDSURGEON, TENSORFLOW, Row, Workshop, beside_python, helper
from bench_support.targets import MB, Target

CHECKPOINT = os.path.join("variables", "variables.data-00000-of-00001")
COPY = 'cp "$1" "$2" && sync "$2"'


def folder_of(shop: Workshop, kind: str, size: int = 0) -> str:
    """The folder of a SavedModel of KIND. Raises Failed where it cannot be made."""
    folder = os.path.join(shop.folder, f"{kind}_{size}")
    if not os.path.exists(folder):
        shop.say(f"generating {os.path.basename(folder)}")
        unfinished = f"{folder}.part"
        shop.runner.run((sys.executable, helper("generate_saved_model.py"), kind, str(size), unfinished))
        os.replace(unfinished, folder)
    return folder


def freeze_row(shop: Workshop, name: str, kind: str, size: int) -> Row:
    """Variables to constants, from file to file, against a copy of the variables and TensorFlow's own tool."""
    folder, out = folder_of(shop, kind, size), shop.output
    command = (*shop.gdsurgeon, "freeze", folder, "-o", out, "--validate", "structure")
    copy = Contender(CP, ("sh", "-c", COPY, "sh", os.path.join(folder, CHECKPOINT), out), "and sync", output=out)
    peer = (sys.executable, helper("peers.py"), f"freeze-{kind}", folder, out, "y", "y")
    own = "freeze_graph" if kind == "tf1" else "convert_variables_to_constants_v2"
    contenders = [
        Contender(GDSURGEON, command, output=out),
        copy,
        Contender(TENSORFLOW, peer, own, output=out, slow=True),
    ]
    kinds = {"tf1": "TensorFlow 1", "tf2": "TensorFlow 2"}
    work = f"freeze a SavedModel of {kinds[kind]} with {size // MB:,} MB of variables, --validate structure"
    return Row(name, work, contenders, Target(times=2.5, peer=copy.label, megabytes=60))


def rename_row(shop: Workshop, size: int) -> Row:
    """An edit beside a large checkpoint, which is linked."""
    folder, out = folder_of(shop, "tf2", size), os.path.join(shop.folder, "renamed")
    rename = (*shop.gdsurgeon, "rename", folder, "serving_default_x=input", "-o", out, "--validate", "structure")
    copy = Contender(CP, ("cp", "-r", folder, out), output=out)
    work = f"rename in a SavedModel with {size // MB:,} MB of variables, --validate structure"
    return Row("rename-saved", work, [Contender(GDSURGEON, rename, output=out), copy], Target(seconds=0.3))


def inspect_row(shop: Workshop) -> Row:
    folder = folder_of(shop, "keras")
    show = (beside_python("saved_model_cli"), "show", "--dir", folder, "--all")
    contenders = [
        Contender(GDSURGEON, (*shop.gdsurgeon, "inspect", folder)),
        Contender(TENSORFLOW, show, "saved_model_cli show", slow=True),
    ]
    return Row("inspect-saved", "inspect Keras' MobileNetV2, exported", contenders, Target(seconds=0.4))
