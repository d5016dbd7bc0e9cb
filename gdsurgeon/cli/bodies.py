"""--in FUNCTION: a command works on the body of a library function instead of the graph."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from gdsurgeon.cli.command import selection_option
from gdsurgeon.cli.complete import functions
from gdsurgeon.errors import UsageError

if TYPE_CHECKING:
    from gdsurgeon.container.load import Model
    from gdsurgeon.container.wanted import Wanted
    from gdsurgeon.operation.edit import Request

F = TypeVar("F", bound=Callable[..., object])

_bodies = selection_option("--in", "functions", shell_complete=functions)
_body = selection_option("--in", "functions", shell_complete=functions, help="Look into the body of this function.")


def in_bodies(command: F) -> F:
    """For an edit: the functions named by --in become part of its `request`."""

    @functools.wraps(command)
    def wrapper(request: Request, functions: tuple[str, ...], **options: Any) -> object:
        request.functions = functions
        return command(request=request, **options)

    return _bodies(wrapper)  # type: ignore[return-value]


def in_body(command: F) -> F:
    """For a query: the one function named by --in arrives as `function`; see `opened`."""

    @functools.wraps(command)
    def wrapper(functions: tuple[str, ...], **options: Any) -> object:
        if len(functions) > 1:
            raise UsageError("give --in once", code="given-twice", facts={"option": "--in"})
        return command(function=functions[0] if functions else None, **options)

    return _body(wrapper)  # type: ignore[return-value]


def opened(model: str, function: str | None, wanted: Wanted) -> Model:
    """The model at MODEL, or the body of its library function FUNCTION.

    Raises:
        InputError: the model cannot be read.
        EditError: the function does not exist, or its body cannot become a graph.
    """
    from gdsurgeon.container.load import Model, open_model

    found = open_model(model, wanted)
    if function is None:
        return found
    from gdsurgeon.graph.body import Body

    return Model(Body(found.graph, function).graph, None)
