"""The catalog of steps: a step is declared once, at its function, for the parser, the help and the pages.

A step is a function with the decorator `step`. It is called with the `Builder`, the current `Value`, and the arguments
by name; it adds nodes and returns the new value. It raises `Unfit` if the current value is not valid for the step. Its
docstring is the help: a summary, an explanation (the result equals which library, how closely, and which values are
refused), and the parameters. The annotation of a parameter contains its `Kind`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from inspect import Parameter as Argument
from inspect import cleandoc, signature
from typing import Any, NamedTuple, TypeAlias, get_args, get_type_hints

from gdsurgeon.errors import InputError, UsageError, printable, quoted
from gdsurgeon.ops.dtypes import DType
from gdsurgeon.steps.language import Call, FileRead, Kind, Literal, parse
from gdsurgeon.steps.value import InputSpec, Value
from gdsurgeon.text import counted, listed, near_miss, nearest, suggestion

FAMILIES = {
    **{family: family for family in ("images", "resizing", "arithmetic", "layout", "sounds", "texts", "records")},
    **{family: family for family in ("scores", "classes", "boxes")},
    "restoring": "arithmetic", "results": "classes",
}  # fmt: skip
"""The families of steps, in the order of the list of steps, and the modules of this package that define them."""

REQUIRED = Argument.empty
"""The default of a required parameter."""
BEFORE, AFTER = "before", "after"
"""Where a step can be used: before a model, or after a model."""

Arguments: TypeAlias = Mapping[str, object]
"""The arguments of a step, by the names of its function's parameters."""


class Parameter(NamedTuple):
    """A parameter of a step. The help explains a default of None."""

    name: str
    kind: Kind
    help: str
    default: object = REQUIRED

    @property
    def is_required(self) -> bool:
        """Whether a call must contain it."""
        return self.default is REQUIRED

    @property
    def argument(self) -> str:
        """The name in the step's function."""
        return self.name.replace("-", "_")


class Group(NamedTuple):
    """Several parameters that are one parameter of the step's function: an annotation like a `Kind`.

    Attributes:
        parameters: the parameters.
        make: returns the value for the function from the arguments by name.
    """

    parameters: tuple[Parameter, ...]
    make: Callable[..., object]


class Step:
    """A step.

    Args:
        name: the name in the language.
        apply: the function.
        example: a call, or several steps.
        family: one of `FAMILIES`; by default, the module of the function.
        side: where it can be used: `BEFORE`, `AFTER`, or '' for both.
        more: is appended to the explanation in the docstring.
        takes: returns the input dtype and shape for an output dtype and shape; used if the step is before a model.
        one_by_one: whether it works on a single item of a batch, and not on a batch.

    Attributes:
        summary: one line with the purpose.
        explanation: further details.
        parameters: in the order of positional arguments.
        sides: where it can be used.
        groups: by the name of a parameter of the function, the parameters that it stands for.
    """

    def __init__(
        self,
        name: str,
        apply: Callable[..., Value],
        *,
        example: str,
        family: str = "",
        side: str = "",
        more: str = "",
        takes: Callable[[InputSpec, Arguments], InputSpec] = lambda output, _: output,
        one_by_one: bool = False,
    ) -> None:
        self.name, self.apply, self.example = name, apply, example
        self.family = family or apply.__module__.rpartition(".")[2]
        self.sides = (side,) if side else (BEFORE, AFTER)
        self.takes, self.one_by_one = takes, one_by_one
        text, _, described = cleandoc(apply.__doc__ or "").partition("\n\nArgs:\n")
        self.summary, _, explanation = text.partition("\n\n")
        self.explanation = " ".join([*explanation.split(), *more.split()])
        helps: dict[str, str] = {}
        for line in described.splitlines():
            key, _, words = line.strip().partition(": ")
            if line.startswith("     "):  # the line continues the previous one
                helps[next(reversed(helps))] += f" {line.strip()}"
            else:
                helps[key] = words
        hints = get_type_hints(apply, include_extras=True)
        self.parameters: list[Parameter] = []
        self.groups: dict[str, Group] = {}
        for key, argument in list(signature(apply).parameters.items())[2:]:
            hint = hints[key]  # a `Kind` or `Group`, which may be optional
            (kind,) = getattr(hint, "__metadata__", None) or get_args(hint)[0].__metadata__
            if isinstance(kind, Group):
                self.groups[key] = kind
                self.parameters += kind.parameters
            else:
                self.parameters.append(Parameter(key.replace("_", "-"), kind, helps.get(key, ""), argument.default))

    @property
    def usage(self) -> str:
        """``resize(height, width, [like], [method])``."""
        names = (p.name if p.is_required else f"[{p.name}]" for p in self.parameters)
        return f"{self.name}({', '.join(names)})" if self.parameters else self.name

    def call(self, build: object, value: Value, arguments: Arguments) -> Value:
        """Calls the function. Raises Unfit."""
        given = dict(arguments)
        for name, group in self.groups.items():
            given[name] = group.make(**{each.argument: given.pop(each.argument) for each in group.parameters})
        return self.apply(build, value, **given)

    def bind(self, call: Call, called: str) -> dict[str, object]:
        """Returns the arguments of a call, including defaults, by the names of the function's parameters.

        Args:
            call: the call.
            called: the name of the step in messages.

        Raises:
            UsageError: an argument is missing, unknown, given twice, or of a wrong kind.
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
                missing = f"{parameter.kind.says}: {parameter.help}"
                raise self._error(f"{called}: {parameter.name} is missing, {missing}")
        return {parameter.argument: parameter.default for parameter in self.parameters} | found

    def _named(self, name: str, called: str) -> Parameter:
        names = [parameter.name for parameter in self.parameters]
        if name not in names:
            hint = " That is a separate step." if name in REGISTERED else near_miss(name, names)
            raise self._error(f"{called} has no parameter {quoted(name)}.{hint}")
        return self.parameters[names.index(name)]

    def _read(self, parameter: Parameter, literal: Literal, called: str) -> object:
        try:
            return parameter.kind.read(literal)
        except ValueError as error:
            message = f"{called}: {parameter.name} is {spelt(literal)}, but must be {parameter.kind.says}"
            raise self._error(message + (f".{error}" if str(error) else "")) from None
        except InputError as error:
            error.place_at(called)
            raise

    def _error(self, message: str) -> UsageError:
        return UsageError(message, hint=self.usage)


def spelt(literal: object) -> str:
    """Returns a literal in the language of steps."""
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
"""The steps of the families that are loaded; see `catalog`."""


def step(name: str, **declared: Any) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Makes a function a step; `declared` are arguments of `Step`."""

    def register(apply: Callable[..., Value]) -> Callable[..., Value]:
        REGISTERED[name] = Step(name, apply, **declared)
        return apply

    return register


