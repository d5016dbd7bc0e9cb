"""What a saver consists of that an edit has made, and what of the one goes in whose place it is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gdsurgeon.compare.intent import FunctionChanges, Intent, made
from gdsurgeon.container.surroundings import Node, Place, Surroundings, Tensor, Value
from gdsurgeon.graph.attrs import shape_value, type_value, types_value
from gdsurgeon.graph.constants import tensor_value
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import free_scope, parse_tensor
from gdsurgeon.graph.serving import Key, Serving
from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.ops.kinds import VARIABLES, is_variable
from gdsurgeon.specification.sharing import calling_nodes, named_by_node
from gdsurgeon.specification.training import with_servants

if TYPE_CHECKING:
    from gdsurgeon.specification.surroundings import Expected


class Saved(NamedTuple):
    """A variable that a saver has, the node of the file that it is, copies or comes from, and where its value is."""

    name: str
    original: str
    key: Key


def each_once(before: Graph, serving: Serving, rows: Iterable[int]) -> list[Saved]:
    """Those of ROWS that are variables of which a checkpoint has the value; of what is one variable the first."""
    table = before.store.table
    variables: dict[tuple[object, ...], Saved] = {}
    for row in sorted(rows):
        name = table.names[row]
        if is_variable(table.op(row)) and name in serving.keys:
            node = before[name]
            identity = node.text_attr("container"), node.text_attr("shared_name") or name, serving.keys[name]
            variables.setdefault(identity, Saved(name, name, serving.keys[name]))
    return list(variables.values())


def say_saver(before: Graph, saved: Sequence[Saved], intent: Intent, stem: str = "saver") -> None:
    """Has INTENT say what restores the variables SAVED and saves them, in the scope STEM or STEM_1 and so on."""
    scope = free_scope(before.store.names, stem)
    path, read, write = f"{scope}/file_name", f"{scope}/RestoreV2", f"{scope}/SaveV2"
    kinds = [_dtype(before, item.original) for item in saved]
    string, dtypes = type_value(STRING).SerializeToString(), types_value(kinds).SerializeToString()
    shape = {"shape": shape_value(()).SerializeToString()}
    altered = made(path, "Placeholder", attrs={"dtype": string, **shape})
    for name, texts in (("names", [item.key.tensor for item in saved]), ("slices", [item.key.slice for item in saved])):
        value = tensor_value(STRING, (len(texts),), [text.encode() for text in texts]).SerializeToString()
        altered += made(f"{scope}/{name}", "Const", attrs={"dtype": string, "value": value})
    where = [path, f"{scope}/names", f"{scope}/slices"]
    altered += made(read, "RestoreV2", where, attrs={"dtypes": dtypes})
    values = []
    for number, (item, dtype) in enumerate(zip(saved, kinds, strict=True)):
        is_resource = before[item.original].op not in VARIABLES  # a constant has become one
        kind = type_value(dtype).SerializeToString()
        op, key = ("AssignVariableOp", "dtype") if is_resource else ("Assign", "T")
        given = f"{read}:{number}" if number else read
        altered += made(f"{scope}/Assign_{number}", op, [item.name, given], attrs={key: kind})
        values.append(f"{scope}/Read_{number}" if is_resource else item.name)
        if is_resource:
            altered += made(values[-1], "ReadVariableOp", [item.name], attrs={"dtype": kind})
    assigned = [f"{scope}/Assign_{number}" for number in range(len(saved))]
    altered += made(f"{scope}/restore", "NoOp", controls=assigned, attrs={})
    altered += made(write, "SaveV2", [*where, *values], attrs={"dtypes": dtypes})
    altered += made(f"{scope}/save", "Identity", [path], [write], attrs={"T": string})
    intent.altered += altered
    intent.added += dict.fromkeys(item.node for item in altered)


def expect_saver(expected: Expected, found: Surroundings, saved: Sequence[Saved], stem: str = "saver") -> None:
    """Has EXPECTED be the surroundings of the nodes of `say_saver`: the saver and the variables that are listed.

    Args:
        expected: is changed.
        found: after the edit. It tells which variables are trained if nothing else does.
        saved: the variables.
        stem: of the scope.
    """
    graph, was = expected.graph, expected.was
    scope = free_scope(graph.store.names, stem)
    expected.drop(("saver",))
    own = {"filename_tensor_name": Tensor(f"{scope}/file_name:0"), "save_tensor_name": Tensor(f"{scope}/save:0")}
    expected.values.update({("saver", key): name for key, name in own.items()})
    expected.values["saver", "restore_op_name"] = Node(f"{scope}/restore")
    expected.values["saver", "version"] = 2
    if _VARIABLES in expected.values:
        return
    known = {str(record["variable_name"]): record for place in was for record in variables_in(was, place)}
    trained, unknown = _trained(graph, was)
    listed = {str(record["variable_name"]) for record in variables_in(found, _TRAINED)}
    trained |= {item.original for item in saved if item.original in unknown and f"{item.name}:0" in listed}
    records: list[dict[str, Value]] = []
    for number, item in enumerate(saved):
        op = graph[item.original].op
        is_resource = op not in VARIABLES
        record: dict[str, Value] = {**known.get(f"{item.original}:0", {"message": "VariableDef"})}
        record["variable_name"] = f"{item.name}:0"
        record["initializer_name"] = f"{scope}/Assign_{number}"
        record["initial_value_name"] = f"{scope}/RestoreV2:{number}"
        record["snapshot_name"] = f"{scope}/Read_{number}:0" if is_resource else f"{item.name}:0"
        marks = {"is_resource": is_resource, "trainable": item.original in trained or not is_variable(op)}
        records.append({key: value for key, value in record.items() if key not in marks}
                       | {key: value for key, value in marks.items() if value})  # fmt: skip
    expected.values[_VARIABLES] = tuple(records)
    if any("trainable" in record for record in records):
        expected.values[_TRAINED] = tuple(record for record in records if "trainable" in record)


_VARIABLES, _TRAINED = ("collection", "variables"), ("collection", "trainable_variables")


def _trained(graph: Graph, was: Surroundings) -> tuple[set[str], set[str]]:
    """Returns the variables of GRAPH that are trained, and those of which the surroundings WAS do not tell.

    An object tells of the variable that has its value and its name. Keras has several objects for one variable.
    """
    serving = graph.serving or Serving()
    keys = {name: key for name, key in (serving.before or serving).keys.items() if name in graph}
    objects = {place[1] for place, value in was.items() if place[0] == "object" and place[-1] == "trainable" and value}
    told = {(was.get(("object", path, "name")), was.get(("object", path, "checkpoint key"))) for path in objects}
    trained = {str(record["variable_name"]).partition(":")[0] for record in variables_in(was, _TRAINED)}
    trained |= {name for name, key in keys.items() if (graph[name].text_attr("shared_name"), key.tensor) in told}
    of_objects = {key for _, key in told}
    unknown = {name for name, key in keys.items() if key.tensor in of_objects or None in of_objects}
    return trained, unknown - trained


def variables_in(around: Surroundings, place: Place) -> list[dict[str, Value]]:
    """Returns the VariableDefs in the collection at PLACE; none if PLACE is not a collection."""
    members = around.get(place)
    records = members if isinstance(members, tuple) and place[0] == "collection" else ()
    return [record for record in records if isinstance(record, dict) and record.get("message") == "VariableDef"]


def _dtype(graph: Graph, name: str) -> int:
    dtype = graph[name].plain_attr("dtype")
    return dtype if isinstance(dtype, int) else 0


def restoring_rows(graph: Graph, serving: Serving) -> set[int]:
    """What works on the files of GRAPH's checkpoint, functions included."""
    table = graph.store.table
    feeds = serving.restoring.feeds if serving.restoring is not None else {}
    return with_servants(table, closure([table.rows[parse_tensor(tensor).node] for tensor in feeds], table.users))


def say_gone(before: Graph, rows: Collection[int], intent: Intent) -> None:
    """Has INTENT say that ROWS go, and the functions that nobody but them came to call."""
    table, library = before.store.table, before.functions
    intent.removed += [table.names[row] for row in sorted(rows)]
    callers = {node.name: named_by_node(node) for node in calling_nodes(before)}
    going = set(intent.removed)
    lost = set(library.reachable((name for node in going for name in callers.get(node, ())), gradients=True))
    left = [name for node, names in callers.items() if node not in going for name in names]
    others = [function.signature.name for function in library if function.signature.name not in lost]
    kept = set(library.reachable([*left, *others], gradients=True))
    intent.functions = FunctionChanges(added=intent.functions.added, removed=sorted(lost - kept))
