"""The options of the command line: the meaning of each name, the form of its value, and how the value is parsed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeVar

import click

from gdsurgeon.cli.complete import (
    checkpoint_keys,
    control,
    files,
    functions,
    listed,
    nodes,
    ops,
    paired,
    placeholders,
    scopes,
    steps,
)
from gdsurgeon.errors import UsageError, printable, quoted, reason

if TYPE_CHECKING:
    from gdsurgeon.cli.complete import Completer
    from gdsurgeon.edits.change_signatures import Named
    from gdsurgeon.edits.parts import Mapped

F = TypeVar("F", bound=Callable[..., object])
Texts = tuple[str, ...]
Pairs = list[tuple[str, str]]
Parser = Callable[[Any, str], Any]
"""Converts the value of an option, whose name is the second argument. It raises UsageError for a wrong value."""


ConflictingOptions = partial(UsageError, code="conflicting-options")
MissingOption = partial(UsageError, code="missing-option")
"""An option is missing, or the option that a given option needs."""
MissingArgument = partial(UsageError, code="missing-argument")
BadValue = partial(UsageError, code="bad-value")


# -- parsing -----------------------------------------------------------------------------------------------------


def not_a_pair(text: str, option: str, form: str, noun: str = "") -> UsageError:
    """Returns the error for the value `text` of `option`, which is not a `noun` of the form `form`."""
    line = f"{option} {quoted(text)} is not {noun}{form}".lstrip()
    return UsageError(line, code="not-a-pair", option=option, value=text, expected=form)


def names_in(texts: Texts, option: str) -> list[str]:
    """Returns the names in the comma-separated lists `texts` of `option`.

    Raises:
        UsageError: a list is empty, for example because a variable of a script is empty.
    """
    lists = [[name for part in text.split(",") if (name := part.strip())] for text in texts]
    if not all(lists):
        raise BadValue(f"{option} is empty", option=option)
    return [name for names in lists for name in names]


def pair(text: str, option: str = "", *, last: bool = False, form: str = "") -> tuple[str, str]:
    """Splits ``OLD=NEW`` at the first ``=``, or at the `last` one, if OLD may contain some.

    Raises:
        UsageError: there is no ``=``, or OLD is empty.
    """
    old, equals, new = text.rpartition("=") if last else text.partition("=")
    if not equals or not old:
        form = form or (MEANINGS[option].metavar if option in MEANINGS else "OLD=NEW")
        raise not_a_pair(text, option, form, "a pair ")
    return old, new


def pairs_in(texts: Texts, option: str, *, last: bool = False) -> Pairs:
    """Splits each of `texts`, see `pair`."""
    return [pair(text, option, last=last) for text in texts]


def once(pairs: Sequence[tuple[str, str]], option: str = "") -> Pairs:
    """Returns `pairs` of a name and its value from `option`. Raises UsageError if a name has two values."""
    values: dict[str, str] = {}
    for name, value in pairs:
        called = name if name.startswith("/") else name.removesuffix(":0")  # a device, or a tensor
        before = values.setdefault(called, value)
        if before != value:
            line = f"{option} {quoted(called)} has two values: {quoted(before)} and {quoted(value)}".lstrip()
            raise UsageError(line, code="given-twice", option=option, name=called)
    return list(pairs)


def lines_of(file: str, option: str, stream: TextIO | None = None) -> list[str]:
    """Returns the lines of `file`, the value of `option`, or of `stream`, without leading and trailing spaces.

    Raises:
        UsageError: the file cannot be read.
    """
    try:
        if stream is not None:
            text = stream.read()
        else:
            with open(file, encoding="utf-8-sig") as lines:
                text = lines.read()
    except OSError as error:
        line = f"{option} {printable(file)} cannot be read: {reason(error)}"
        raise UsageError(line, code="unreadable", option=option, file=file) from error
    except UnicodeDecodeError as error:
        line = f"{option} {printable(file)} is not UTF-8 text"
        raise UsageError(line, code="not-text", option=option, file=file) from error
    return [line.strip() for line in text.splitlines()]


def pairs(texts: Iterable[str], file: str | None) -> Pairs:
    """Returns the pairs OLD=NEW in `texts` and in `file`, one per line; empty lines and # lines are skipped.

    Raises:
        UsageError: a text is not a pair, or a name has two values.
    """
    return once([*map(pair, texts), *pairs_of_file(file)])


def pairs_of_file(file: str | None) -> Pairs:
    """Returns the pairs in the file of --map-file."""
    lines = lines_of(file, "--map-file") if file is not None else []
    return [pair(line, f"--map-file {file}:") for line in lines if line and not line.startswith("#")]


def mappings(texts: Texts, option: str = "--map") -> list[Mapped]:
    """Splits texts ``NAME=RAW,RESULT``. Raises UsageError if a text has a different form."""
    from gdsurgeon.edits.parts import Mapped

    out: list[Mapped] = []
    for text in texts:
        name, ends = pair(text, option, form="NAME=RAW,RESULT")
        raw, comma, result = ends.partition(",")
        if not comma or not raw or not result:
            raise not_a_pair(text, option, "NAME=RAW,RESULT")
        out.append(Mapped(name.removesuffix(":0"), raw, result))
    return out


def boundaries_in(texts: Texts, option: str) -> list[tuple[Texts, Texts]]:
    """Splits texts ``IN,...=OUT,...``. Raises UsageError if a side is empty."""
    out = []
    for text in texts:
        start, _, end = text.partition("=")
        sources, targets = (tuple(filter(None, map(str.strip, side.split(",")))) for side in (start, end))
        if not sources or not targets:
            raise not_a_pair(text, option, "IN,...=OUT,...")
        out.append((sources, targets))
    return out


class ListedTensor(NamedTuple):
    """A `tensor` of a list, and its `name` in the result; '' keeps its name."""

    tensor: str
    name: str = ""


def tensors_in(texts: Texts, option: str) -> list[ListedTensor]:
    """Returns the tensors in the lists of `option`.

    Raises:
        UsageError: a list is empty, or a name or a tensor is missing at a ``=``.
    """
    out: list[ListedTensor] = []
    for text in names_in(texts, option):
        name, equals, tensor = text.rpartition("=")
        if equals and not (name and tensor):
            raise not_a_pair(text, option, "[NAME=]TENSOR")
        out.append(ListedTensor(tensor, name))
    return out


def unnamed(texts: Texts, option: str) -> list[str]:
    """Returns the tensors in the lists of `option`, for a command that writes no model.

    Raises:
        UsageError: see `tensors_in`; or a tensor gets a name.
    """
    tensors = tensors_in(texts, option)
    for tensor, name in tensors:
        if name:
            text = f"{name}={tensor}"
            line = f"{option} {quoted(text)}: this command does not accept NAME=; write {quoted(tensor)}"
            raise BadValue(line, option=option, value=text, near=tensor)
    return [tensor for tensor, _ in tensors]


def signature_entries(texts: Texts, option: str) -> list[Named]:
    """Returns the entries of signatures in the lists of `option`; NAME may be KEY:NAME.

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


