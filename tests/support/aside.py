"""Processes that answer many tests line by line: JSON objects on standard input and output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from support.paths import TESTS

Request = Mapping[str, Any]
Answer = dict[str, Any]

_ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}

_BOOT = """import gc, runpy, sys
gc.disable()
import tensorflow
gc.freeze()
gc.enable()
sys.argv[0:1] = []
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""Imports TensorFlow without looking for garbage among what stays, which takes a fifth of that."""


def _command(module: str, *arguments: str) -> list[str]:
    """Runs MODULE, with TensorFlow imported before it."""
    return [sys.executable, "-W", "ignore", "-c", _BOOT, module, *arguments]


def ran_aside(module: str, *arguments: str) -> str:
    """Runs a module that needs TensorFlow to its end; returns its error, '' without one."""
    done = subprocess.run(
        _command(module, *arguments),
        cwd=TESTS,
        env=os.environ | _ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done.stderr or f"exit code {done.returncode}" if done.returncode else ""


class Aside:
    """A context manager: a process that runs a module, which serves.

    Args:
        module: its name.
        environment: additional variables, for TensorFlow.
    """

    def __init__(self, module: str, **environment: str) -> None:
        self._process = subprocess.Popen(
            _command(module),
            cwd=TESTS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | _ENVIRONMENT | environment,
        )

    def ask(self, do: str, **request: Any) -> Answer:
        """Returns the answer of the process. Raises AssertionError if it fails."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **request}) + "\n")
        self._process.stdin.flush()
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the process has ended: {self._process.wait()}"
        answer = cast(Answer, json.loads(line))
        assert "failed" not in answer, answer["failed"]
        return answer

    def __enter__(self) -> Aside:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()


def serve(does: Mapping[str, Callable[[Request], Answer]]) -> None:
    """Answers requests in the separate process, until there are no more."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # printed text is no answer
        for line in sys.stdin:
            request = json.loads(line)
            try:
                answer = does[request["do"]](request)
            except Exception:
                answer = {"failed": traceback.format_exc()}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


RANDOM_GRAPHS = 40


class Answers:
    """What TensorFlow says of the graphs in a folder, by their names without suffix; see `tensorflow_shapes`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / f"{name}.json").read_text())
        return found


class ShapesTold(Aside):
    """A process that tells shapes."""

    def __init__(self) -> None:
        # The convolutions of oneDNN give their input back where their output is empty.
        super().__init__("support.tensorflow_shapes", TF_ENABLE_ONEDNN_OPTS="0")

    def of(self, folder: Path, random_graphs: int = 0) -> Answers:
        """The answers on each graph in FOLDER, and on so many random ones, which are made there first."""
        self.ask("examine", folder=str(folder), random=random_graphs)
        return Answers(folder)
