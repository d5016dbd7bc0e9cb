"""Tests whether ``tf.saved_model.load`` serves the values of the graph; it runs functions of the model's objects.

`check_served` asks the loader of TensorFlow's Python package. `served_by_objects` runs the same functions without this
package, whose import takes seconds. Source: tensorflow/python/saved_model/load.py. A signature is a bare concrete
function. The loader passes it the inputs in the order of the argument keywords, then the objects of ``bound_inputs``. A
variable is created anew and restored by its key in the checkpoint. Two functions of a table create and fill it. A
constant and the path of an asset are those of the graph. Every function of the library is imported as a graph first,
where TensorFlow compares the declared shapes with the inferred shapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from gdsurgeon.analysis.shapes.arithmetic import compatible, stated_shape
from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.container.checkpoint.stored import OBJECT_GRAPH, variable_keys
from gdsurgeon.container.container import Container
from gdsurgeon.container.files import Wanted
from gdsurgeon.container.load import open_model
from gdsurgeon.errors import GdsurgeonError, Json, NotValidatedError, ValidationError, printable, quoted
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.attrs import attr_value, func_value, string_value, type_value, types_value
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.names import free_scope, nodes_of
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.served import serving_of
from gdsurgeon.graph.serving import Key, Restoring
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.proof import difference
from gdsurgeon.proof.settings import Event, Settings
from gdsurgeon.proof.subject import Subject
from gdsurgeon.proof.trial import EDITED
from gdsurgeon.runtime.base import Served, SignatureCall
from gdsurgeon.runtime.client import Worker
from gdsurgeon.runtime.failures import TensorFlowError, TensorFlowMissing
from gdsurgeon.runtime.protocol import Result
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.text import named
from gdsurgeon.values import Closing, Tolerance
from gdsurgeon.wire.protos import AttrValue, SavedConcreteFunction, SignatureDef
from gdsurgeon.wire.write import read_chunks

_TOLERANCE = Tolerance(1e-4, 1e-5)
"""By how much floats may differ: functions are compiled and placed separately."""
LOADER = "tf.saved_model.load"


class Folders(NamedTuple):
    """The folder of the original model ('' if it is not a SavedModel), the staged folder, and the tags of the graph."""

    before: str
    after: str
    tags: tuple[str, ...] = ()


def check_served(executor: Executor, graph: Graph, overrides: Overrides, keys: Sequence[str], loader: Loader) -> str:
    """Serves the signatures `keys` of an edited model with tf.saved_model.load, and compares with the values of its
    graph.

    Args:
        executor: has loaded `graph` as the edited graph.
        graph: the edited graph.
        overrides: the user's feeds.
        keys: of signatures whose functions changed; empty: the model must only load.
        loader: of the folders of the model.

    Returns:
        The result in words.

    Raises:
        ValidationError: the model does not load, does not run, or returns other values.
    """
    executor.progress(Event("proving"))
    ask, folders = loader.ask, loader.folders
    runs: list[_Run] = []
    not_run: dict[str, str] = {}
    for key in keys:
        try:
            runs.append(_run(executor, graph, overrides, key))
        except NotValidatedError as error:
            not_run[key] = error.message
    # A call can change state for the next call, so each starts from the loaded model.
    rounds = [[run] for run in runs] if any(run.keeps_state for run in runs) else [runs]
    for together in rounds or [[]]:
        answers = ask(folders.after, [run.call for run in together])
        if answers.not_loaded:
            if not folders.before or not ask(folders.before, []).not_loaded:
                text = f"{answers.loader} does not load the result: {printable(answers.not_loaded)}"
                raise ValidationError(text, code="does-not-load")
            return f"does not load even the original model: {printable(answers.not_loaded)}"
        if answers.refused:
            call = together[len(answers.outputs)].call
            facts: dict[str, Json] = {"signature": call.key}
            may_run = folders.before and _fits(graph.pristine(), call)
            before = ask(folders.before, [call]).refused if may_run else ""
            if before:
                text = f"for these inputs, {LOADER} does not run the signature {quoted(call.key)} of the original"
                raise RefusedBefore(
                    f"{text} either: {printable(before)}", code="unfeedable", facts=facts, advice="give-others"
                )
            text = f"{LOADER} does not run the signature {quoted(call.key)}: {printable(answers.refused)}"
            raise ValidationError(text, code="does-not-run", facts=facts)
        for run, outputs in zip(together, answers.outputs, strict=True):
            _compare(executor, run, outputs)
    chance = [run.call.key for run in runs if run.is_random]
    but = f", except random results of {named(chance, 3)}" if chance else ""
    text = f"returns the same for {named([run.call.key for run in runs], 3)}{but}" if runs else "loads it"
    return text + "".join(f"; {printable(key)} was not run: {printable(why)}" for key, why in not_run.items())


def served_by_objects(
    executor: Executor, graph: Graph, overrides: Overrides, folders: Folders, keys: Sequence[str]
) -> str:
    """Runs the functions that the objects of a staged model name for the signatures `keys`, next to its graph.

    `check_served` shows more, but needs TensorFlow's Python package, whose import takes most of its time. This is
    enough if only signatures changed.

    Args:
        executor: runs them.
        graph: the edited graph.
        overrides: the user's feeds.
        folders: of the model.
        keys: of the signatures whose functions changed.

    Returns:
        The result in words; '' if tf.saved_model.load must be used.
    """
    try:
        container = open_model(folders.after, Wanted(folders.tags)).container
        if container is None:
            return ""
        found, called = _Reader(container, graph.pristine()).read(keys)
        executor.load_graph(LOADER, found)
        executor.loaded(LOADER)
        for key, outputs in called.items():
            run = _run(executor, found, overrides, key, loaded=LOADER, more=tuple(outputs.values()))
            if run.is_random or _wrong(executor, run, {name: run.more[text] for name, text in outputs.items()}):
                return ""
    except (NotReadable, Refused, GdsurgeonError):
        return ""  # tf.saved_model.load says why, or that it is fine
    if not keys:
        return "was not started: no function of a signature changed, and the functions of the objects exist"
    return f"was not started: the functions that it would call return the same for {named(sorted(keys), 3)}"


class _Run(NamedTuple):
    """A run of the graph for a signature.

    Attributes:
        call: the call with the same inputs.
        outputs: by name, their places in the executor.
        more: other tensors of the run, by name.
        is_random: whether outputs are random.
        keeps_state: whether outputs depend on state that an earlier run changed.
    """

    call: SignatureCall
    outputs: dict[str, Result]
    more: dict[str, Result]
    is_random: bool
    keeps_state: bool


class Loader(Closing):
    """TensorFlow's Python package in a separate process, which calls the signatures of a folder.

    Args:
        settings: of the run.
        folders: of the model.
    """

    def __init__(self, settings: Settings, folders: Folders) -> None:
        self._settings, self.folders = settings, folders
        self._workers: list[Worker] = []

    def start(self) -> None:
        """Begins to import the package; if it does not start, `ask` raises the error."""
        with suppress(GdsurgeonError):
            self._started("loader")

    def ask(self, folder: str, calls: Sequence[SignatureCall]) -> Served:
        """Returns the answers of a loader of `folder`.

        Raises:
            ValidationError: the process crashed, or does not answer in time.
            NotValidatedError: the package does not exist, does not start, or runs out of memory.
        """
        try:
            worker = self._workers[-1] if self._workers else self._started("loader")
            try:
                return self._called(worker, folder, calls)
            except TensorFlowMissing:
                if len(self._workers) > 1:
                    raise
                return self._called(self._started("python"), folder, calls)  # all of the package
        except TensorFlowMissing as missing:
            raise NotValidatedError(
                f"{LOADER} cannot be used here: {missing.reason}",
                code="no-tensorflow",
                advice=("install-tensorflow", "not-loaded"),
            ) from missing
        except TensorFlowError as refused:
            raise ValidationError(f"{LOADER}: {printable(refused.message)}") from refused
        except GdsurgeonError as error:
            error.place_at(LOADER)
            raise

    def _called(self, worker: Worker, folder: str, calls: Sequence[SignatureCall]) -> Served:
        return worker.call_signatures(folder, self.folders.tags, calls).result(self._settings.timeout)

    def _started(self, runtime: str) -> Worker:
        settings, folders = self._settings, self.folders
        reads = tuple(filter(None, (folders.before, folders.after)))
        worker = Worker("cpu", settings.op_libraries, runtime=runtime, verbose=settings.verbose,
                        allow_ops=settings.allow_ops, reads=reads)  # fmt: skip
        self._workers.append(worker)
        worker.start()
        return worker

    def close(self) -> None:
        """Ends the processes."""
        for worker in self._workers:
            worker.close()


def _run(
    executor: Executor,
    graph: Graph,
    overrides: Overrides,
    key: str,
    *,
    loaded: str = EDITED,
    more: tuple[str, ...] = (),
) -> _Run:
    """Runs `graph`, which the executor has loaded as `loaded`, for the signature `key` and the tensors `more`.

    The graph runs on a generated feed, from the state in which a loader leaves the model.
    """
    serving = serving_of(graph)
    assert serving is not None
    served = serving.signatures[key]
    plan = plan_with(executor.settings, graph, (*served.outputs.values(), *more))
    plan = replace(plan, groups=[[*served.tensors, *more]], inputs_of_sampled=[])
    known = {name: shape for name, shape in executor.shapes.get(EDITED, {}).items() if name in plan.placeholders}
    overrides = replace(overrides, shapes={**known, **overrides.shapes})
    subject = Subject(executor, loaded, graph, plan=plan, overrides=overrides, name=f"{LOADER} {key}")
    subject.keep_defaults(subject.optional - {*nodes_of(served.inputs.values())})  # a caller cannot say others
    if plan.skipped:
        raise NotValidatedError(plan.skipped[0].reason)
    executor.load_again(loaded)
    subject.initialize()
    subject.run(0, {})
    results = {tensor: Result(subject.result(0, 0), place) for place, tensor in enumerate(plan.groups[0])}
    inputs = {name: executor.fetched(results[tensor]) for name, tensor in served.inputs.items()}
    outputs = {name: results[tensor] for name, tensor in served.outputs.items()}
    others = {tensor: results[tensor] for tensor in more}
    return _Run(SignatureCall(key, inputs), outputs, others, bool(plan.random_nodes), plan.keeps_state)


def _compare(executor: Executor, run: _Run, found: dict[str, Tensor]) -> None:
    """Raises ValidationError if `found` differs from the values of the graph in `run`; of random outputs only the
    names."""
    key = quoted(run.call.key)
    if found.keys() != run.outputs.keys():
        raise ValidationError(
            f"{LOADER} returns {named(sorted(found))} for the signature {key}, not {named(sorted(run.outputs))}",
            code="differs",
            signature=key,
        )
    if run.is_random:
        return
    executor.put(LOADER, [found[name] for name in sorted(found)])
    wrong = _wrong(executor, run, {name: Result(LOADER, place) for place, name in enumerate(sorted(found))})
    if wrong:
        raise ValidationError(
            f"for the signature {key}, {LOADER} returns different values than the graph",
            code="differs",
            signature=key,
            details=tuple(wrong),
        )


def _wrong(executor: Executor, run: _Run, found: Mapping[str, Result]) -> list[str]:
    """Returns the outputs of `run` that differ from `found`, each with the difference."""
    names = sorted(found)
    if not names:
        return []
    source, other = run.outputs[names[0]].result_id, found[names[0]].result_id
    pairs = [(run.outputs[name].index, found[name].index) for name in names]
    comparisons = executor.compare(source, other, pairs, _TOLERANCE)
    return [f"{printable(name)}: {difference(c)}" for name, c in zip(names, comparisons, strict=True) if not c.close]


class RefusedBefore(NotValidatedError):
    """The original refuses the call as well."""


def _fits(graph: Graph, call: SignatureCall) -> bool:
    """Returns whether a signature of `graph` has the key, the names and the types of `call`."""
    served = graph.serving.signatures.get(call.key) if graph.serving is not None else None
    if served is None or served.inputs.keys() != call.inputs.keys():
        return False
    pairs = [(graph.tensor(text), call.inputs[name]) for name, text in served.inputs.items()]
    return all(
        base_dtype(tensor.dtype) == value.dtype and compatible(value.shape, stated_shape(tensor))
        for tensor, value in pairs
    )


# -- the objects of a SavedModel --------------------------------------------------------------------------------


class NotReadable(Exception):
    """The objects of a signature are of a kind that is not read here, or do not fit the signature."""


class _Reader:
    """Adds calls of the functions of a model's objects to its graph, which then computes signatures twice.

    Args:
        container: the staged SavedModel; its graph is changed.
        original: the graph before the edit. It is restored from its own checkpoint, which TensorFlow may read here. The
            body of each function that it does not have is imported as a graph.
    """

    def __init__(self, container: Container, original: Graph) -> None:
        self._graph, self._around = container.graph, container.meta.around
        self._known = original.functions
        self._scope = free_scope(self._graph.names(), "objects")
        self._objects = self._around.object_graph_def.nodes
        assert original.serving is not None
        self._serving = original.serving._replace(signatures=container.meta.signatures)
        self._variables: dict[int, Node] = {}
        self._tables: dict[int, Node] = {}
        self._initialisers: list[str] = []
        self._keys: dict[int, str] = {}

    def read(self, keys: Sequence[str]) -> tuple[Graph, dict[str, dict[str, str]]]:
        """Returns the graph with a call for each signature in `keys`, and by key and output the tensor of the call.

        Raises:
            NotReadable: the objects cannot be read here.
        """
        if any(name not in self._graph.functions for name in self._around.object_graph_def.concrete_functions):
            raise NotReadable
        outputs = {key: self._call(key, place) for place, key in enumerate(keys)}
        graph = from_bytes(read_chunks(self._graph.chunks()), self._graph.source_name)
        added = {node.name: Key(self._keys[place]) for place, node in self._variables.items()}
        serving = self._serving
        initialising = serving.initialising or Restoring({}, ())
        initialising = initialising._replace(targets=(*initialising.targets, *self._initialisers))
        graph.serving = serving._replace(
            keys={**serving.keys, **added}, apart=serving.apart | {*added}, initialising=initialising
        )
        return graph, outputs

    def _call(self, key: str, place: int) -> dict[str, str]:
        """Adds a call of the function of the signature `key`; returns its outputs by name."""
        function, names = self._function(key)
        served, definition = self._serving.signatures[key], self._around.signature_def[key]
        _check_specs(self._around.object_graph_def.concrete_functions[function], definition)
        inputs, outputs = sorted(definition.inputs), sorted(definition.outputs)
        if names != inputs:
            raise NotReadable
        given = [self._graph.tensor(served.inputs[name]) for name in inputs]
        call = self._add_call(f"{self._scope}/{place}", function, given, len(outputs))
        for name in self._graph.functions.reachable([function]):
            if self._known.get(name) != self._graph.functions[name]:
                self._import(name, f"{self._scope}/{place}/{name}")
        return {name: Output(call, number).name for number, name in enumerate(outputs)}

    def _add_call(self, name: str, function: str, given: Sequence[Output], results: int) -> Node:
        """Adds a call of `function` with the inputs `given` and the objects that it captures.

        The function must return `results` values.
        """
        body = Body(self._graph, function)
        bound = self._around.object_graph_def.concrete_functions[function].bound_inputs
        inputs = [*given, *(self._object(number) for number in bound)]
        if (len(body.arguments), len(body.results)) != (len(inputs), results):
            raise NotReadable
        attrs = {"Tin": _dtypes(body.arguments, "dtype"), "Tout": _dtypes(body.results, "T"), "f": func_value(function)}
        return self._add(name, "StatefulPartitionedCall", inputs, attrs)

    def _add(self, name: str, op: str, inputs: Sequence[Output], attrs: Mapping[str, AttrValue]) -> Node:
        encoded = {key: value.SerializeToString() for key, value in attrs.items()}
        return self._graph.add(name, op, inputs, attrs=encoded)

    def _import(self, function: str, scope: str) -> None:
        """Adds the body of `function` as nodes that do not run; TensorFlow checks them like a graph."""
        body = Body(self._graph, function)
        copies = {node: self._graph.add_copy(f"{scope}/{node.name}", node) for node in body.graph.nodes()}
        for node, copied in copies.items():
            inputs = [Output(copies[read.node], read.index) for read in node.inputs]
            self._graph.set_reads(copied, inputs, [copies[control] for control in node.controls])

    def _function(self, key: str) -> tuple[str, list[str]]:
        """Returns the function of the signature `key`, and the names of its inputs in the order of its arguments."""
        maps = [item for item in self._objects if item.user_object.identifier == "signature_map"]
        children = {child.local_name: child.node_id for item in maps for child in item.children}
        if len(maps) != 1 or not 0 <= children.get(key, -1) < len(self._objects):
            raise NotReadable
        found = self._objects[children[key]].bare_concrete_function
        fields = {pair.key: pair.value for pair in found.function_spec.fullargspec.named_tuple_value.values}
        spelt = (
            [value.string_value for value in fields["kwonlyargs"].list_value.values] if "kwonlyargs" in fields else []
        )
        names = list(found.argument_keywords)
        if spelt != names or found.concrete_function_name not in self._graph.functions:
            raise NotReadable
        return found.concrete_function_name, names

    def _object(self, number: int) -> Output:
        """Returns the tensor that the loader passes for the object `number`."""
        if not 0 <= number < len(self._objects):
            raise NotReadable
        found = self._objects[number]
        kind = found.WhichOneof("kind")
        if kind == "constant":
            return self._graph.tensor(found.constant.operation)
        if kind == "asset" and 0 <= found.asset.asset_file_def_index < len(self._around.asset_file_def):
            return self._graph.tensor(self._around.asset_file_def[found.asset.asset_file_def_index].tensor_info.name)
        if kind == "resource":
            return self._table(number).output
        if kind != "variable" or number not in self._checkpoint_keys():
            raise NotReadable
        if number not in self._variables:
            name = f"{self._scope}/variable/{number}"
            shape = attr_value(b"")
            shape.shape.CopyFrom(found.variable.shape)
            attrs = {"dtype": type_value(found.variable.dtype), "shape": shape, "shared_name": string_value(name)}
            self._variables[number] = self._add(name, "VarHandleOp", [], attrs)
        return self._variables[number].output

    def _table(self, number: int) -> Node:
        """Returns the call that creates the table `number`; the call that fills it runs once."""
        if number not in self._tables:
            children = {child.local_name: child.node_id for child in self._objects[number].children}
            name = f"{self._scope}/table/{number}"
            create, fill = (self._method(children.get(key, -1)) for key in ("_create_resource", "_initialize"))
            self._tables[number] = self._add_call(name, create, [], 1)
            results = len(Body(self._graph, fill).results)
            self._initialisers.append(self._add_call(f"{name}/filled", fill, [], results).name)
        return self._tables[number]

    def _method(self, number: int) -> str:
        """Returns the only concrete function of the object `number`."""
        names = list(self._objects[number].function.concrete_functions) if 0 <= number < len(self._objects) else []
        if len(names) != 1:
            raise NotReadable
        return names[0]

    def _checkpoint_keys(self) -> dict[int, str]:
        """Returns the keys in the checkpoint by the numbers of variables."""
        if not self._keys and self._serving.checkpoint:
            with open_checkpoint(self._serving.checkpoint) as checkpoint:
                if OBJECT_GRAPH in checkpoint:
                    self._keys = variable_keys(checkpoint.tensor(OBJECT_GRAPH).strings()[0])
        return self._keys


def _dtypes(nodes: Sequence[Node], key: str) -> AttrValue:
    return types_value([dtype for node in nodes if isinstance(dtype := node.plain_attr(key), int)])


def _check_specs(function: SavedConcreteFunction, definition: SignatureDef) -> None:
    """Raises NotReadable if `function` and `definition` declare different tensors."""
    arguments = function.canonicalized_input_signature.tuple_value.values
    if len(arguments) != 2 or arguments[0].tuple_value.values:
        raise NotReadable
    for stated, infos in ((arguments[1], definition.inputs), (function.output_signature, definition.outputs)):
        fields = stated.dict_value.fields
        if {name: field.tensor_spec_value.dtype for name, field in fields.items()} != {
            name: info.dtype for name, info in infos.items()
        }:
            raise NotReadable