class StepCall(NamedTuple):
    """A step with its arguments."""

    step: Step
    arguments: dict[str, object]

    @property
    def name(self) -> str:
        """The name of the step."""
        return self.step.name


@cache
def catalog() -> dict[str, Step]:
    """Returns all steps by name, family by family."""
    for module in FAMILIES.values():
        import_module(f"gdsurgeon.steps.{module}")
    order = list(FAMILIES)
    steps = [step for step in REGISTERED.values() if step.family in order]
    return {step.name: step for step in sorted(steps, key=lambda step: order.index(step.family))}


def find(name: str) -> Step:
    """Returns the step `name`.

    Raises UsageError: unknown; the message suggests a step, or names steps with such a parameter.
    """
    steps = catalog()
    if name not in steps:
        having = [step.name for step in steps.values() if name in (parameter.name for parameter in step.parameters)]
        near = nearest(name, steps) if not having else None
        hint = f" It is a parameter of {listed(having)}." if having else suggestion(near)
        facts = {"step": name, "near": near, "parameter_of": having}
        raise UsageError(f"{quoted(name)} is not a step.{hint}", code="no-such-step", advice="list-steps", facts=facts)
    return steps[name]


Steps: TypeAlias = str | Sequence[str | StepCall]
"""Steps as a text, or as several texts; some may be read already."""


def read_steps(steps: Steps) -> list[StepCall]:
    """Returns the steps with their arguments.

    Raises:
        UsageError: a syntax error, an unknown step, or an argument that is missing, unknown, or of a wrong kind.
        InputError: a file that is an argument cannot be read.
    """
    calls: list[Call | StepCall] = []
    for part in [steps] if isinstance(steps, str) else steps:
        calls += parse(part) if isinstance(part, str) else [part]
    if not calls:
        raise UsageError("no steps are given", code="missing-argument")
    names = [call.name for call in calls]
    return [
        call if isinstance(call, StepCall) else StepCall(step, step.bind(call, called(names, place)))
        for place, (step, call) in enumerate(zip(map(find, names), calls, strict=True))
    ]


def called(names: Sequence[str], place: int) -> str:
    """Returns the name of a step in messages: with its position if several steps have the same name."""
    return names[place] if names.count(names[place]) == 1 else f"{names[place]} (step {place + 1})"


def files_read(steps: Sequence[StepCall]) -> list[str]:
    """Returns the paths of the files that the steps have read."""
    return [value.path for _, arguments in steps for value in arguments.values() if isinstance(value, FileRead)]
