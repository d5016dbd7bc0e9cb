"""Problems that loaders of a model would have, found without loading it, with their repairs.

Loaders of TensorFlow 1, servers and the C API restore a model by its restore op, and run the nodes of its signatures.
tf.saved_model.load and Keras' TFSMLayer restore it by its objects, if any, and run their functions. Source: the
behavior of TensorFlow 2.21 for models with each of these problems.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.queries.op_usage import op_usage
from gdsurgeon.analysis.queries.shipped import BY_NOTHING, BY_OBJECTS, Contents, ShippedVariable, called_keys
from gdsurgeon.checkpoint.bundle import Bundle, shard_path
from gdsurgeon.container.container import Container
from gdsurgeon.errors import printable, quoted
from gdsurgeon.graph.serving import Serving
from gdsurgeon.ops.op_defs import table_version
from gdsurgeon.text import counted, near_miss
from gdsurgeon.text import named as listed

ALL = "all loaders"
NODES = "TensorFlow Serving, the C API, tf.compat.v1"
OBJECTS = "tf.saved_model.load, Keras' TFSMLayer"


class Trouble(NamedTuple):
    """Something that loaders trip over.

    Attributes:
        loaders: those that do.
        what: the trouble.
        advice: the code of what repairs it, as in `GdsurgeonError.advice`; '': nothing that is known here.
        facts: of the advice.
    """

    loaders: str
    what: str
    advice: str = ""
    facts: Mapping[str, str] = {}


def troubles(container: Container, contents: Contents) -> list[Trouble]:
    """What loaders of CONTAINER, which holds CONTENTS, would trip over, those things first that all of them do."""
    found = [
        *_of_signatures(container),
        *_of_the_checkpoint(container, contents),
        *_of_values(container, contents),
        *_of_assets(contents),
        *_of_ops(container),
        *_of_objects(container),
    ]
    return sorted(found, key=lambda trouble: (ALL, NODES, OBJECTS).index(trouble.loaders))


def _facts(container: Container) -> dict[str, str]:
    return {"model": printable(container.graph.source_name), "prefix": printable(container.checkpoint)}


def _of_signatures(container: Container) -> Iterator[Trouble]:
    graph, serving = container.graph, container.graph.serving or Serving()
    if container.kind == "SavedModel" and not called_keys(serving):
        yield Trouble(ALL, "it has no signature to call", advice="add-signature", facts=_facts(container))
    for key, served in serving.called.items():
        for tensor in served.tensors:
            if tensor.partition(":")[0] not in graph:
                what = f"the signature {quoted(key)} refers to {quoted(tensor)}, which does not exist in the graph"
                yield Trouble(ALL, what, advice="remove-signature", facts={**_facts(container), "key": printable(key)})


def _of_the_checkpoint(container: Container, contents: Contents) -> Iterator[Trouble]:
    """That it is missing, or lacks a file, or a tensor."""
    facts = _facts(container)
    if contents.unreadable:
        yield Trouble(ALL, contents.unreadable, advice="name-checkpoint", facts=facts)
    checkpoint = contents.checkpoint
    needed = [variable for variable in contents.variables if variable.signatures]
    if checkpoint is None:
        if not container.checkpoint and (needed or (contents.variables and not called_keys(_serving(container)))):
            what = f"the checkpoint with the values of {counted(len(contents.variables), 'variable')} is missing"
            yield Trouble(ALL, what, advice="name-checkpoint", facts=facts)
        return
    shards = checkpoint.header.num_shards if isinstance(checkpoint, Bundle) else 0
    paths = (shard_path(checkpoint.prefix, shard, shards) for shard in range(shards))
    missing = next((path for path in paths if not os.path.exists(path)), None)
    if missing is not None:
        yield Trouble(ALL, f"{printable(missing)} is missing; it is a part of the checkpoint")
    lost = {v.key.tensor: v.name for v in contents.variables if v.key is not None and v.key.tensor not in checkpoint}
    if lost:
        key, name = next(iter(lost.items()))
        what = f"the checkpoint has no tensor {quoted(key)}, from which {quoted(name)} is restored"
        more = f", nor {counted(len(lost) - 1, 'other')} that the model restores" if len(lost) > 1 else ""
        near = near_miss(key, checkpoint.keys).strip()
        yield Trouble(ALL, f"{what}{more}{f'. {near}' if near else ''}", advice="rename-keys", facts=facts)


def _serving(container: Container) -> Serving:
    return container.graph.serving or Serving()


def _of_values(container: Container, contents: Contents) -> Iterator[Trouble]:
    """Variables that a signature needs, and that have no value, or have one for some loaders only."""
    if contents.checkpoint is None:
        return
    facts = _facts(container)
    lost, apart = ([v for v in contents.variables if v.signatures and v.by == by] for by in (BY_NOTHING, BY_OBJECTS))
    if lost:
        yield Trouble(ALL, f"no node restores or initializes {_needed(lost)}", advice="keep-others", facts=facts)
    if apart:
        what = f"only the model's objects restore {_needed(apart)}"
        yield Trouble(NODES, what, advice="slim", facts=facts)


def _needed(variables: Sequence[ShippedVariable]) -> str:
    """VARIABLES, the signatures that need them, and what TensorFlow says then."""
    keys = list(dict.fromkeys(key for variable in variables for key in variable.signatures))
    names = listed([variable.name for variable in variables], 2, show=quoted)
    return f'{names}, needed by {listed(keys, 2, show=quoted)} ("Could not find variable")'


def _of_assets(contents: Contents) -> Iterator[Trouble]:
    missing = [asset.path for asset in contents.assets if not asset.is_there]
    if missing:
        yield Trouble(ALL, f"{listed(missing, 3, show=printable)} is missing; a table is filled from it")


def _of_ops(container: Container) -> Iterator[Trouble]:
    unknown = [op.op for op in op_usage(container.graph) if not op.is_known and not op.is_function]
    if unknown:
        what = f"TensorFlow {table_version()} does not know {listed(unknown, 5, show=quoted)}"
        yield Trouble(ALL, what, advice="custom-ops")


def _of_objects(container: Container) -> Iterator[Trouble]:
    """What of the objects cannot be made again."""
    objects, graph = container.meta.around.object_graph_def, container.graph
    if not objects.nodes:
        return
    whats = []
    slots = sum(1 for item in objects.nodes if item.slot_variables)
    if slots:
        whats.append(f"{counted(slots, 'object')} of an old optimizer (\"no attribute 'add_slot'\")")
    lost = [name for name in sorted(objects.concrete_functions) if graph.functions.get(name) is None]
    if lost:
        whats.append(f"objects name functions that do not exist: {listed(lost, 2, show=quoted)}")
    gone = [c for item in objects.nodes if (c := item.constant.operation) and c not in graph]
    if gone:
        whats.append(f"objects name constants that do not exist: {listed(gone, 2, show=quoted)}")
    served = called_keys(_serving(container))
    maps = [item for item in objects.nodes if item.user_object.identifier == "signature_map"]
    known = {child.local_name for item in maps for child in item.children}
    if maps and known != set(served):
        whats.append(f"the objects have different signatures: {listed(sorted(known), 5, show=quoted) or 'none'}")
    for what in whats:
        yield Trouble(OBJECTS, what, advice="slim", facts=_facts(container))
