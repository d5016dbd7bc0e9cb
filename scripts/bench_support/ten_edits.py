"""The row of many edits at once: a script, the slowest of its lines alone, and the commands in a pipe."""

from __future__ import annotations

import os
import shlex

from bench_support.measure import Contender
from bench_support.rows import GDSURGEON, Model, Row, Workshop
from bench_support.targets import Target

FRONT = (
    "decode-image(channels=3) | resize(224,224, like=tf1) | normalize(mean=[123.7,116.8,103.9], std=[58.4,57.1,57.4])"
)
FIRST = "densenet169_1/conv1"
LINES = (
    "rename image=picture Identity=logits",
    "set-shape picture=1,224,224,3",
    f"add-preprocessing --at picture --steps '{FRONT}'",
    "rename picture=jpeg",
    "add-postprocessing --at logits --steps 'top-k(5)'",
    f"freeze-input {FIRST}_bn_1/batchnorm/add/y=0.00001",
    f"control-edges --add logits=^{FIRST}_relu_1/Relu",
    "set-device --assign /cpu:0 --op Relu",
    f"remove --node {FIRST}_conv_1/convolution/ReadVariableOp --bypass",
    f"rename {FIRST}_relu_1/Relu=first",
)
"""What is done to a frozen model before it is served."""
ALONE = (
    ("set-shape", "image=1,224,224,3"),
    ("add-preprocessing", "--at", "image", "--steps", FRONT),
    ("add-postprocessing", "--at", "Identity", "--steps", "top-k(5)"),
    ("freeze-input", f"{FIRST}_bn_1/batchnorm/add/y=0.00001"),
)
"""Of these lines those that take longest, each of them alone on the model as it is."""


def apply_row(shop: Workshop, model: Model) -> Row:
    """Ten edits of MODEL with one proof; each command of the pipe proves what it has made."""
    path, script = shop.path(model), os.path.join(shop.folder, "ten.gds")
    with open(script, "w", encoding="utf-8") as file:
        file.write("\n".join(LINES))
    calls = [(name, "-", *words) for name, *words in map(shlex.split, LINES)]
    piped = " | ".join(shlex.join((*shop.gdsurgeon, *call, "-o", "-")) for call in calls)
    contenders = [
        Contender(GDSURGEON, (*shop.gdsurgeon, "apply", path, script, "-o", shop.output)),
        *(
            Contender(GDSURGEON, (*shop.gdsurgeon, name, path, *words, "-o", shop.output), f"alone: {name}")
            for name, *words in ALONE
        ),
        Contender(GDSURGEON, ("sh", "-c", f'< "$1" {piped} > "$2"', "sh", path, shop.output), "in a pipe", slow=True),
    ]
    size = os.path.getsize(path) // 1_000_000
    work = f"ten edits, proven at once, {model} ({size} MB)"
    return Row("apply-ten", work, contenders, Target(times=1.3, peer=f"{GDSURGEON} alone"))
