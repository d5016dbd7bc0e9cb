"""A process with TensorFlow that answers what gradients there are; see `gradient_server.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import TracebackType
from typing import Any, cast

from support.paths import TESTS

_ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}


class GradientReference:
    """A context manager."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.gradient_server"],
            cwd=TESTS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | _ENVIRONMENT,
        )

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """What the process answers; an AssertionError where it fails."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **request}) + "\n")
        self._process.stdin.flush()
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the process has ended: {self._process.wait()}"
        answer = cast(dict[str, Any], json.loads(line))
        assert "failed" not in answer, answer["failed"]
        return answer

    def __enter__(self) -> GradientReference:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
