#!/usr/bin/env python3
"""Makes every model of a folder, and some of Keras, fit for older TensorFlows, runs them there, and writes a page.

    python scripts/compat_table.py FOLDER --release 1.4=PATH --release 1.15=PATH ...        print the page
    python scripts/compat_table.py FOLDER --release ... -o docs/compat-on-models.md         write it

PATH is the wheel of the release, or a folder into which one was unpacked; see `scripts/make_release_table.py` for how
to get one. For each model that runs here, the script calls `gdsurgeon compat --for RELEASE --run-in PATH`. A written
model (exit code 0) has run in the release itself, on the same feeds, with the same results. For a refused model (4),
the release must not load the original. Any other end is a defect: the script ends with 1.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pages import called, error_in, models, page_parser, plain, publish, runs, table

from gdsurgeon.container.files import ALL
from gdsurgeon.container.load import open_model
from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.settings import Settings
from gdsurgeon.proof.trial import ORIGINAL
from gdsurgeon.runtime.packages import unpacked

HEAD = """\
# Models for older TensorFlows

Results of `compat` for several releases of TensorFlow, on public models, Keras models with random weights, and small
functions of TensorFlow 2. `scripts/compat_table.py` wrote this page. Every written model ran in the release itself,
on the same feeds. The number is the largest difference from the current TensorFlow. `=` means that the release
already knows the whole model. For each refused model, the script checked that the release does not load the original.

{measured}