# -- forms and meanings ------------------------------------------------------------------------------------------


class Form(NamedTuple):
    """The form of a value, which the help shows: how the value is completed and parsed."""

    complete: Completer | None = None
    parse: Parser | None = None


FORMS = {
    **dict.fromkeys(
        "FILE FILE.npy FILE.npz FILE.so FILE|builtin:NAME WHEEL|DIR PREFIX OUT PRE POST BODY".split(), Form(files)
    ),
    "FUNCTION": Form(functions),
    "IN,...=OUT,...": Form(paired(listed(nodes), listed(nodes)), boundaries_in),
    "INPUT=1,224,...": Form(paired(placeholders), pairs_in),
    "INPUT=RAW,RESULT": Form(paired(placeholders), mappings),
    "KEY=@FILE.npy": Form(paired(checkpoint_keys)),
    "LEFT=RIGHT": Form(paired(nodes), pairs_in),
    **dict.fromkeys("NAME,... PASS,... WHAT,...".split(), Form(None, names_in)),
    "NAME=VALUE|@FILE": Form(paired(placeholders), pairs_in),
    "NODE": Form(nodes),
    "OLD=NEW": Form(None, pairs_in),
    "OUTPUT=RAW,RESULT": Form(paired(nodes), mappings),
    "PATTERN=REPL": Form(None, partial(pairs_in, last=True)),
    "SCOPE": Form(scopes),
    "'STEP | STEP'": Form(steps),
    "TENSOR": Form(nodes),
    "TENSOR,...": Form(listed(nodes), names_in),
    "TENSOR=FILE": Form(files, pairs_in),
    "TYPE": Form(ops),
    "VAR=VALUE": Form(None, pairs_in),
    "[NAME=]TENSOR,...": Form(listed(nodes), tensors_in),
    "[NODE=]^BEFORE": Form(paired(nodes, control)),
    "none|speed|memory|collection|TENSOR,...": Form(listed(nodes), names_in),
}
"""By the metavar of options."""


