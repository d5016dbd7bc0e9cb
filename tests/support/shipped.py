"""Models as they are shipped, made once for all processes that test, and what TensorFlow computed with them."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from gdsurgeon.graph.serving import Restoring, Served
from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.settings import Settings
from gdsurgeon.runtime.tensor import Tensor, from_numpy
from support import saved_models
from support.aside import ran_aside
from support.patience import LONG_ENOUGH

SIGNATURES = (
    *((name, "serving_default") for name in (*saved_models.OBJECTS, *saved_models.NODES, *saved_models.CHECKPOINTS)),
    *(("several", "scaled"), ("keras", "serve")),
)
"""(model, key) of what can be frozen."""


class Recorded(NamedTuple):
    """Inputs of a signature, and what it gave."""

    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]


class Shipped(NamedTuple):
    """The folder with the models of `support.saved_models`."""

    folder: Path

    def path(self, name: str) -> str:
        """The path that a user names as MODEL."""
        own = self.folder / name
        return str(own / f"{saved_models.CHECKPOINT}.meta" if name in saved_models.CHECKPOINTS else own)

    def recorded(self, name: str, key: str = "serving_default") -> Recorded:
        with np.load(self.folder / f"{name}.{key}.npz", allow_pickle=True) as arrays:
            sides = ({k.partition(" ")[2]: arrays[k] for k in arrays if k.startswith(side)} for side in ("in ", "out "))
            return Recorded(*sides)


def make(factory: pytest.TempPathFactory) -> Shipped:
    """The models, made by the first process that asks for them."""
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder = base / "saved_models"
    with open(base / "saved_models.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            folder.mkdir()
            (folder / "said").write_text(ran_aside("support.saved_models", str(folder)))
    said = (folder / "said").read_text()
    assert not said, said
    return Shipped(folder)


def computed(path: str, served: Served, inputs: dict[str, Any], initialising: Restoring | None) -> dict[str, Any]:
    """The outputs of the GraphDef in the file PATH for INPUTS, by the names that SERVED has for tensors.

    Tables are initialised as by a loader before.
    """
    reads = tuple(initialising.feeds.values()) if initialising is not None else ()
    with Executor(Settings(timeout=LONG_ENOUGH, reads=reads)) as executor:
        executor.start()
        executor.load("frozen", path)
        executor.loaded("frozen")
        if initialising is not None:
            files = {tensor: Tensor(STRING, (), [path.encode()]) for tensor, path in initialising.feeds.items()}
            executor.initialize("frozen", initialising.targets, files)
        feeds = {served.inputs[name]: from_numpy(value) for name, value in inputs.items()}
        executor.wait(executor._worker.run("frozen", "out", feeds, list(served.outputs.values()), []))
        return {name: executor.tensor("out", i).numpy() for i, name in enumerate(served.outputs)}
