"""The meaning of every option name: its type, direction, unit and text are the same in all commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import click

F = TypeVar("F", bound=Callable[..., object])


class Meaning(NamedTuple):
    """The meaning of an option name in every command.

    Attributes:
        text: the help, unless a command has one of its own.
        metavar: the form of the value; '' for a flag or a choice.
        type: the type of the value; None for a flag.
        multiple: whether the option can be repeated.
        choices: the values of a choice; a command may have only some of them.
        direction: ``reads`` or ``writes`` for the path of a file.
        unit: the unit of a number.
    """

    text: str
    metavar: str = ""
    type: click.ParamType[Any] | None = click.STRING
    multiple: bool = False
    choices: tuple[str, ...] = ()
    direction: str = ""
    unit: str = ""


def _flag(text: str) -> Meaning:
    return Meaning(text, type=None)


def _one(metavar: str, text: str, type: click.ParamType[Any] = click.STRING, unit: str = "") -> Meaning:
    return Meaning(text, metavar, type, unit=unit)


def _many(metavar: str, text: str, direction: str = "") -> Meaning:
    return Meaning(text, metavar, multiple=True, direction=direction)


def _reads(metavar: str, text: str) -> Meaning:
    return Meaning(text, metavar, direction="reads")


def _writes(metavar: str, text: str) -> Meaning:
    return Meaning(text, metavar, direction="writes")


def _choice(text: str, *choices: str) -> Meaning:
    return Meaning(text, choices=choices)


_LEVEL = _choice("Level of the proof before the result is written.", "none", "structure", "load", "run")

MEANINGS = {
    "--add": _many("[NODE=]^BEFORE", "Run NODE, or the named and selected nodes, after BEFORE."),
    "--against": _reads("FILE.npz", "Compare the outputs of the added nodes with FILE (--rtol, --atol)."),
    "--all-values": _flag("Print all elements of constants and variables."),
    "--allow-ops": _flag("Also run ops that use files, the network or Python."),
    "--allow-outputs": _flag("Allow outputs of the graph to be removed."),
    "--as-v1": _flag("Write a SavedModel without the objects of TensorFlow 2."),
    "--asset": _many("TENSOR=FILE", "Add FILE to the model; loaders feed its path to TENSOR.", "reads"),
    "--assign": _one("DEVICE", "Set the device of the selected nodes."),
    "--at": _one("TENSOR", "Insert the graph at this tensor."),
    "--atol": _one("X", "Allow this absolute difference of each element.", click.FloatRange(0)),
    "--backup": _one("SUFFIX", "With -i: keep the old file, with SUFFIX added to its name."),
    "--backward": _many("NAME,...", "Select these nodes and all nodes that they depend on."),
    "--between": _many("IN,...=OUT,...", "Select the nodes on all paths from IN to OUT, and the nodes of OUT."),
    "--budget": _one(
        "MIB", "Keep as many tensors as fit into this memory.", click.FloatRange(0, min_open=True), unit="MiB"
    ),
    "--bypass": _flag("Connect consumers of a removed node to its input."),
    "--bypass-input": _one("N", "With --bypass: the input to use, counted from 0.", click.IntRange(0)),
    "--changes-values": _flag("Measure the outputs that the edit changes; the other outputs must stay equal."),
    "--check": _flag("Only check. Exit code: 0 nothing to do, 1 something to do, 4 edit refused."),
    "--checkpoint": _reads("PREFIX", "Read the values of variables from this checkpoint."),
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
    "--emit": _writes("FILE", "With --steps: also write the built graph to FILE."),
    "--except": _one("REGEX", "Do not change consumers whose names match."),
    "--exclude": _many("REGEX", "Exclude nodes whose names match."),
    "--expose": _many("NODE", "Keep the output of this selected node available under its name."),
    "--feed": _many("NAME=VALUE|@FILE", "Value of an input."),
    "--feeds": _reads("FILE.npz", "Values of inputs, by name."),
    "--first-divergence": _flag("If the models differ, find the first node that differs."),
    "--fix-batch": _flag("Make Reshapes with a constant batch size accept any batch size."),
    "--fold-bn": _flag("Also fold batch norms, paddings and dilations into convolutions."),
    "--for": _one("TARGET", "Engine, such as opencv, or TensorFlow release, such as tf1.15."),
    "--format": _choice("Format of the result.", "binary", "text", "html", "svg", "dot", "md"),
    "--forward": _many("NAME,...", "Select these nodes and all nodes that depend on them."),
    "--function": _many("NAME", "Inline only calls of this function."),
    "--functions": _flag("List the functions, their callers, and unused functions."),
    "--git": _flag("Run as git's external diff driver; the exit code is always 0."),
    "--golden": _reads("FILE.npz", "Compare MODEL with these recorded outputs."),
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
    "--level": _LEVEL,
    "--limit": _one("N", "Replace at most N matches.", click.IntRange(1)),
    "--list": _flag("Print a list, and write nothing."),
    "--lockstep": _flag("With --first-divergence: give each node of both models the input values from MODEL."),
    "--map": _many("LEFT=RIGHT", "Pair a name in MODEL with its name in the other graph."),
    "--map-file": Meaning("File of pairs OLD=NEW, one per line.", "FILE"),
    "--markdown": _flag("Print Markdown for a comment on a pull request."),
    "--max-growth": _one(
        "BYTES",
        "Allow folded constants to be this much larger than their inputs.",
        click.IntRange(0, 1 << 31),
        unit="bytes",
    ),
    "--min": _one("N", "Do not change constants with fewer than N elements.", click.IntRange(1), unit="elements"),
    "--name": _one("NAME", "Name of the node that calls the function."),
    "--names": _many("NAME,...", "Names of the results, one for each of --xs."),
    "--no-batch-check": _flag("Do not prove that the rows of a batch are independent."),
    "--no-grappler": _flag("Do not run the graphs again after optimization by Grappler."),
    "--no-v2-check": _flag("Do not load the result with tf.saved_model.load."),
    "--node": _many("NAME", "Select this node."),
    "--nodes": _reads("FILE", "Select the nodes listed in FILE, one per line ('-': standard input)."),
    "--only": _one("REGEX", "Change only consumers whose names match."),
    "--op": _many("TYPE", "Select nodes with this op."),
    "--op-lib": _many("FILE.so", "Load this library of custom ops.", "reads"),
    "--ops": _flag("List all ops, also in functions, and mark ops unknown to TensorFlow."),
    "--orphans": _flag("Also remove nodes that are unused afterwards."),
    "--output": _writes("OUT", "Write to OUT ('-': standard output)."),
    "--outputs": _many("[NAME=]TENSOR,...", "Output tensors, with their names in the result."),
    "--passes": _many("PASS,...", "Run only these passes."),
    "--post": _reads("POST", "Graph to run after MODEL: OTHER(x) == POST(MODEL(x))."),
    "--post-map": _many(
        "OUTPUT=RAW,RESULT", "Pair OUTPUT of MODEL with the placeholder RAW and the node RESULT of POST."
    ),
    "--pre": _reads("PRE", "Graph to run before MODEL: OTHER(x) == MODEL(PRE(x))."),
    "--pre-map": _many("INPUT=RAW,RESULT", "Pair INPUT of MODEL with the placeholder RAW and the node RESULT of PRE."),
    "--prefix": _one("SCOPE", "Put the new nodes under this name scope."),
    "--profile": _flag("Measure the time of a run, and list the slowest nodes."),
    "--prove-each": _flag("Prove each line separately."),
    "--quiet": _flag("Print no summary."),
    "--raw": _one("TYPE[SHAPE]", "With --steps: dtype and shape of the raw input, such as 'uint8[?,?,3]'."),
    "--reduce": _writes("FILE", "If the models differ, write the smallest part that differs."),
    "--regex": _many("PATTERN=REPL", "Rename everything whose name matches."),
    "--remove": _many("[NODE=]^BEFORE", "Remove the control edge from BEFORE; ^* means all."),
    "--rename": _many("OLD=NEW", "Rename OLD to NEW."),
    "--rename-scope": _many("OLD=NEW", "Rename everything under the scope OLD."),
    "--replace": _many("OLD=NEW", "Replace device OLD, in any spelling, by device NEW."),
    "--report": _writes("FILE", "Write a JSON report of the edit and its proof."),
    "--require-change": _flag("Fail (exit 4) if nothing would change."),
    "--rtol": _one("X", "Allow this relative difference of each element.", click.FloatRange(0)),
    "--rules": _many("FILE|builtin:NAME", "File of rules, one per line, or built-in rules.", "reads"),
    "--run": _flag("Also run MODEL in the engine, and compare with TensorFlow."),
    "--run-in": _reads("WHEEL|DIR", "Run in the package in this wheel or folder."),
    "--samples": _one("N", "Number of input sets for which outputs are compared.", click.IntRange(1, 1000)),
    "--save": _writes("FILE.npy", "Write the value of one constant or variable to FILE."),
    "--save-feeds": _writes("FILE.npz", "Write the inputs of the run to FILE, for --feeds."),
    "--save-outputs": _writes("FILE.npz", "Write the outputs of MODEL to FILE, for --golden."),
    "--scope": _many("SCOPE", "Select the nodes under this name scope."),
    "--seed": _one("N", "Random seed for generated inputs.", click.INT),
    "--select": _many("REGEX", "Select nodes whose names match."),
    "--set": _many("KEY=@FILE.npy", "Set the value of a tensor.", "reads"),
    "--shape": _many("INPUT=1,224,...", "Shape of the value of an input."),
    "--share": _many("REGEX", "Do not copy constants whose names match."),
    "--signature": _many("KEY", "Use only this signature; its names can be used for tensors."),
    "--sizes": _flag("List the largest constants."),
    "--skip": _many("PASS,...", "Skip these passes."),
    "--stat": _flag("Print only counts."),
    "--steps": _one("'STEP | STEP'", "Build the graph from steps; 'gdsurgeon steps' lists the steps."),
    "--strict": _flag("Also fail if the graphs have differences that no output shows."),
    "--strings": _flag("List the strings in the graph, file paths first."),
    "--swap": _flag("Exchange both tensors: also make the consumers of NEW read OLD."),
    "--tags": _one("TAG,...", "Use the graph of the SavedModel with these tags."),
    "--tensors": _flag("Print the output tensors of the nodes."),
    "--textconv": _flag("Print MODEL as text, one node per line, for git's textconv."),
    "--threads": _one("N", "Number of nodes that run in parallel.  [default: all processors]", click.IntRange(1, 1024)),
    "--timeout": _one("SECONDS", "Time limit of each TensorFlow step.", click.FloatRange(0, min_open=True), unit="s"),
    "--tolerance": _one("X", "Allow max |a-b| <= X * max |b| in each tensor.", click.FloatRange(0)),
    "--top": _one("N", "Print at most N entries of --sizes and of --strings.  [default: 10]", click.IntRange(1)),
    "--toposort": _flag("Print the nodes in topological order, one level per line."),
    "--unconnected": _choice("If --ys do not depend on a tensor of --xs: fail, or return zeros.", "error", "zero"),
    "--unfreeze": _one("REGEX", "Replace floating-point constants by variables if their names match."),
    "--unique": _flag("If DST exists, use DST_1, DST_2, ... instead."),
    "--unset": _many("KEY", "Remove the attr KEY."),
    "--validate": _LEVEL,
    "--value": _one("VALUE", "Value of the selected nodes, and of each NODE without =VALUE."),
    "--values": _reads("FILE.npz", "Values of inputs and constants, by name."),
    "--var": _many("VAR=VALUE", "Set the variable $VAR of the script."),
    "--variables": _choice(
        "Copy the variables under SRC, no variables, or all variables that SRC reads.", "clone", "share", "all"
    ),
    "--verbose": _flag("Print all details and the log of TensorFlow."),
    "--verify": _flag("Compare every byte with its checksum."),
    "--weights": _flag("Also differentiate by all floating-point constants of more than one element."),
    "--with": _reads("BODY", "Graph that replaces the selected nodes."),
    "--with-consts": _flag("Also select constants that only selected nodes use."),
    "--with-slots": _flag("Also copy the optimizer slots of the variables."),
    "--xla": _flag("Compile the function with XLA."),
    "--xs": _many("TENSOR,...", "Differentiate with respect to these tensors."),
    "--ys": _many("TENSOR,...", "Tensors to differentiate; several tensors are summed."),
}
"""By the long name of the option."""


def known_option(*names: str, help: str = "", choices: Sequence[str] = (), **attributes: Any) -> Callable[[F], F]:
    """A click option with the type, metavar and multiplicity of its meaning.

    Args:
        names: as for `click.option`; the first long name is in `MEANINGS`.
        help: replaces the text of the meaning.
        choices: replaces the choices of the meaning, which contain them.
        attributes: as for `click.option`.
    """
    meaning = MEANINGS[next(name for name in names if name.startswith("--"))]
    if meaning.type is None:
        attributes["is_flag"] = True
    else:
        allowed = choices or meaning.choices
        attributes["type"] = click.Choice(list(allowed)) if allowed else meaning.type
        attributes["multiple"] = meaning.multiple
        attributes["metavar"] = meaning.metavar or None
    return click.option(*names, help=help or meaning.text, **attributes)