class Meaning(NamedTuple):
    """The meaning of an option name in every command.

    Attributes:
        text: the help, unless a command has one of its own.
        metavar: the form of the value, see `FORMS`; '' for a flag or a choice.
        type: the type of the value; None for a flag.
        multiple: whether the option can be repeated.
        choices: the values of a choice; a command may have only some of them.
        complete: completes the value, if the form does not.
    """

    text: str
    metavar: str = ""
    type: click.ParamType[Any] | None = click.STRING
    multiple: bool = False
    choices: tuple[str, ...] = ()
    complete: Completer | None = None


def _flag(text: str) -> Meaning:
    return Meaning(text, type=None)


def _one(metavar: str, text: str, type: click.ParamType[Any] = click.STRING) -> Meaning:
    return Meaning(text, metavar, type)


def _many(metavar: str, text: str, complete: Completer | None = None) -> Meaning:
    return Meaning(text, metavar, multiple=True, complete=complete)


def _choice(text: str, *choices: str) -> Meaning:
    return Meaning(text, choices=choices)


MEANINGS = {
    "--add": _many("[NODE=]^BEFORE", "Run NODE, or the named and selected nodes, after BEFORE."),
    "--against": _one("FILE.npz", "Compare the outputs of the added nodes with FILE (--rtol, --atol)."),
    "--all-values": _flag("Print all elements of constants and variables."),
    "--allow-ops": _flag("Also run ops that use files, the network or Python."),
    "--allow-outputs": _flag("Allow outputs of the graph to be removed."),
    "--as-v1": _flag("Write a SavedModel without the objects of TensorFlow 2."),
    "--asset": _many("TENSOR=FILE", "Add FILE to the model; loaders feed its path to TENSOR."),
    "--assign": _one("DEVICE", "Set the device of the selected nodes."),
    "--at": _one("TENSOR", "Insert the graph at this tensor."),
    "--atol": _one("X", "Allow this absolute difference of each element.", click.FloatRange(0)),
    "--backup": _one("SUFFIX", "With -i: keep the old file, with SUFFIX added to its name."),
    "--backward": _many("NAME,...", "Select these nodes and all nodes that they depend on.", listed(nodes)),
    "--between": _many("IN,...=OUT,...", "Select the nodes on all paths from IN to OUT, and the nodes of OUT."),
    "--budget": _one("MIB", "Keep as many tensors as fit into this memory.", click.FloatRange(0, min_open=True)),
    "--bypass": _flag("Connect consumers of a removed node to its input."),
    "--bypass-input": _one("N", "With --bypass: the input to use, counted from 0.", click.IntRange(0)),
    "--changes-values": _flag("Measure the outputs that the edit changes; the other outputs must stay equal."),
    "--check": _flag("Only check. Exit code: 0 nothing to do, 1 something to do, 4 edit refused."),
    "--checkpoint": _one("PREFIX", "Read the values of variables from this checkpoint."),
    "--checkpoints": _many(
        "none|speed|memory|collection|TENSOR,...",
        "Keep these tensors in memory; recompute the others.  [default: none]",
    ),
    "--clear": _flag("Remove the device of nodes."),
    "--color": _choice("Use color on standard error.", "auto", "always", "never"),
    "--control-edges": _flag("Also follow control edges."),
    "--dangling": _choice("Connect consumers of a removed node to a new placeholder.", "placeholder"),
    "--debug": _flag("Show a traceback on errors."),
    "--delete": _many("KEY[/NAME]", "Delete a signature, or one of its inputs or outputs."),
    "--depth": _one("N", "Show this many levels of scopes.", click.IntRange(1, 100)),
    "--device": _one("cpu|gpu|/device:...", "Run TensorFlow on this device."),
    "--drop": _many("REGEX", "Drop the tensors whose keys match."),
    "--dry-run": _flag("Do everything except writing."),
    "--dtype": _choice("Data type of the stored weights.", "float16", "bfloat16", "int8"),
    "--emit": _one("FILE", "With --steps: also write the built graph to FILE."),
    "--except": _one("REGEX", "Do not change consumers whose names match."),
    "--exclude": _many("REGEX", "Exclude nodes whose names match."),
    "--expose": _many("NODE", "Keep the output of this selected node available under its name."),
    "--feed": _many("NAME=VALUE|@FILE", "Value of an input."),
    "--feeds": _one("FILE.npz", "Values of inputs, by name."),
    "--first-divergence": _flag("If the models differ, find the first node that differs."),
    "--fix-batch": _flag("Make Reshapes with a constant batch size accept any batch size."),
    "--fold-bn": _flag("Also fold batch norms, factors, paddings and dilations into convolutions."),
    "--for": _one("TARGET", "Engine, such as opencv, or TensorFlow release, such as tf1.15."),
    "--format": _choice("Format of the result.", "binary", "text", "html", "svg", "dot", "md"),
    "--forward": _many("NAME,...", "Select these nodes and all nodes that depend on them.", listed(nodes)),
    "--function": _many("NAME", "Inline only calls of this function.", functions),
    "--functions": _flag("List the functions, their callers, and unused functions."),
    "--git": _flag("Run as git's external diff driver; the exit code is always 0."),
    "--golden": _one("FILE.npz", "Compare MODEL with these recorded outputs."),
    "--grad-ys": _many("TENSOR,...", "Incoming gradient for each of --ys (default: ones)."),
    "--gradients": _choice(
        "Show gradient nodes in separate scopes, or together with forward nodes.", "separate", "together"
    ),
    "--ignore": _many("WHAT,...", "Ignore differences of names, weights (values that change in training) or shapes."),
    "--in": _many(
        "FUNCTION", "Edit the body of this library function; names in options then refer to nodes of the body."
    ),
    "--in-place": _flag("Replace MODEL."),
    "--init": _many("NODE", "Node that loaders run first, for example a table initializer."),
    "--inline": _flag("Allow TensorFlow to inline the function."),
    "--inputs": _many("[NAME=]TENSOR,...", "Input tensors, with their names in the result."),
    "--json": _flag("Print JSON."),
    "--keep": _one("REGEX", "Do not change constants whose names match."),
    "--keep-checks": _flag("Keep Assert and CheckNumerics."),
    "--keep-names": _flag("Keep the names that the nodes have in the function, if they are free."),
    "--keep-strings": _flag("Keep all strings. Also keep other constants of at most 64 elements."),
    "--limit": _one("N", "Replace at most N matches.", click.IntRange(1)),
    "--list": _flag("Print a list, and write nothing."),
    "--lockstep": _flag("With --first-divergence: give each node of both models the input values from MODEL."),
    "--map": _many("LEFT=RIGHT", "Pair a name in MODEL with its name in the other graph."),
    "--map-file": _one("FILE", "File of pairs OLD=NEW, one per line."),
    "--markdown": _flag("Print Markdown for a comment on a pull request."),
    "--max-growth": _one(
        "BYTES",
        "Allow folded constants to be this much larger than their inputs.",
        click.IntRange(0, 1 << 31),
    ),
    "--min": _one("N", "Do not change constants with fewer than N elements.", click.IntRange(1)),
    "--name": _one("NAME", "Name of the node that calls the function."),
    "--names": _many("NAME,...", "Names of the results, one for each of --xs."),
    "--no-batch-check": _flag("Do not prove that the rows of a batch are independent."),
    "--no-grappler": _flag("Do not run the graphs again after optimization by Grappler."),
    "--no-v2-check": _flag("Do not load the result with tf.saved_model.load."),
    "--node": _many("NAME", "Select this node.", nodes),
    "--nodes": _one("FILE", "Select the nodes listed in FILE, one per line ('-': standard input)."),
    "--only": _one("REGEX", "Change only consumers whose names match."),
    "--op": _many("TYPE", "Select nodes with this op."),
    "--op-lib": _many("FILE.so", "Load this library of custom ops."),
    "--ops": _flag("List all ops, also in functions, and mark ops unknown to TensorFlow."),
    "--orphans": _flag("Also remove nodes that are unused afterwards."),
    "--output": _one("OUT", "Write to OUT ('-': standard output)."),
    "--outputs": _many("[NAME=]TENSOR,...", "Output tensors, with their names in the result."),
    "--passes": _many("PASS,...", "Run only these passes."),
    "--post": _one("POST", "Graph to run after MODEL: OTHER(x) == POST(MODEL(x))."),
    "--post-map": _many(
        "OUTPUT=RAW,RESULT", "Pair OUTPUT of MODEL with the placeholder RAW and the node RESULT of POST."
    ),
    "--pre": _one("PRE", "Graph to run before MODEL: OTHER(x) == MODEL(PRE(x))."),
    "--pre-map": _many("INPUT=RAW,RESULT", "Pair INPUT of MODEL with the placeholder RAW and the node RESULT of PRE."),
    "--prefix": _one("SCOPE", "Put the new nodes under this name scope."),
    "--profile": _flag("Measure the time of a run, and list the slowest nodes."),
    "--prove-each": _flag("Prove each line separately."),
    "--quiet": _flag("Print no summary."),
    "--raw": _one("TYPE[SHAPE]", "With --steps: dtype and shape of the raw input, such as 'uint8[?,?,3]'."),
    "--reduce": _one("FILE", "If the models differ, write the smallest part that differs."),
    "--regex": _many("PATTERN=REPL", "Rename everything whose name matches."),
    "--remove": _many("[NODE=]^BEFORE", "Remove the control edge from BEFORE; ^* means all."),
    "--rename": _many("OLD=NEW", "Rename OLD to NEW."),
    "--rename-scope": _many("OLD=NEW", "Rename everything under the scope OLD.", paired(scopes)),
    "--replace": _many("OLD=NEW", "Replace device OLD, in any spelling, by device NEW."),
    "--report": _one("FILE", "Write a JSON report of the edit and its proof."),
    "--require-change": _flag("Fail (exit 4) if nothing would change."),
    "--rtol": _one("X", "Allow this relative difference of each element.", click.FloatRange(0)),
    "--rules": _many("FILE|builtin:NAME", "File of rules, one per line, or built-in rules."),
    "--run": _flag("Also run MODEL in the engine, and compare with TensorFlow."),
    "--run-in": _one("WHEEL|DIR", "Run in the package in this wheel or folder."),
    "--samples": _one("N", "Number of input sets for which outputs are compared.", click.IntRange(1, 1000)),
    "--save": _one("FILE.npy", "Write the value of one constant or variable to FILE."),
    "--save-feeds": _one("FILE.npz", "Write the inputs of the run to FILE, for --feeds."),
    "--save-outputs": _one("FILE.npz", "Write the outputs of MODEL to FILE, for --golden."),
    "--scope": _many("SCOPE", "Select the nodes under this name scope."),
    "--seed": _one("N", "Random seed for generated inputs.", click.INT),
    "--select": _many("REGEX", "Select nodes whose names match."),
    "--set": _many("KEY=@FILE.npy", "Set the value of a tensor."),
    "--shape": _many("INPUT=1,224,...", "Shape of the value of an input."),
    "--share": _many("REGEX", "Do not copy constants whose names match."),
    "--signature": _many("KEY", "Use only this signature; its names can be used for tensors."),
    "--sizes": _flag("List the largest constants."),
    "--skip": _many("PASS,...", "Skip these passes."),
    "--sort": _flag("Write each node after its inputs. Some programs require this order; TensorFlow does not."),
    "--stat": _flag("Print only counts."),
    "--steps": _one("'STEP | STEP'", "Build the graph from steps; 'gdsurgeon steps' lists the steps."),
    "--strict": _flag("Also fail if the graphs have differences that no output shows."),
    "--strings": _flag("List the strings in the graph, file paths first."),
    "--swap": _flag("Exchange both tensors: also make the consumers of NEW read OLD."),
    "--tags": _one("TAG,...", "Use the graph of the SavedModel with these tags."),
    "--tensors": _flag("Print the output tensors of the nodes."),
    "--textconv": _flag("Print MODEL as text, one node per line, for git's textconv."),
    "--threads": _one("N", "Number of nodes that run in parallel.  [default: all processors]", click.IntRange(1, 1024)),
    "--timeout": _one("SECONDS", "Time limit of each TensorFlow step.", click.FloatRange(0, min_open=True)),
    "--tolerance": _one("X", "Allow max |a-b| <= X * max |b| in each tensor.", click.FloatRange(0)),
    "--top": _one("N", "Print at most N entries of --sizes and of --strings.  [default: 10]", click.IntRange(1)),
    "--toposort": _flag("Print the nodes in topological order, one level per line."),
    "--unconnected": _choice("If --ys do not depend on a tensor of --xs: fail, or return zeros.", "error", "zero"),
    "--unfreeze": _one("REGEX", "Replace floating-point constants by variables if their names match."),
    "--unique": _flag("If DST exists, use DST_1, DST_2, ... instead."),
    "--unset": _many("KEY", "Remove the attr KEY."),
    "--validate": _choice("Level of the proof before the result is written.", "none", "structure", "load", "run"),
    "--value": _one("VALUE", "Value of the selected nodes, and of each NODE without =VALUE."),
    "--values": _one("FILE.npz", "Values of inputs and constants, by name."),
    "--var": _many("VAR=VALUE", "Set the variable $VAR of the script."),
    "--variables": _choice(
        "Copy the variables under SRC, no variables, or all variables that SRC reads.", "clone", "share", "all"
    ),
    "--verbose": _flag("Print all details and the log of TensorFlow."),
    "--verify": _flag("Compare every byte with its checksum."),
    "--weights": _flag("Also differentiate by all floating-point constants of more than one element."),
    "--with": _one("BODY", "Graph that replaces the selected nodes."),
    "--with-consts": _flag("Also select constants that only selected nodes use."),
    "--with-slots": _flag("Also copy the optimizer slots of the variables."),
    "--xla": _flag("Compile the function with XLA."),
    "--xs": _many("TENSOR,...", "Differentiate with respect to these tensors."),
    "--ys": _many("TENSOR,...", "Tensors to differentiate; several tensors are summed."),
}
"""By the long name of the option."""

