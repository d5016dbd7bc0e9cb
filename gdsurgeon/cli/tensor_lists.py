"""--inputs and --outputs: lists of tensors, each with the name that it gets in the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gdsurgeon.cli.complete import listed, nodes
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import names_in
from gdsurgeon.errors import EditError, UsageError, quoted

if TYPE_CHECKING:
    from gdsurgeon.edits.change_signatures import Named
    from gdsurgeon.edits.claims import EditResult
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.operation.sequence import Edit, Instruction

F = TypeVar("F", bound=Callable[..., object])


class ListedTensor(NamedTuple):
    """A `tensor` of a list, and its `name` in the result; '' keeps its name."""

    tensor: str
    name: str = ""


def tensor_lists(*, inputs: str = "", outputs: str = "") -> Callable[[F], F]:
    """The options --inputs and --outputs with these help texts; without a help text there is no such option."""

    def wrapper(command: F) -> F:
        for name, text in (("outputs", outputs), ("inputs", inputs)):
            if text:
                command = known_option(f"--{name}", shell_complete=listed(nodes), help=text)(command)
        return command

    return wrapper


def tensors_in(texts: tuple[str, ...], option: str) -> list[ListedTensor]:
    """The tensors in the lists that OPTION was given.

    Raises:
        UsageError: a list is empty, or a name or a tensor is missing at a `=`.
    """
    out: list[ListedTensor] = []
    for text in names_in(texts, option):
        name, equals, tensor = text.rpartition("=")
        if equals and not (name and tensor):
            facts = {"option": option, "value": text, "expected": "[NAME=]TENSOR"}
            raise UsageError(f"{option} {quoted(text)} is not [NAME=]TENSOR", code="not-a-pair", facts=facts)
        out.append(ListedTensor(tensor, name))
    return out


def signature_entries(texts: tuple[str, ...], option: str) -> list[Named]:
    """The entries of signatures in the lists that OPTION was given; NAME may be KEY:NAME.

    Raises:
        UsageError: see `tensors_in`.
    """
    from gdsurgeon.edits.change_signatures import DEFAULT_KEY, Named

    out: list[Named] = []
    for tensor, name in tensors_in(texts, option):
        key, colon, rest = name.partition(":")
        called = (rest if colon else name) or tensor.removesuffix(":0")
        out.append(Named(called, tensor, key if colon else DEFAULT_KEY))
    return out


def unnamed(tensors: Sequence[ListedTensor], option: str) -> list[str]:
    """The names of TENSORS in MODEL, for a command that writes no model.

    Raises:
        UsageError: one of them gets a name.
    """
    for tensor, name in tensors:
        if name:
            raise UsageError(
                f"{option} {quoted(f'{name}={tensor}')}: this command does not accept NAME=; write {quoted(tensor)}",
                code="bad-value",
                facts={"option": option, "value": f"{name}={tensor}", "near": tensor},
            )
    return [tensor for tensor, _ in tensors]


def named_edit(request: Request, edit: Edit, tensors: Sequence[ListedTensor]) -> list[Instruction]:
    """Returns EDIT as an instruction of REQUEST, and a second one that renames the TENSORS that have a new name."""
    from gdsurgeon.edits.claims import SameGiven
    from gdsurgeon.edits.rename import rename
    from gdsurgeon.operation.sequence import Instruction

    if not any(name for _, name in tensors):
        return [request.instruction(edit)]
    placeholders: dict[str, str] = {}

    def first(graph: Graph) -> EditResult:
        result = edit(graph)
        for claim in result.claims:
            if isinstance(claim, SameGiven):
                placeholders.update(claim.given)
        return result

    def second(graph: Graph) -> EditResult:
        pairs = [(placeholders.get(tensor.removesuffix(":0"), tensor.removesuffix(":0")), name)
                 for tensor, name in tensors if name]  # fmt: skip
        for tensor, name in pairs:
            if ":" in tensor:
                raise EditError(
                    f"{quoted(tensor)} cannot be renamed, because its node has several outputs: "
                    f"insert an Identity named {quoted(name)} first",
                    code="bad-tensor-name",
                    facts={"tensor": tensor, "name": name},
                )
        return rename(graph, pairs)

    return [request.instruction(first), Instruction(second)]