"""


KNOWN = {
    "od_hand_ssd.meta": "its variables have generated values, so boxes are not finite; each kernel treats such boxes "
    "differently",
    "opencv_face_detector_uint8.pb": "it returns only NaN from 1.12 on, and numbers in 1.4",
    **dict.fromkeys(
        ("serving_half_plus_two_sm", "serving_half_plus_two_tf2_sm"),
        "1.4 cannot read its compressed checkpoint, which compat does not change",
    ),
}
"""Models that give something else in a release, and why."""

KERAS = ("keras_lstm", "keras_gru", "keras_bidirectional", "keras_groups", "keras_transformer", "keras_mobilenetv2",
         "keras_resnet50")  # fmt: skip
"""Those of `scripts/keras_models.py` that are tried."""


class Run(NamedTuple):
    """The result of a model for a release.

    Attributes:
        code: the exit code of `compat`.
        told: the difference, or what was refused.
        there: the error of the release for the original model; '' if the script did not try it.
    """

    model: str
    release: str
    code: int
    told: str
    there: str = ""

    @property
    def is_right(self) -> bool:
        """Whether the release agrees."""
        is_known = self.code == 5 and self.model in KNOWN
        return self.code == 0 or (self.code == 4 and bool(self.there)) or is_known


def main() -> int:
    """Runs the table."""
    parser = page_parser(__doc__)
    parser.add_argument("--release", action="append", default=[], metavar="RELEASE=PATH", help="A release to ask.")
    parser.add_argument("--make-functions", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make_functions is not None:
        for name, (function, *specs) in newer_functions().items():
            _save(options.make_functions / f"tf_{name}.pb", function, *specs)
        return 0
    releases = dict(text.split("=", 1) for text in options.release)
    with tempfile.TemporaryDirectory() as made, contextlib.ExitStack() as stack:
        keras = options.keras or Path(made)
        if not list(keras.glob("tf_*.pb")):
            making = (sys.executable, __file__, "--make-functions", str(keras))
            subprocess.run(making, check=True, capture_output=True)
        folders = {name: stack.enter_context(unpacked(path)) for name, path in releases.items()}
        paths = [path for path in models(options, KERAS, made) if runs(path)]
        found = [run for path in paths for run in runs_of(path, releases, folders)]
    publish(HEAD, page(found), options.out)
    return 0 if all(run.is_right for run in found) else 1


def runs_of(path: Path, releases: Mapping[str, str], folders: Mapping[str, str]) -> Iterator[Run]:
    """Converts the model at `path` for each release, and runs the result there."""
    for release, place in releases.items():
        with tempfile.TemporaryDirectory() as folder:
            out = str(Path(folder) / "out.pb")
            code, said = called("compat", str(path), "--for", release, "-o", out, "--run-in", place)
        there = asked(path, folders[release], place) if code == 4 else ""
        run = Run(path.name, release, code, told(code, said), there)
        print(f"{run.model} {release}: {code} {run.told[:90]} | {there[:90]}", file=sys.stderr, flush=True)
        yield run


def told(code: int, said: str) -> str:
    """Returns the important part of the output of `compat`."""
    lines = said.splitlines()
    if code == 0:
        ran = next((line for line in lines if line.startswith("  run in")), "")
        found = re.search(r"(bit-identical|largest difference (\S+))$", ran)
        same = "= " if any(line.startswith("Note: nothing would change") for line in lines) else ""
        return same + ((found[2] or "0") if found else ran.partition(" gives ")[2] or "loads it")
    if code != 4:
        return error_in(said, 2, "; ")
    first, *details = error_in(said, 1000, "\n").split("\n")
    return "; ".join(detail.partition(": ")[0] for detail in details) or first


def asked(path: Path, folder: str, place: str) -> str:
    """Returns the error of a release for the model at `path`; '' if the release loads it."""
    settings = Settings(release=folder, reads=(folder, place, str(path)), allow_ops=True)
    with Executor(settings) as executor:
        try:
            executor.load_source(ORIGINAL, open_model(str(path), ALL).graph)
            executor.loaded(ORIGINAL)
        except Refused as refused:
            return refused.text
        except GdsurgeonError as error:
            return error.message
    return ""


def page(runs: Sequence[Run]) -> str:
    """The page: a table of differences, and below it what was refused, with what the release says."""
    by_model: dict[str, list[Run]] = {}
    for run in runs:
        by_model.setdefault(run.model, []).append(run)
    releases = dict.fromkeys(run.release for run in runs)
    lines = table(
        f"model | {' | '.join(releases)}", ([f"`{model}`", *map(cell, found)] for model, found in by_model.items())
    )
    written, refused = (sum(run.code == code for run in runs) for code in (0, 4))
    lines += ["", f"{len(runs):,} pairs of model and release: {written:,} written and run, {refused:,} refused."]
    lines += ["", "## Refused models", ""]
    rows = ([f"`{r.model}`", r.release, plain(r.told), plain(r.there)] for r in runs if r.code == 4)
    lines += table("model | release | without an older equivalent | error of the release", rows)
    lines += ["", "## Different results", ""]
    differing = (run for run in runs if run.code not in (0, 4))
    rows = ([f"`{r.model}`", r.release, plain(r.told), plain(KNOWN.get(r.model, ""))] for r in differing)
    lines += table("model | release | result | reason", rows)
    return "\n".join(lines) + "\n"


def cell(run: Run) -> str:
    """The largest difference, or that it is refused."""
    return run.told if run.code == 0 else "refused" if run.code == 4 else "told to differ"


def newer_functions() -> dict[str, Any]:
    """Returns functions of TensorFlow with their inputs, by ops that they need and that older releases often lack."""
    import tensorflow as tf

    def images(rows: int | None = None) -> tf.TensorSpec:
        return tf.TensorSpec((rows, 8, 9, 3), tf.float32, name="images")

    matrix, numbers = tf.TensorSpec((4, 3), tf.float32, name="x"), tf.TensorSpec((None,), tf.int32, name="n")
    texts, text = tf.TensorSpec((None,), tf.string, name="s"), tf.TensorSpec((), tf.string, name="s")
    features = {"a": tf.io.FixedLenFeature([2], tf.float32, [0.0, 0.0]), "b": tf.io.VarLenFeature(tf.int64)}
    around, wide = [[0, 0], [1, 2], [0, 3], [0, 0]], tf.ones([3, 3, 3, 2])
    boxes, scores = tf.TensorSpec((1, None, 1, 4), tf.float32), tf.TensorSpec((1, None, 2), tf.float32)
    return {
        "batch_dims": (lambda x: tf.gather(x, [[0, 1]] * 4, axis=1, batch_dims=1), matrix),
        "bincount": (lambda n: tf.math.bincount(n, minlength=5), numbers),
        "combined_nms": (lambda b, s: tf.image.combined_non_max_suppression(b, s, 5, 5)[0], boxes, scores),
        "decode_image": (lambda s: tf.image.decode_image(s, expand_animations=False), text),
        "diag": (lambda x: tf.linalg.diag(x) + tf.linalg.set_diag(tf.zeros([4, 3, 3]), x), matrix),
        "dilated": (lambda x: tf.nn.conv2d(x, wide, 1, "SAME", dilations=2), images()),
        "equal": (lambda a, b: tf.cast(a == b, tf.int32), numbers, tf.TensorSpec((None,), tf.int32, name="m")),
        "lanczos": (lambda x: tf.image.resize(x, (5, 7), "lanczos3", antialias=True), images()),
        "lower_case": (tf.strings.lower, texts),
        "padded": (lambda x: tf.nn.conv2d(x, wide, 2, around), images()),
        "parse_example": (lambda s: tf.io.parse_example(s, features)["a"], texts),
        "ragged": (lambda x: tf.ragged.boolean_mask(x, x > 0).to_tensor(0.0), matrix),
        "resize_bicubic": (lambda x: tf.image.resize(x, (5, 7), "bicubic"), images()),
        "resize_bilinear": (lambda x: tf.image.resize(x, (5, 17)), images()),
        "resize_nearest": (lambda x: tf.image.resize(x, (5, 17), "nearest"), images()),
        "scan": (lambda x: tf.scan(lambda a, row: a + row, x), tf.TensorSpec((None, 3), tf.float32, name="x")),
        "stateless_random": (lambda x: x + tf.random.stateless_uniform([3], [1, 2]), matrix),
        "switch_case": (lambda x: tf.switch_case(tf.cast(x[0, 0], tf.int32), [lambda: x, lambda: -x]), matrix),
    }


def _save(path: Path, function: Callable[..., Any], *specs: Any) -> None:
    """Writes FUNCTION of tensors SPECS, frozen, with its loops and conditionals as they are in TensorFlow 2."""
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    traced = tf.function(function).get_concrete_function(*specs)
    frozen = convert_variables_to_constants_v2(traced, lower_control_flow=False)
    path.write_bytes(frozen.graph.as_graph_def().SerializeToString())


if __name__ == "__main__":
    sys.exit(main())
