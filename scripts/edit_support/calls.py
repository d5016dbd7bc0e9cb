"""The command lines that are recorded for a model."""

from __future__ import annotations

import base64
import json
import re
import shlex
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edit_support.choices import CHOICES
from edit_support.model import Model

Call = dict[str, Any]
"""`model`, a relative path; `arguments`, with folders in braces; and `files` that the arguments name, packed."""

CALLS = """
steps --json
steps resize --json
help
help rename
completion bash
inspect {model} --json
inspect {model} --ops --sizes --functions --strings --json
show {model} --json
show {model} {output} --json
view {model} --json
view {model} --depth 2 -o - --format md
select {model} --json
select {model} --toposort --json
select {model} --backward {output} --tensors --json
check-ops {model} --for opencv --json
check-ops {model} --for tflite --json
simplify {model} => simplified{suffix}
simplify {model} --fold-bn => out{suffix}
diff {model} {model} --json
diff {model} {here}/simplified{suffix} --json
validate {model} --json
validate {model} --validate load --json
validate {model} {here}/simplified{suffix} --json
rewrite {model} {rule} => out{suffix}
rewrite {model} --rules builtin:swish --rules builtin:gelu --rules builtin:atrous => out{suffix}
rewrite {model} 'MatMul($x, $y)' --list --json
compat {model} --for 1.15 => out{suffix}
check-ops {model} --for tf1.15 --json
repair {model} --check --json
quantize {model} --dtype float16 => out{suffix}
quantize {model} --dtype int8 --tolerance 0.05 => out{suffix}
to-savedmodel {model} => served
to-savedmodel {model} --unfreeze . => unfrozen
signature {served} --rename {key}=renamed => out
signature {served} --outputs added:y={output} => out
freeze {model} --outputs {output} => out.pb
freeze {unfrozen} => out.pb
slim {unfrozen} => out
convert {model} --format text -o {here}/out{text} --json
convert {model} --format binary -o {here}/out{suffix} --json
apply {model} {here}/edits.gds => out{suffix}
apply {model} {here}/edits.gds --check
checkpoint {model} --json
checkpoint {checkpoint} --json
checkpoint {checkpoint} --verify --json
checkpoint {checkpoint} --regex ^=all/ -o {here}/out --json
"""
"""The calls in addition to those of `CHOICES`. ``=> NAME`` stands for the options of the output and the report."""

SCRIPT = b"rename --regex ^=all/\nsimplify\n"

BARE = ("rewrite", "compat", "repair", "quantize", "strip-weights", "signature", "freeze", "slim", "apply")
"""Edits that are also called without arguments, as all edits of `CHOICES` are."""

RULES = {
    "Relu6": "Relu6($x) -> Minimum(Maximum($x, 0), 6)", "Relu": "Relu($x) -> Maximum($x, 0)",
    "MatMul": "MatMul($x, $y) -> Identity(MatMul($x, $y))", "Mul": "Mul($x, $y) -> Mul($y, $x)",
    "Identity": "Identity($x) -> StopGradient($x)", "": "Add($x, $y) -> Add($y, $x)",
}  # fmt: skip
"""A rule for an op. The first rule whose op the model has is applied, or the last."""


def call(model: str, line: str, words: dict[str, str], *more: str, **files: bytes) -> Call:
    """The call of a line of `CALLS`; `words` are the values in braces, and `more` are arguments before ``=>``."""
    command, _, output = line.partition(" => ")
    arguments = [*shlex.split(command), *more]
    if output:
        arguments += ["-o", f"{{here}}/{output}", "--report", "{here}/report.json"]
    arguments = [re.sub(r"\{(\w+)\}", lambda found: words.get(found[1], found[0]), word) for word in arguments]
    packed = {name: base64.b64encode(zlib.compress(content, 9)).decode() for name, content in files.items()}
    return {"model": model, "arguments": arguments, "files": packed}


def calls_for(name: str, path: Path | None, choices: int) -> Iterator[Call]:
    """The calls for a model; without `path` those that need no model.

    Each edit gets up to `choices` sets of arguments from `edit_support.choices`.
    """
    lines = [line for line in CALLS.strip().splitlines() if ("{" in line) == (path is not None)]
    if path is None:
        yield from (call(name, line, {}) for line in lines)
        return
    with tempfile.TemporaryDirectory() as made:
        product = [sys.executable, "-m", "gdsurgeon"]
        feeds = ["validate", str(path), "--samples", "1", "--save-feeds", f"{made}/feeds.npz"]
        subprocess.run([*product, *feeds], capture_output=True, check=False)
        shown = subprocess.run([*product, "inspect", str(path), "--json"], capture_output=True, check=False)
        model, graph = f"{{models}}/{name}", Model(path, Path(made))
        ops = {"", *(node.op for node in graph.graph.nodes())}
        suffix = "" if path.is_dir() else ".meta" if path.suffix == ".meta" else ".pb"
        words = {
            "model": model,
            "suffix": suffix,
            "text": suffix and ".pbtxt",
            "output": graph.outputs[0].name if graph.outputs else "none",
            "rule": next(rule for op, rule in RULES.items() if op in ops),
            "key": next(iter(json.loads(shown.stdout).get("signatures") or ()), "serving_default"),
            "served": "{here}/served" if suffix == ".pb" else model,
            "unfrozen": "{here}/unfrozen" if suffix == ".pb" else model,
        }
        words["checkpoint"] = model[:-5] if suffix == ".meta" else f"{words['unfrozen']}/variables/variables"
        for line in lines:
            yield call(name, line, words, **({"edits.gds": SCRIPT} if "edits.gds" in line else {}))
        for command in (*CHOICES, *BARE):
            line, left = f"{command} {{model}} => out{{suffix}}", choices
            yield call(name, line, words)
            for choice in CHOICES.get(command, {}).values():
                try:
                    more = choice(graph) if left else None
                except (FileNotFoundError, IndexError):  # no feeds were saved, or the model has no outputs
                    continue
                if more is not None:
                    left -= 1
                    paths = [Path(word) for word in more if word.startswith(made)]
                    files = {f"{left}-{file.name}": file.read_bytes() for file in paths}
                    more = [word.replace(f"{made}/", f"{{here}}/{left}-").replace(str(path), model) for word in more]
                    yield call(name, line, words, *more, **files)