HEADINGS = ("Options", "Selection", "Model", "Output", "Proof", "Feeds", "Messages")
"""The headings of options in the order of the help; a command's own options come first."""


class Option(click.Option):
    """An option under the heading `heading` of `HEADINGS`, whose value `parse` converts.

    `--help` only names an option that `is_common`. The option requires one of the options `needs`, and cannot be
    combined with the options `excludes`; both are long names.
    """

    def __init__(
        self,
        declarations: Sequence[str],
        *,
        heading: str = "Options",
        is_common: bool = False,
        parse: Parser | None = None,
        needs: str = "",
        excludes: str = "",
        **attributes: Any,
    ) -> None:
        super().__init__(declarations, **attributes)
        self.needs = needs.split()
        self.excludes = excludes.split()
        self.heading = heading
        self.is_common = is_common
        self.parse = parse

    @property
    def long_name(self) -> str:
        """The first long name."""
        return next(name for name in self.opts if name.startswith("--"))


def option(*names: str, help: str = "", choices: Sequence[str] = (), **attributes: Any) -> Callable[[F], F]:
    """Returns a decorator that adds an `Option` with the type, metavar, multiplicity and form of its meaning.

    Args:
        names: as for `click.option`; the first long name is in `MEANINGS`.
        help: replaces the text of the meaning.
        choices: replaces the choices of the meaning, which contain them.
        attributes: those of `Option`.
    """
    meaning = MEANINGS[next(name for name in names if name.startswith("--"))]
    form = FORMS.get(meaning.metavar, Form())
    if meaning.type is None:
        attributes["is_flag"] = True
    else:
        allowed = choices or meaning.choices
        attributes["type"] = click.Choice(list(allowed)) if allowed else meaning.type
        attributes["multiple"] = meaning.multiple
        attributes["metavar"] = meaning.metavar or None
        attributes.setdefault("shell_complete", meaning.complete or form.complete)
        attributes.setdefault("parse", form.parse)
    return click.option(*names, cls=Option, help=help or meaning.text, **attributes)


def tensor_tolerance(default: str, needs: str = "") -> Callable[[F], F]:
    """Returns the option --tolerance, which compares whole tensors, b being that of MODEL; `default` ends its help."""
    text = f"Allow max |a-b| <= X * max |b| in each tensor{default}."
    return option("--tolerance", heading="Proof", needs=needs, help=text)


def tolerance_options(command: F, needs: str = "") -> F:
    """Adds --rtol and --atol, which compare element by element: |a - b| <= atol + rtol * max(|a|, |b|)."""
    tolerance = partial(option, heading="Proof", needs=needs)
    return tolerance("--rtol")(tolerance("--atol")(command))
