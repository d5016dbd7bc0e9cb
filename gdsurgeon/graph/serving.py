"""The signatures of a model and the sources of the values of its variables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gdsurgeon.errors import Remark, quoted
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.text import named, nearest, suggestion
from gdsurgeon.wire.source import Source

if TYPE_CHECKING:
    from gdsurgeon.graph.node import Node

META_GRAPH = "MetaGraph"
"""The kind of a model that is a standalone MetaGraph."""
PREDICT = "tensorflow/serving/predict"
"""The method of a signature with named input and output tensors."""

INIT = "__saved_model_init_op"
"""The key of a signature that is not for callers: loaders run its output once."""


class Served(NamedTuple):
    """A signature: the tensors that callers feed and fetch, by the names that they use for them."""

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    method: str = ""

    @property
    def tensors(self) -> tuple[str, ...]:
        """The input and output tensors, each once."""
        return tuple(dict.fromkeys((*self.inputs.values(), *self.outputs.values())))


class Restoring(NamedTuple):
    """A run that sets the values of variables and tables.

    Attributes:
        feeds: the path string to feed to each tensor.
        targets: the nodes to run.
    """

    feeds: Mapping[str, str]
    targets: tuple[str, ...]


class Key(NamedTuple):
    """The place of a variable's value in a checkpoint: the tensor, and its slice as the restore op spells it."""

    tensor: str
    slice: str = ""


class SavedVariable(NamedTuple):
    """A variable, its key in a checkpoint, its assign op, the assigned value, and the tensor read to save it."""

    variable: str
    key: Key
    assign: str
    value: str
    read: str


class Saver(NamedTuple):
    """Nodes that restore and save variables.

    Attributes:
        file_name: the tensor that is fed with the checkpoint's prefix.
        restore: the node that is run to restore.
        save: the tensor that is fetched to save.
        variables: the restored and saved variables.
    """

    file_name: str
    restore: str
    save: str
    variables: tuple[SavedVariable, ...]


Weights = Callable[[Mapping[str, tuple[int, str]]], Source]
"""Makes a GraphDef of constants with the values of variables. The argument maps the names of their nodes in the file to
the required dtype and the device of the constant. Raises EditError if a variable has no value."""


class Copied(NamedTuple):
    """A scope that an edit has copied; the parts of the model outside the graph must follow.

    Attributes:
        source, target: the scopes of the originals and of the copies, each with a slash at the end.
        nodes: the copy of each node.
        frames: the frame names of while loops in the copy, by the original names.
        keys: the new keys of the checkpoint, each with the key of the tensor to store.
    """

    source: str
    target: str
    nodes: Mapping[Node, Node]
    frames: Mapping[str, str]
    keys: Mapping[str, str]

    def spelt(self, text: str) -> str:
        """Returns the name in the copy for `text`, a name that may begin with the scope `source`."""
        return self.target + text.removeprefix(self.source)


class Serving(NamedTuple):
    """How a graph is served. All names are those of the file.

    Attributes:
        kind: the kind of the model: a SavedModel, a MetaGraph.
        checkpoint: the prefix of its checkpoint; '' for none.
        signatures: by key.
        meant: the keys of the selected signatures; empty for all that callers can use.
        restoring: the run that restores its checkpoint, or None.
        initialising: the run that a loader makes next, to initialise tables and other resources; None: no run.
        keys: the key of each variable's value in the checkpoint, by the variable's node.
        apart: the nodes that `restoring` does not restore, because only loaders that read the model's objects do.
        saver: in an edited graph, the saver that an edit has added to restore all of `keys`; it replaces `restoring`.
        before: the original from the file, if an edit has changed how the graph is served.
        weights: makes constants from variables; None without a checkpoint.
        copies: scopes that edits have copied, in order.
        main_op: the node that an edit has added to run all targets of `initialising`, because a loader runs one node.
    """

    kind: str = ""
    checkpoint: str = ""
    signatures: Mapping[str, Served] = {}
    meant: tuple[str, ...] = ()
    restoring: Restoring | None = None
    initialising: Restoring | None = None
    keys: Mapping[str, Key] = {}
    apart: frozenset[str] = frozenset()
    saver: Saver | None = None
    before: Serving | None = None
    weights: Weights | None = None
    copies: tuple[Copied, ...] = ()
    main_op: str = ""

    @property
    def runs(self) -> list[Restoring]:
        """The runs of a loader, in order."""
        return [run for run in (self.restoring, self.initialising) if run is not None]

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes in signatures, in the runs of a loader, and of variables in `keys`; each once."""
        texts = [text for served in self.signatures.values() for text in served.tensors]
        texts += [text for run in self.runs for text in (*run.feeds, *run.targets)]
        return tuple(dict.fromkeys((*(parse_tensor(text).node for text in texts), *self.keys)))

    @property
    def adds_keys(self) -> bool:
        """Whether variables were copied that the checkpoint must restore."""
        return bool(self.checkpoint) and any(copied.keys for copied in self.copies)

    @property
    def tensors(self) -> dict[str, str]:
        """The tensors of all signatures for callers, by ``KEY/name``."""
        return {
            f"{key}/{name}": tensor
            for key, served in self.signatures.items()
            for name, tensor in {**served.outputs, **served.inputs}.items()
            if key != INIT
        }

    @property
    def spellings(self) -> dict[str, str]:
        """The tensors that users can name as callers do: `tensors`, and those of the signatures in `meant` by ``name``.

        If two of the signatures in `meant` use a name for different tensors, that name is left out.
        """
        own: dict[str, set[str]] = {}
        for key in self.meant:
            served = self.signatures.get(key, Served({}, {}))
            for name, tensor in {**served.outputs, **served.inputs}.items():
                own.setdefault(name, set()).add(tensor)
        return {name: tensor for name, (tensor, *others) in own.items() if not others} | self.tensors

    @property
    def called(self) -> dict[str, Served]:
        """The signatures for callers, or the selected ones."""
        keys = self.meant or [key for key in self.signatures if key != INIT]
        return {key: self.signatures[key] for key in keys if key in self.signatures}


def no_signature(key: str, signatures: Collection[str]) -> Remark:
    """Returns the remark that the signature `key` does not exist, with a suggestion or the existing keys."""
    called = sorted(other for other in signatures if other != INIT)
    near = nearest(key, called)
    there = "" if near or not called else f" Its signatures are: {named(called)}."
    text = f"no signature {quoted(key)}.{suggestion(near) or there}".rstrip(".")
    return Remark(text, "no-such-signature", signature=key, near=near, signatures=called)
