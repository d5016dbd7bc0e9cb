"""The expected surroundings of a model: those before the edit with the new names, and the requested changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from gdsurgeon.compare.intent import Intent
from gdsurgeon.compare.surroundings import Difference, differences, respelt
from gdsurgeon.container.meta_graph import MAIN_OP
from gdsurgeon.container.objects import SIGNATURE_MAP
from gdsurgeon.container.surroundings import Node, Place, Surroundings, Tensor, Value
from gdsurgeon.graph.attrs import shape_value, type_value, types_value
from gdsurgeon.graph.constants import tensor_value
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import free_scope
from gdsurgeon.graph.serving import INIT, Key, Serving
from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.ops.kinds import IDENTITY, PLACEHOLDERS, RESTORES, SAVES, VARIABLE_READS, VARIABLES, is_step, is_variable
from gdsurgeon.specification.nodes import Rows, assignments, calling_nodes, grown, lost_functions, named_by_node
from gdsurgeon.specification.specify import Asked, specification_of


class Expected(NamedTuple):
    """The expected surroundings.

    Attributes:
        graph: before the edit, as it is in its file.
        now: after the edit, as it is written.
        was: the surroundings before the edit, as they are in the file.
        values: by place; a specification changes them.
        free: places that may have any value, and all places below them: other checks are about these.
    """

    graph: Graph
    now: Graph
    was: Surroundings
    values: Surroundings
    free: set[Place]

    def drop(self, *begins: Place) -> None:
        """Removes the places that begin with one of BEGINS."""
        for place in [p for p in self.values if any(p[: len(begin)] == begin for begin in begins)]:
            del self.values[place]

    def move(self, old: Place, new: Place) -> None:
        """Replaces the beginning `old` of places by `new`."""
        for place in [place for place in self.values if place[: len(old)] == old]:
            moved = (*new, *place[len(old) :])
            self.values[moved] = self.values.pop(place)


class Around(NamedTuple):
    """How the surroundings are written, independent of the edit.

    Attributes:
        touched: keys of signatures that are computed by other nodes: their functions, and the dtypes and shapes of
            their tensors, may be others.
        as_v1: whether the objects of TensorFlow 2 are left out.
    """

    touched: Collection[str] = ()
    as_v1: bool = False


def unchanged(before: Surroundings, graph: Graph, now: Graph, intent: Intent) -> Expected:
    """Returns the surroundings `before` the edit with the names of `intent`; `graph` and `now` as in `Expected`."""
    values = respelt(before, names_after(graph, intent), lambda name: intent.renamed_functions.get(name, name))
    expected = Expected(graph, now, before, values, set())
    if not before.get(("tags",)) and any(place[0] == "saver" and place not in values for place in before):
        expected.drop(("saver",))  # of a MetaGraph: the saver needs all its nodes
    return expected


def wrong_surroundings(
    expected: Expected, found: Surroundings, asked: Asked | None, how: Around
) -> Iterator[Difference | str]:
    """Yields the differences between the surroundings `found` after an edit and the expected ones.

    Args:
        expected: those before the edit, see `unchanged`; they become those that were asked for.
        found: after the edit.
        asked: the request.
        how: else they are written.
    """
    around = specification_of(f"around_{asked.edit}") if asked is not None else None
    if around is not None and asked is not None:
        yield from around(expected, found, **asked.arguments) or ()
    if how.as_v1:
        expected.drop(("object",), ("function",))
        expected.move(("initialiser", INIT), ("initialiser", MAIN_OP))
    _settle_signatures(expected, how.touched)
    there = respelt(found, lambda text: text if text.removeprefix("^").partition(":")[0] in expected.now else None)
    yield from differences(expected.values, there, expected.free)


def names_after(graph: Graph, intent: Intent) -> Callable[[str], str | None]:
    """Returns a function that returns the new name of a node, a tensor or ``^node``; None if it is removed."""
    added, removed = frozenset(intent.added), frozenset(intent.removed)

    def after(text: str) -> str | None:
        control = "^" if text[:1] == "^" else ""
        node, colon, index = text[len(control) :].partition(":")
        if graph.find(node) is None:
            return None
        if node in added and node not in intent.renamed:
            return text  # a new node has the name and replaces the node
        if node in removed:
            return None
        now = node if node in added else intent.renamed.get(node, node)
        return f"{control}{now}{colon}{index}"

    return after


def _settle_signatures(expected: Expected, touched: Collection[str]) -> None:
    """Frees the dtypes and shapes of the signatures `touched`; the objects must have the present signatures."""
    values, free = expected.values, expected.free
    keys = {place[1] for place in values if place[0] == "signature"}
    for place in [place for place in values if place[0] == "signature" and place[1] in touched]:
        if place[-1] in ("dtype", "shape") and len(place) == 5:
            free.add(place)
    free.update(("signature", key, "default") for key in touched)
    maps = [place[1] for place, value in values.items() if place[0] == "object" and value == SIGNATURE_MAP]
    for path in maps:
        known = {place[2].removeprefix("child ") for place in values
                 if place[:2] == ("object", path) and place[2].startswith("child ")}  # fmt: skip
        for key in known - keys:
            expected.drop(("object", path, f"child {key}"), ("object", f"{path}.{key}"))
        for key in {*touched} | (keys - known if touched else set()):
            places = ("object", path, f"child {key}"), ("object", f"{path}.{key}")
            expected.drop(*places)
            free.update(places)


# -- savers ---------------------------------------------------------------------------------------------------

_FILE_NAME_OPS = PLACEHOLDERS | {"Const", "Pack", "ShardedFilename", "ShardedFilespec", "StringJoin"}
_FORWARDING = IDENTITY | {"Reshape", "Cast"}


def file_serving(graph: Graph) -> Serving:
    """Returns the description of the model in the file of `graph`."""
    serving = graph.serving or Serving()
    return serving.before or serving


# -- the nodes of savers, loaders and optimizers -----------------------------------------------------------


def with_own_inputs(rows: Rows, starts: Iterable[int], among: Collection[int] | None = None) -> set[int]:
    """Returns `starts`, and the rows that only they use: of `among`, or (None) the rows that compute file names."""

    def may_join(row: int) -> bool:
        op = rows.op(row)
        return op in _FILE_NAME_OPS if among is None else row in among and op not in PLACEHOLDERS

    return grown(set(starts), rows.producers, rows.users, may_join)


def saver_rows(rows: Rows) -> set[int]:
    """Returns all nodes that save and restore, including functions that restore."""
    saves = rows.of_op(SAVES)
    files = closure([row for save in saves for row in rows.reads(save)[:1]], rows.reads)
    restores = [
        row
        for row in rows.of_op(RESTORES)
        for file in rows.reads(row)[:1]
        if rows.op(file) in PLACEHOLDERS or (file in files and rows.op(file) in _FILE_NAME_OPS)
    ]
    found = with_own_inputs(rows, closure([*saves, *restores], rows.users))
    return found | (restoring_rows(rows, rows.graph.serving) if rows.graph.serving is not None else set())


def restoring_rows(rows: Rows, serving: Serving) -> set[int]:
    """Returns the nodes that depend on the path of the checkpoint, including calls of functions."""
    feeds = serving.restoring.feeds if serving.restoring is not None else {}
    return with_own_inputs(rows, closure(map(rows.row, feeds), rows.users))


def loader_rows(rows: Rows) -> set[int]:
    """Returns the nodes that a loader of the model feeds and runs, and the members of groups among them."""
    runs = rows.graph.serving.runs if rows.graph.serving is not None else []

    def grouped(row: int) -> Iterator[int]:
        if rows.op(row) == "NoOp":
            yield from (other for other in rows.controls(row) if rows.op(other) == "NoOp")

    fed = {rows.row(tensor) for run in runs for tensor in run.feeds}
    return fed | closure([rows.row(name) for run in runs for name in run.targets], grouped)


def slot_rows(rows: Rows, among: Iterable[int]) -> set[int]:
    """Returns the variables `among` the rows that belong to optimizers."""
    trained, others = set[int](), set[int]()
    for step in rows.of_op(set(filter(is_step, rows.table.op_names))):
        first, *more = [_path(rows, row)[-1] for row in rows.reads(step)] or [-1]
        trained.add(first)
        others.update(more)

    def is_slot(row: int) -> bool:
        name = rows.names[row]
        near = [other.name for other in rows.graph[name].colocated if is_variable(other.op)]
        return row in others or any(name.startswith(other + "/") for other in near)

    return {row for row in among if is_variable(rows.op(row)) and row not in trained and is_slot(row)}


def useless_rows(rows: Rows, inside: set[int], variables: set[int], fixed: set[int]) -> set[int]:
    """Returns the rows `inside` that are not needed without `variables`. Rows that depend on `fixed` rows stay."""
    first = set(assignments(rows.table, variables))
    below = closure(variables, lambda row: {*rows.users(row)} & inside - first - fixed)
    return with_own_inputs(rows, below | (first & inside), inside)


class SavedPlace(NamedTuple):
    """A variable in an op of a saver: the index of its tensor there, and the nodes between the op and the variable."""

    op: int
    at: int
    path: tuple[int, ...]


def saved_places(rows: Rows, variables: Collection[int], savers: Collection[int]) -> list[SavedPlace]:
    """Returns the places of `variables` in the ops of `savers`, in order."""
    out = []
    for op in set(rows.of_op(SAVES)) & {*savers}:
        for at, row in enumerate(rows.reads(op)[SAVES[rows.op(op)] :]):
            *path, variable = _path(rows, row)
            if variable in variables:
                out.append(SavedPlace(op, at, tuple(path)))
    for assign in {*assignments(rows.table, variables)} & {*savers}:
        path, (row, port) = [assign], rows.edges(assign)[1]
        while rows.op(row) in _FORWARDING:
            path.append(row)
            row, port = rows.edges(row)[0]
        if rows.op(row) == "RestoreV2":
            out.append(SavedPlace(row, port, tuple(path)))
    return sorted(out)


def _path(rows: Rows, row: int) -> list[int]:
    """Returns `row`, and the rows whose values it forwards, to the variable if there is one."""
    path = [row]
    while rows.op(path[-1]) in VARIABLE_READS and (above := rows.reads(path[-1])):
        path.append(above[0])
    return path


# -- a new saver -------------------------------------------------------------------------------------------


class Saved(NamedTuple):
    """A variable of a saver, the node of the file that it is, copies or replaces, and the key of its value."""

    name: str
    original: str
    key: Key


def restored_variables(rows: Rows, among: Iterable[int]) -> list[Saved]:
    """Returns the variables `among` the rows that the checkpoint has, each once."""
    keys = file_serving(rows.graph).keys
    variables: dict[tuple[object, ...], Saved] = {}
    for name in (rows.names[row] for row in sorted(among) if is_variable(rows.op(row))):
        if name in keys:
            node = rows.graph[name]
            identity = node.text_attr("container"), node.text_attr("shared_name") or name, keys[name]
            variables.setdefault(identity, Saved(name, name, keys[name]))
    return list(variables.values())


def add_saver(before: Graph, saved: Sequence[Saved], intent: Intent, stem: str = "saver") -> None:
    """Declares the nodes that restore and save the variables, in the scope `stem` (made unique)."""
    scope = free_scope(before.store.names, stem)
    path, read, write = f"{scope}/file_name", f"{scope}/RestoreV2", f"{scope}/SaveV2"
    numbers = [before[item.original].plain_attr("dtype") for item in saved]
    kinds = [number if isinstance(number, int) else 0 for number in numbers]
    string, dtypes = type_value(STRING), types_value(kinds)
    intent.add(path, "Placeholder", attrs={"dtype": string, "shape": shape_value(())})
    for name, texts in (("names", [item.key.tensor for item in saved]), ("slices", [item.key.slice for item in saved])):
        value = tensor_value(STRING, (len(texts),), [text.encode() for text in texts])
        intent.add(f"{scope}/{name}", "Const", attrs={"dtype": string, "value": value})
    where = [path, f"{scope}/names", f"{scope}/slices"]
    intent.add(read, "RestoreV2", where, attrs={"dtypes": dtypes})
    values = []
    for number, (item, dtype) in enumerate(zip(saved, kinds, strict=True)):
        is_resource = before[item.original].op not in VARIABLES  # also a constant that becomes a variable
        kind = type_value(dtype)
        op, key = ("AssignVariableOp", "dtype") if is_resource else ("Assign", "T")
        restored = f"{read}:{number}" if number else read
        intent.add(f"{scope}/Assign_{number}", op, [item.name, restored], attrs={key: kind})
        values.append(f"{scope}/Read_{number}" if is_resource else item.name)
        if is_resource:
            intent.add(values[-1], "ReadVariableOp", [item.name], attrs={"dtype": kind})
    assigned = [f"{scope}/Assign_{number}" for number in range(len(saved))]
    intent.add(f"{scope}/restore", "NoOp", controls=assigned, attrs={})
    intent.add(write, "SaveV2", [*where, *values], attrs={"dtypes": dtypes})
    intent.add(f"{scope}/save", "Identity", [path], [write], attrs={"T": string})


def expect_saver(expected: Expected, found: Surroundings, saved: Sequence[Saved], stem: str = "saver") -> None:
    """Adds the saver of `add_saver` to the expected surroundings, and the list of its variables.

    `found` are the surroundings after the edit. They determine which variables are trained if no other record does.
    """
    graph, was, values = expected.graph, expected.was, expected.values
    scope = free_scope(graph.store.names, stem)
    expected.drop(("saver",))
    values["saver", "filename_tensor_name"] = Tensor(f"{scope}/file_name:0")
    values["saver", "save_tensor_name"] = Tensor(f"{scope}/save:0")
    values["saver", "restore_op_name"] = Node(f"{scope}/restore")
    values["saver", "version"] = 2
    if _VARIABLES in values:
        return
    known = {str(record["variable_name"]): record for place in was for record in _variables_in(was, place)}
    trained, unknown = _trained(graph, was)
    listed = {str(record["variable_name"]) for record in _variables_in(found, _TRAINED)}
    trained |= {item.original for item in saved if item.original in unknown and f"{item.name}:0" in listed}
    records: list[dict[str, Value]] = []
    for number, item in enumerate(saved):
        op = graph[item.original].op
        is_resource = op not in VARIABLES
        marks = {"is_resource": is_resource, "trainable": item.original in trained or not is_variable(op)}
        record: dict[str, Value] = {**known.get(f"{item.original}:0", {"message": "VariableDef"})}
        record |= {
            "variable_name": f"{item.name}:0",
            "initializer_name": f"{scope}/Assign_{number}",
            "initial_value_name": f"{scope}/RestoreV2:{number}",
            "snapshot_name": f"{scope}/Read_{number}:0" if is_resource else f"{item.name}:0",
            **marks,
        }
        records.append({key: value for key, value in record.items() if key not in marks or value})
    values[_VARIABLES] = tuple(records)
    if any("trainable" in record for record in records):
        values[_TRAINED] = tuple(record for record in records if "trainable" in record)


_VARIABLES, _TRAINED = ("collection", "variables"), ("collection", "trainable_variables")


def _trained(graph: Graph, was: Surroundings) -> tuple[set[str], set[str]]:
    """Returns the trained variables of `graph`, and those for which the surroundings `was` do not tell.

    An object tells this for the variable that has its value and its name. Keras has several objects for one variable.
    """
    keys = {name: key for name, key in file_serving(graph).keys.items() if name in graph}
    objects = {place[1] for place, value in was.items() if place[0] == "object" and place[-1] == "trainable" and value}
    known = {(was.get(("object", path, "name")), was.get(("object", path, "checkpoint key"))) for path in objects}
    trained = {str(record["variable_name"]).partition(":")[0] for record in _variables_in(was, _TRAINED)}
    trained |= {name for name, key in keys.items() if (graph[name].text_attr("shared_name"), key.tensor) in known}
    of_objects = {key for _, key in known}
    unknown = {name for name, key in keys.items() if key.tensor in of_objects or None in of_objects}
    return trained, unknown - trained


def _variables_in(around: Surroundings, place: Place) -> list[dict[str, Value]]:
    """Returns the VariableDefs in the collection at `place`; [] if it is not a collection."""
    members = around.get(place)
    records = members if isinstance(members, tuple) and place[0] == "collection" else ()
    return [record for record in records if isinstance(record, dict) and record.get("message") == "VariableDef"]


def remove_rows(before: Graph, rows: Collection[int], intent: Intent) -> None:
    """Declares that `rows` are removed, and the functions that only they call, directly or indirectly."""
    names = before.store.table.names
    intent.removed += [names[row] for row in sorted(rows)]
    removed, callers = set(intent.removed), list(calling_nodes(before))
    called = (name for node in callers if node.name in removed for name in named_by_node(node))
    left = (node for node in callers if node.name not in removed)
    intent.functions.removed = lost_functions(before, called, left)
