"""What the model around a graph says of it: its signatures, and how its variables get their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from gdsurgeon.wire.source import Source

PREDICT = "tensorflow/serving/predict"
"""The method of a signature that takes tensors by name and gives tensors by name."""

INIT = "__saved_model_init_op"
"""The key of a signature that nobody calls: what it gives has a loader run once."""


class Served(NamedTuple):
    """A signature: the tensors that callers feed and fetch, by the names that they use for them."""

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    method: str = ""


class Restoring(NamedTuple):
    """A run that gives variables and tables their values.

    Attributes:
        feeds: strings, by the tensors that are fed with them: paths.
        targets: nodes that are run.
    """

    feeds: Mapping[str, str]
    targets: tuple[str, ...]


Weights = Callable[[Mapping[str, tuple[int, str]]], Source]
"""Makes a GraphDef of constants: the values of variables, by the names of their nodes in the file, each with the dtype
that it must have and the device of its constant. Raises EditError where one has no value."""


class Serving(NamedTuple):
    """How a graph is served. All names are those of the file.

    Attributes:
        kind: what the model is: a SavedModel, a MetaGraph.
        checkpoint: the prefix of its checkpoint; '' where it has none.
        signatures: by key.
        meant: the keys of those that are looked at; none: all that somebody calls.
        restoring: the run that restores its checkpoint; None where there is none.
        initialising: the run by which a loader initialises tables and more, after that; None: none.
        variables: the nodes that have a value then, those that stand APART too.
        apart: the keys of variables that no node restores, by their nodes: only who reads the model's objects does.
        weights: makes constants of variables; None where there is no checkpoint.
    """

    kind: str = ""
    checkpoint: str = ""
    signatures: Mapping[str, Served] = {}
    meant: tuple[str, ...] = ()
    restoring: Restoring | None = None
    initialising: Restoring | None = None
    variables: frozenset[str] = frozenset()
    apart: Mapping[str, str] = {}
    weights: Weights | None = None

    @property
    def runs(self) -> list[Restoring]:
        """What a loader runs, in order."""
        return [run for run in (self.restoring, self.initialising) if run is not None]

    @property
    def tensors(self) -> dict[str, str]:
        """The tensors of all signatures that somebody calls, by ``KEY/name``."""
        return {
            f"{key}/{name}": tensor
            for key, served in self.signatures.items()
            for name, tensor in {**served.outputs, **served.inputs}.items()
            if key != INIT
        }

    @property
    def called(self) -> dict[str, Served]:
        """The signatures that somebody calls, or those of them that are meant."""
        keys = self.meant or [key for key in self.signatures if key != INIT]
        return {key: self.signatures[key] for key in keys if key in self.signatures}
