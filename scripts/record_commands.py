#!/usr/bin/env python3
"""Runs every command on every model of a folder and records the results, or compares two records.

    python scripts/record_commands.py MODELS --tree DIR -o OLD.json                   choose the arguments, then run
    python scripts/record_commands.py MODELS --tree DIR -o NEW.json --like OLD.json   run the command lines of OLD.json
    python scripts/record_commands.py --compare OLD.json NEW.json                     print every difference

The commands run as processes, with the package in the folder DIR. A record has one line of JSON for each run, and keeps
the arguments and the files that the arguments name. The lines of a model are written when its last command has ended;
a second call with the same -o runs only the missing models. `--like` repeats the command lines on a different tree.
The record leaves out durations, memory, versions and the paths of folders.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import lzma
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

Run = dict[str, Any]
"""A call has the keys `model`, `arguments` and `files` (by name, packed); a run also has those of `FIELDS`."""

FIELDS = ("verdict", "exit", "code", "nodes", "result", "report")
"""The compared fields: `nodes` is the node count of the result, `result` the digest of the written file."""

VERDICTS = {0: "done", 1: "different", 2: "usage", 3: "bad input", 4: "refused", 5: "failed", 6: "cannot write",
            7: "not validated", 70: "fault", None: "timed out"}  # fmt: skip

UNSTABLE = frozenset(("seconds", "timing", "memory", "runtime", "loaded", "version"))
"""The keys of reports that depend on the machine or the moment."""

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


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


# -- running ----------------------------------------------------------------------------------------------------------


def models_in(folder: Path) -> dict[str, Path]:
    """Returns the models of a folder by relative path: files, SavedModels, and MetaGraphs in folders of their own."""
    entries = [path for path in sorted(folder.iterdir()) if path.suffix != ".md"]
    paths = [meta for path in entries for meta in sorted(path.glob("*.meta")) or [path]]
    return {str(path.relative_to(folder)): path for path in paths}


def call(model: str, line: str, words: dict[str, str], *more: str, **files: bytes) -> Run:
    """Returns the call of a line of `CALLS`; `words` has the values in braces, `more` arguments before ``=>``."""
    command, _, output = line.partition(" => ")
    arguments = [*shlex.split(command), *more]
    if output:
        arguments += ["-o", f"{{here}}/{output}", "--report", "{here}/report.json"]
    arguments = [re.sub(r"\{(\w+)\}", lambda found: words.get(found[1], found[0]), word) for word in arguments]
    packed = {name: base64.b64encode(zlib.compress(content, 9)).decode() for name, content in files.items()}
    return {"model": model, "arguments": arguments, "files": packed}


def calls_for(name: str, path: Path | None, choices: int) -> Iterator[Run]:
    """Yields the calls for a model, with up to `choices` sets of arguments for each edit.

    Without `path`, yields the calls that need no model.
    """
    lines = [line for line in CALLS.strip().splitlines() if ("{" in line) == (path is not None)]
    if path is None:
        yield from (call(name, line, {}) for line in lines)
        return
    from edit_choices import CHOICES, Model

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
            line = f"{command} {{model}} => out{{suffix}}"
            yield call(name, line, words)
            found = []
            for choice in CHOICES.get(command, {}).values():
                with suppress(FileNotFoundError, IndexError):  # the model lacks such nodes, or feeds
                    found.append(choice(graph))
            for i, more in enumerate(found[:choices]):
                files = {f"{i}-{Path(word).name}": Path(word).read_bytes() for word in more if made in word}
                more = [word.replace(f"{made}/", f"{{here}}/{i}-").replace(str(path), model) for word in more]
                yield call(name, line, words, *more, **files)


def ran(call: Run, tree: Path, places: dict[str, str], timeout: float) -> Run:
    """Returns the run of a call in a tree; `places` are the folders in braces."""
    here = Path(places["{here}"])
    for name, content in call["files"].items():
        (here / name).write_bytes(zlib.decompress(base64.b64decode(content)))
    words = [re.sub(r"\{(models|here)\}", lambda found: places[found[0]], word) for word in call["arguments"]]
    outputs = [Path(words[i + 1]) for i, word in enumerate(words) if word == "-o" and words[i + 1] != "-"]
    report = here / "report.json"
    for path in (report, *outputs):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(tree), "TMPDIR": str(here / "temporary")}
    process = subprocess.Popen(
        [sys.executable, "-m", "gdsurgeon", *words], cwd=here, env=environment, text=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=timeout)
        code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err, code = process.communicate()[0][:0], "", None
    text = report.read_text() if report.exists() else out
    try:
        said = json.loads(text)
    except ValueError:
        said = {"lines": text.splitlines()} if text else {"error": {"lines": err.splitlines()}}
    folders = {places["{models}"]: "{models}", places["{here}"]: "{here}", str(tree): "{tree}"}
    said = normalised(said if isinstance(said, dict) else {"value": said}, folders)
    error, proof, nodes = (said.get(key) for key in ("error", "proof", "nodes"))
    level = proof["level"] if code == 0 and proof else None
    return {
        **call,
        "verdict": "proven" if level == "run" else level or VERDICTS.get(code, f"exit {code}"),
        "exit": code,
        "code": error.get("code") if error else None,
        "nodes": nodes["after"] if isinstance(nodes, dict) else nodes if isinstance(nodes, int) else None,
        "result": next((digest(path) for path in outputs if path.exists()), None),
        "report": said,
    }


def normalised(value: Any, folders: dict[str, str]) -> Any:
    """Returns a report without unstable keys, durations and paths; `folders` maps each folder to its name in braces."""
    if isinstance(value, dict):
        return {normalised(key, folders): normalised(value[key], folders) for key in value if key not in UNSTABLE}
    if isinstance(value, list):
        return [normalised(item, folders) for item in value]
    if isinstance(value, str):
        for folder, name in folders.items():
            value = value.replace(folder, name)
        value = re.sub(r"\{here\}/temporary/[^\s/'\":]+", "{temporary}", value)
        return re.sub(r"\d[\d.,]* (?=(ms|s|seconds)\b)", "… ", value)
    return value


def digest(path: Path) -> str:
    """Returns the digest of a file, or of the files in a folder."""
    made = hashlib.sha256()
    for file in sorted(file for file in (path, *path.rglob("*")) if file.is_file()):
        made.update(f"{file.relative_to(path)}\0".encode() + file.read_bytes())
    return made.hexdigest()[:16]


def record(options: argparse.Namespace) -> None:
    """Runs the commands on the models that the record does not have yet."""
    folder, tree = options.folder.resolve(), options.tree.resolve()
    paths = {name: path for name, path in models_in(folder).items() if fnmatch(name, options.models)}
    known = read(options.like).values() if options.like else None
    done = {run["model"] for run in read(options.out).values()} if options.out.exists() else set()
    largest_first = sorted(paths, key=lambda name: -paths[name].stat().st_size)

    def run_all(name: str) -> None:
        new_calls = calls_for(name, paths.get(name), options.choices)
        calls = list(new_calls if known is None else (run for run in known if run["model"] == name))
        with tempfile.TemporaryDirectory() as made:
            (Path(made) / "temporary").mkdir()
            places = {"{models}": str(folder), "{here}": made}
            runs = [ran(each, tree, places, options.timeout) for each in calls]
        file.write("".join(f"{json.dumps(run, ensure_ascii=False)}\n" for run in runs))
        file.flush()
        print(f"{len(runs)} runs {name}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as cache, ThreadPoolExecutor(options.j) as pool, options.out.open("a") as file:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = cache  # modules are compiled once, and not into the tree
        for future in [pool.submit(run_all, name) for name in ["", *largest_first] if name not in done]:
            future.result()
    print(counted(read(options.out)))


def read(path: Path) -> dict[tuple[str, str], Run]:
    """Returns the runs of a record by model and command line; `path` may be compressed with xz."""
    data = path.read_bytes()
    text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode()
    runs = (json.loads(line) for line in text.splitlines())
    return {(run["model"], shlex.join(run["arguments"])): run for run in runs}


# -- comparing --------------------------------------------------------------------------------------------------------


def compare(old: dict[tuple[str, str], Run], new: dict[tuple[str, str], Run], ignored: Sequence[str] = ()) -> list[str]:
    """Returns the differences of two records as lines, a summary first. No lines if the records agree.

    A field that one of the runs does not have is not compared: `scripts/records` has records without reports.

    The values of outputs are not compared for models with random ops.

    Args:
        old, new: the runs, as `read` returns them.
        ignored: patterns of fields, such as ``result``, and of paths in reports, such as ``report.error.message``.
    """
    proofs = [(model, run["report"].get("proof")) for (model, _), run in old.items() if run.get("report")]
    random = {model for model, proof in proofs if proof and proof.get("random")}
    summary: Counter[str] = Counter()
    details = []
    for key in dict.fromkeys([*old, *new]):
        runs = [each.get(key) for each in (old, new)]
        fields = [field for field in FIELDS if all(run is None or field in run for run in runs)]
        sides = [run and {field: run[field] for field in fields} for run in runs]
        found = [
            (
                ".".join(path[:3]) or "run",
                f"{'.'.join(path) or 'run'}: {json.dumps(before)[:200]} -> {json.dumps(after)[:200]}",
            )
            for path, before, after in changes(*sides)
            if not any(fnmatch(".".join(path), pattern) for pattern in ignored)
            and not (key[0] in random and path[-1:] == ("value",))
        ]
        summary.update({kind for kind, _ in found})
        if found:
            details += ["", f"{key[0]}: {key[1]}", *(f"  {line}" for _, line in found)]
    ranked = sorted(summary, key=lambda kind: (*(kind.startswith(field) for field in reversed(FIELDS)), kind))
    return [*(f"{summary[kind]:,} runs differ in {kind}" for kind in ranked), *details]


def changes(old: Any, new: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yields the path and both values of each difference; None stands for a missing value."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            yield from changes(old.get(key), new.get(key), (*path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for before, after in zip(old, new, strict=True):
            yield from changes(before, after, (*path, "[]"))
    elif isinstance(old, list) and isinstance(new, list):
        yield path, [item for item in old if item not in new], [item for item in new if item not in old]
    elif old != new and not (isinstance(old, float | str) and type(old) is type(new) and agree(str(old), str(new))):
        yield path, old, new


def agree(old: str, new: str) -> bool:
    """Returns whether two texts differ at most in the rounding of decimal fractions."""
    pairs = list(zip(NUMBER.findall(old), NUMBER.findall(new), strict=False))
    close = (
        a == b or ("." in a + b and math.isclose(float(a), float(b), rel_tol=1e-3, abs_tol=1e-6)) for a, b in pairs
    )
    return NUMBER.split(old) == NUMBER.split(new) and all(close)


def counted(runs: dict[tuple[str, str], Run]) -> str:
    """Returns a text such as ``4 runs: 3 proven, 1 refused``."""
    verdicts = Counter(run["verdict"] for run in runs.values())
    return f"{len(runs):,} runs: {', '.join(f'{count:,} {verdict}' for verdict, count in verdicts.most_common())}"


def main() -> int:
    """Records or compares; returns 1 if two records differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, nargs="?", metavar="MODELS")
    parser.add_argument("--tree", type=Path, metavar="DIR", default=Path(__file__).parents[1])
    parser.add_argument("-o", dest="out", type=Path, metavar="RECORD")
    parser.add_argument("--like", type=Path, metavar="RECORD", help="Run the command lines of this record.")
    parser.add_argument("--models", default="*", metavar="PATTERN", help="Some of the models.")
    parser.add_argument("--choices", type=int, default=1, metavar="N", help="Sets of arguments for an edit, at most.")
    parser.add_argument("--timeout", type=float, default=120, metavar="SECONDS", help="For each call.")
    parser.add_argument("-j", type=int, default=1, metavar="N", help="Models at a time.")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("OLD", "NEW"))
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="PATTERN", help="A field, such as report.error.*"
    )
    options = parser.parse_args()
    if options.compare:
        old, new = map(read, options.compare)
        lines = compare(old, new, options.ignore)
        print("\n".join([counted(old), counted(new), *lines]))
        return 1 if lines else 0
    if not options.folder or not options.out:
        parser.error("MODELS and -o are needed to record, or --compare")
    record(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
