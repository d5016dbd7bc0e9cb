"""Completions of arguments and option values."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from gdsurgeon.graph.graph import Graph

    Completions: TypeAlias = list[str]
    Completer: TypeAlias = Callable[[click.Context, click.Parameter, str], list[Any]]

MOST_NODES = 40_000
"""Maximum nodes of a graph that is read. With `LARGEST_TEXT`, it keeps the time of an answer under about 150 ms."""

LARGEST_TEXT = 1 << 18
"""Maximum bytes of a text graph that is read."""

MOST_LISTED = 100
"""Maximum number of names in an answer; if there are more, their scopes are listed instead."""


def files(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns paths, which the shell completes."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def steps(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Completions:
    """Returns names of steps, after the steps that are already typed."""
    from gdsurgeon.steps.catalog import catalog

    before, bar, name = incomplete.rpartition("|")
    written = before + bar + name[: len(name) - len(name.lstrip())]
    return [written + step for step in catalog() if step.startswith(name.strip())]


def of_model(names: Callable[[Graph, str], Iterable[str]]) -> Completer:
    """Returns a completer with the `names` in the graph of MODEL, or of the function of --in, that fit a text.

    It completes nothing if MODEL is too large to read it quickly.
    """

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> Completions:
        graph = _model(context, parameter)
        return [] if graph is None else list(names(graph, incomplete))

    return complete


@of_model
def nodes(graph: Graph, incomplete: str) -> Iterable[str]:
    """Returns names of nodes of MODEL, which also name their first outputs."""
    return _in_scopes(graph.names(), incomplete)


def _of_ops(*prefixes: str) -> Completer:
    """Returns a completer with the names of nodes whose ops begin with one of `prefixes`."""

    def names(graph: Graph, incomplete: str) -> Iterable[str]:
        table = graph.store.table
        wanted = [op.startswith(prefixes) for op in table.op_names]
        return _in_scopes((name for name, op in zip(table.names, table.ops, strict=True) if wanted[op]), incomplete)

    return of_model(names)


placeholders = _of_ops("Placeholder")
inputs_and_constants = _of_ops("Placeholder", "Const")


@of_model
def ops(graph: Graph, incomplete: str) -> Iterable[str]:
    """Returns op types of MODEL."""
    from gdsurgeon.analysis.queries.usage import op_counts

    return (op for op in sorted(op_counts(graph)) if op.startswith(incomplete))


@of_model
def scopes(graph: Graph, incomplete: str) -> Iterable[str]:
    """Returns name scopes of MODEL, outer scopes first."""
    return sorted({name[: name.index("/", len(incomplete))] for name in graph.names() if _has_more(name, incomplete)})


@of_model
def functions(graph: Graph, incomplete: str) -> Iterable[str]:
    """Returns names of the functions in MODEL's library."""
    return sorted(name for function in graph.functions if (name := function.signature.name).startswith(incomplete))


def checkpoint_keys(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Completions:
    """Returns keys of tensors in the checkpoint of the command line."""
    path = _named(context)
    if path is None:
        return []
    from gdsurgeon.container.checkpoint.open import open_checkpoint

    with open_checkpoint(path) as checkpoint:
        return _in_scopes(checkpoint.keys, incomplete)


def listed(completer: Completer) -> Completer:
    """Returns a completer for a comma-separated list of the items of COMPLETER."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> Completions:
        before, comma, last = incomplete.rpartition(",")
        return [before + comma + text for text in completer(context, parameter, last)]

    return complete


def paired(old: Completer, new: Completer | None = None) -> Completer:
    """Returns a completer for pairs ``OLD=NEW``, with the items of OLD on the left and those of NEW on the right."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> Completions:
        before, equals, after = incomplete.partition("=")
        if equals:
            return [f"{before}={text}" for text in new(context, parameter, after)] if new is not None else []
        return [text if text.endswith("/") else f"{text}=" for text in old(context, parameter, before)]

    return complete


def control(context: click.Context, parameter: click.Parameter, incomplete: str) -> Completions:
    """Returns control inputs, ``^node``."""
    return ["^" + text for text in nodes(context, parameter, incomplete.removeprefix("^"))]


def _in_scopes(names: Iterable[str], incomplete: str) -> list[str]:
    """Returns the NAMES that begin with INCOMPLETE; if they are too many, their next scopes instead."""
    found = sorted(name for name in names if name.startswith(incomplete))
    if len(found) <= MOST_LISTED:
        return found
    start = len(incomplete)
    folded = (name[: name.index("/", start) + 1] if _has_more(name, incomplete) else name for name in found)
    return list(dict.fromkeys(folded))


def _has_more(name: str, incomplete: str) -> bool:
    """Returns whether NAME begins with INCOMPLETE and continues with a scope."""
    return name.startswith(incomplete) and "/" in name[len(incomplete) :]


def _named(context: click.Context) -> str | None:
    """Returns the path of MODEL on the command line, or None."""
    # After an option without its value, click does not parse the arguments.
    path = context.params.get("model") or next(iter(context.args), None)
    return os.path.expanduser(path) if isinstance(path, str) else None


def _model(context: click.Context, parameter: click.Parameter) -> Graph | None:
    """Returns the graph of MODEL, or of the function of --in; None if MODEL is too large to read it quickly."""
    path = _named(context)
    if path is None or not os.path.isfile(path):
        return None
    from gdsurgeon.graph.load import from_source
    from gdsurgeon.graph.records import Run, scan
    from gdsurgeon.wire.sniff import is_binary_graph
    from gdsurgeon.wire.source import Window, open_source

    source = open_source(path)
    if is_binary_graph(Window(source, 0, source.size)):
        count = 0
        for item in scan(source):
            count += len(item.sizes) if isinstance(item, Run) else 1
            if count > MOST_NODES:
                return None
    elif source.size > LARGEST_TEXT:
        return None
    graph = from_source(source)
    function = next(iter(context.params.get("in_functions") or ()), None)
    if function is None or parameter.name == "in_functions":
        return graph
    from gdsurgeon.graph.body import Body

    return Body(graph, function).graph
