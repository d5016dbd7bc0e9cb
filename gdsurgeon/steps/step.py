"""What a step is: declared once, at its function, for the parser, the help and the pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from gdsurgeon.errors import InputError, UsageError, printable, quoted
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.ops.dtypes import DType
from gdsurgeon.steps.kinds import Kind
from gdsurgeon.steps.parse import Call, Literal
from gdsurgeon.steps.value import Value
from gdsurgeon.text import counted, near_miss


class Required:
    """The default of a parameter that has none."""


REQUIRED = Required()

FRONT, BEHIND = "in front of", "behind"
EITHER = (FRONT, BEHIND)
"""Where a step makes sense: in front of a model, behind it, or both."""


class Parameter(NamedTuple):
    """A parameter of a step. A default of None stands for one that the help tells."""

    name: str
    kind: Kind
    help: str
    default: object = REQUIRED

    @property
    def is_required(self) -> bool:
        """Whether a call has to give it."""
        return self.default is REQUIRED

    @property
    def argument(self) -> str:
        """What the step's function calls it."""
        return self.name.replace("-", "_")


class Raw(NamedTuple):
    """What a placeholder takes."""

    dtype: DType
    shape: Shape


Arguments: TypeAlias = Mapping[str, object]
"""What a step was called with, by the names of its function's arguments."""


def _same(raw: Raw, arguments: Arguments) -> Raw:
    return raw


@dataclass(frozen=True)
class Step:
    """A step.

    Attributes:
        name: as it is written.
        summary: one line that says what it does.
        sides: where it makes sense: see `EITHER`.
        parameters: in the order in which they are given by place.
        example: a call of it, or several steps with it.
        explanation: more details: what the result equals, how closely, and what is refused.
        apply: makes the nodes: it is called with the `Builder`, the current `Value` and the arguments by name, and
            returns the new value. It raises `Unfit` if the step cannot be meant for the current value.
        takes: returns the input type and shape for an output type and shape; used if the step is before a model.
        one_by_one: whether it works on one item of a batch alone, and not on the batch as a whole.
    """

    name: str
    summary: str
    sides: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    example: str
    explanation: str
    apply: Callable[..., Value]
    takes: Callable[[Raw, Arguments], Raw] = _same
    one_by_one: bool = False

    @property
    def family(self) -> str:
        """The module that it is in: arithmetic, images, ..."""
        return self.apply.__module__.rpartition(".")[2]

    @property
    def usage(self) -> str:
        """``resize(height, width, [like], [method])``."""
        names = (p.name if p.is_required else f"[{p.name}]" for p in self.parameters)
        return f"{self.name}({', '.join(names)})" if self.parameters else self.name

    def bind(self, call: Call, called: str) -> dict[str, object]:
        """The arguments of CALL, defaults included, by the names of the function's; CALLED is the step in messages.

        Raises:
            UsageError: one is missing, unknown, given twice, or of another kind.
            InputError: a file cannot be read.
        """
        found: dict[str, object] = {}
        places = iter(self.parameters)
        for argument in call.arguments:
            parameter = self._named(argument.key, called) if argument.key else next(places, None)
            if parameter is None:
                raise self._error(f"{called} accepts {counted(len(self.parameters), 'argument')}")
            if parameter.argument in found:
                raise self._error(f"{called}: {parameter.name} is given twice")
            found[parameter.argument] = self._read(parameter, argument.value, called)
        for parameter in self.parameters:
            if parameter.is_required and parameter.argument not in found:
                wanted = f"{parameter.kind.says}: {parameter.help}"
                raise self._error(f"{called}: {parameter.name} is missing, {wanted}")
        return {parameter.argument: parameter.default for parameter in self.parameters} | found

    def _named(self, name: str, called: str) -> Parameter:
        names = [parameter.name for parameter in self.parameters]
        if name not in names:
            told = " That is a separate step." if name in REGISTERED else near_miss(name, names)
            raise self._error(f"{called} has no parameter {quoted(name)}.{told}")
        return self.parameters[names.index(name)]

    def _read(self, parameter: Parameter, literal: Literal, called: str) -> object:
        try:
            return parameter.kind.read(literal)
        except ValueError as error:
            told = f"{called}: {parameter.name} is {spelt(literal)}, but must be {parameter.kind.says}"
            raise self._error(told + (f".{error}" if str(error) else "")) from None
        except InputError as error:
            error.place_at(called)
            raise

    def _error(self, message: str) -> UsageError:
        return UsageError(message, hint=self.usage)


def spelt(literal: object) -> str:
    """A literal as it is written."""
    if isinstance(literal, bool):
        return str(literal).lower()
    if isinstance(literal, str):
        return f"'{printable(literal)}'"
    if isinstance(literal, DType):
        return literal.name
    if isinstance(literal, (list, tuple)):
        return f"[{', '.join(map(spelt, literal))}]"
    return f"{literal}"


REGISTERED: dict[str, Step] = {}
"""The steps of the families that are loaded by now; see `gdsurgeon.steps.book`."""


def step(
    name: str,
    summary: str,
    *parameters: Parameter,
    sides: tuple[str, ...] = EITHER,
    example: str,
    explanation: str = "",
    takes: Callable[[Raw, Arguments], Raw] = _same,
    one_by_one: bool = False,
) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Makes a function a step; see `Step`."""

    def register(apply: Callable[..., Value]) -> Callable[..., Value]:
        text = " ".join(explanation.split())
        REGISTERED[name] = Step(name, summary, sides, parameters, example, text, apply, takes, one_by_one)
        return apply

    return register
