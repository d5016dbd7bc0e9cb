"""The words of the command line for errors of the library, which name hints by codes and arguments by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gdsurgeon.cli.options import MEANINGS
from gdsurgeon.errors import GdsurgeonError, Json, Line

if TYPE_CHECKING:
    from gdsurgeon.proof.proof import Proof

OPTIONS = {
    **{name.removeprefix("--").replace("-", "_"): name for name in MEANINGS},
    "archive": "--feeds",
    "as_json": "--json",
    "engine": "--for",
    "feeds": "--feed",
    "in_place": "-i",
    "level": "--validate",
    "names": "--map",
    "op_libraries": "--op-lib",
    "ops": "--op",
    "out": "-o",
    "regexes": "--select",
    "scopes": "--scope",
    "shapes": "--shape",
    "signatures": "--signature",
    "target": "--for",
    "verbose": "-v",
}
"""The option for each argument of the library that a `Line` names."""

HINTS: Mapping[str, str] = {
    "add-signature": "gdsurgeon signature {model} --inputs NAME=TENSOR --outputs NAME=TENSOR -o OUT adds one",
    "allow-difference": "--rtol and --atol allow a difference, --no-grappler leaves out TensorFlow's optimizer",
    "allow-ops": "--allow-ops runs it anyway",
    "allow-outputs": "--allow-outputs allows it; extract --outputs keeps only some outputs",
    "as-many-samples": "use --samples {samples}",
    "before-conversion": "no command can read it: use the model from which it was converted",
    "big-endian": "load and save the model again with TensorFlow on this machine",
    "binary-form": "--format binary keeps everything as it is",
    "budget": "use --budget {enough}",
    "budget-or-batch": "use --budget {enough}, or a smaller batch (--shape)",
    "bypass": "--bypass connects the consumers to the node's input, --dangling placeholder to a placeholder",
    "bypass-input": "choose the input with --bypass-input N",
    "cannot-be-fed": "no option can supply such a value; use --validate load or structure",
    "clear-devices": "set-device --clear removes the devices; --validate load or structure does not run the graph",
    "cut-first": "gdsurgeon extract {model} --inputs {tensor} --outputs ... -o OUT makes the tensor an input; a "
    "script of apply can do this and add the steps",
    "custom-ops": "--op-lib FILE.so adds custom ops",
    "do-without-running": "--validate structure does not run it",
    "do-without-tensorflow": "--validate structure does not need TensorFlow",
    "export-keras": "keras.saving.load_model({file!r}, compile=False).export('DIR') writes a SavedModel to DIR",
    "feed": "--feed NAME=VALUE, --feeds FILE.npz or --shape NAME=1,2,3 set the input; "
    "--validate structure runs nothing",
    "fix-batch": "--fix-batch makes each Reshape accept any batch size",
    "free-scope": "without --prefix, a free name such as gradients_1 is used",
    "freeze-first": "gdsurgeon freeze {model} -o OUT converts them to constants",
    "freeze-input": "freeze-input MODEL NAME=VALUE changes the value of a constant",
    "front-of-pipe": "the command before the pipe failed, or did not write to standard output (-o -)",
    "get-engine": "pip install {package}, or --run-in WHEEL|DIR with a build for this Python",
    "give-attr": "{key}=VALUE sets it",
    "give-others": "--feed NAME=VALUE or --feeds FILE.npz set different values",
    "install-tensorflow": "pip install 'gdsurgeon[tensorflow]' installs TensorFlow and NumPy",
    "import-frozen": "freeze both models and import one into the other; to-savedmodel --init NODE --asset TENSOR=FILE "
    "then makes a model that initializes its tables",
    "inline-first": "gdsurgeon inline MODEL replaces calls by the nodes of the functions",
    "keep-constants": "--keep REGEX keeps constants, --keep-strings keeps strings and small constants",
    "keep-others": "gdsurgeon slim {model} --signature KEY -o OUT keeps only the other signatures",
    "keep-these": "--keep '{pattern}' leaves these constants unchanged",
    "list-steps": "gdsurgeon steps lists them",
    "longer": "--timeout SECONDS allows more time",
    "look": "gdsurgeon inspect MODEL shows inputs and outputs, gdsurgeon select MODEL lists all nodes",
    "make-older": "gdsurgeon compat {model} --for {target} -o OUT converts it",
    "make-writable": "make it writable, or choose a different output with -o",
    "map-boundary": "--map LEFT=RIGHT pairs a tensor at the selection's boundary with a node of the body",
    "map-name": "name it with {option} {form}",
    "map-result": "name the result with {option} {form}",
    "more-memory": "GDSURGEON_MEMORY=MIB in the environment allows TensorFlow more memory",
    "name-checkpoint": "name the checkpoint with --checkpoint PREFIX",
    "name-input": "choose the tensor with --at TENSOR",
    "name-output": "choose the tensor with --at TENSOR",
    "no-batch-check": "--no-batch-check sets the shape anyway, if the rows of a batch depend on each other",
    "no-graph": "checkpoint {prefix} lists its tensors; the graph is in a SavedModel or a .meta file, "
    "written by tf.saved_model.save, model.export of Keras, or Saver.save",
    "op-freeze": "gdsurgeon freeze converts variables to constants",
    "op-inline": "gdsurgeon inline replaces calls of functions",
    "op-older": "gdsurgeon compat --for {release} replaces it by {older} if possible",
    "op-select": "the converter accepts it with OpsSet.SELECT_TF_OPS, which links ops of TensorFlow into the program",
    "op-simplify": "gdsurgeon simplify removes it",
    "one-size": "add a step that sets one size: resize, letterbox or center-crop, or decode-wav(samples=N) for sounds; "
    "or decode one item without a batch with batch=false",
    "on-the-cpu": "--device cpu runs it on the CPU",
    "other-feeds": "set the input with --shape NAME=1,2,3, --feed NAME=VALUE or --feeds FILE.npz; "
    "--validate load or structure does not run the graph",
    "other-sources": "choose different tensors with --xs",
    "outputs": "choose the outputs to compare with --outputs NAME,...",
    "pair-names": "--map LEFT=RIGHT pairs names; choose the outputs to compare with --outputs NAME,...",
    "pair-or-feed": "--map LEFT=RIGHT pairs names; --feed NAME=VALUE sets a value for only one of the models",
    "plan-again": "give the shapes of the inputs with --shape; if memory use cannot be predicted, lower --budget",
    "put-in-place": "import, reroute and remove can replace the nodes without a function",
    "put-in-front": "name the preprocessing graph with --pre PRE.pb",
    "remove-attr": "--unset {key} removes them",
    "remove-signature": "gdsurgeon signature {model} --delete {key} -o OUT removes it",
    "rename-keys": "checkpoint {prefix} --rename OLD=NEW renames tensors to the names that the model expects",
    "repair": "--validate none allows an edit that repairs the graph",
    "repair-first": "start the script with the line repair",
    "replace-model": "-i replaces MODEL",
    "replace-path": "-o PATH replaces PATH",
    "say-raw": "give it with --raw 'TYPE[SHAPE]'",
    "run-there": "a list of ops does not cover attrs, dtypes, shapes and fused patterns; "
    "--run loads MODEL in the engine",
    "same-feeds": "if seed or samples differ, --feeds FILE.npz uses the inputs that --save-feeds wrote",
    "share-variables": "--variables share makes the copy use the existing variables",
    "show-less": "use a smaller --depth, --scope SCOPE or --in FUNCTION",
    "simplify-first": "gdsurgeon simplify {model} -o OUT writes a model with fewer ops, which more engines accept",
    "simplify-for-opencv": "gdsurgeon simplify {model} --for opencv -o OUT writes a model that its importer supports",
    "single-quotes": "put the rule in single quotes: the shell replaces $x in double quotes",
    "slim": "gdsurgeon slim {model} -o OUT writes a SavedModel for all loaders",
    "structure-only": "--validate structure runs nothing",
    "tar-stream": "'-' reads a tar stream of the SavedModel's folder from standard input",
    "unique-scope": "--unique adds a number to the name",
    "what-changed": "gdsurgeon diff {model} {other} shows what changed",
    "which-models": "MODEL is a GraphDef, the folder of a SavedModel, a .meta file, or the prefix of its checkpoint; "
    "freeze converts other models to a GraphDef",
    "whole-model": "MODEL is {whole}",
    "write-elsewhere": "write to a FILE, or use a pipe",
    "zeros": "--unconnected zero returns zeros for them",
    "not-loaded": "--no-v2-check skips tf.saved_model.load",
    "without-objects": "--as-v1 writes a SavedModel without objects, which all loaders run as a graph",
}
"""The hints by the codes of advice. Names in braces are facts of the error."""

NOT_THERE = {"convert": frozenset(("replace-model",)), "validate": frozenset(("repair",))}
"""Advice with an option that the command does not have."""


WITHOUT_LEVEL = frozenset(("check-ops",))
"""Commands that run a model and have no option --validate."""


def hint_of(error: GdsurgeonError, command: str = "") -> str | None:
    """Returns the hint of `error` for `command`, or None."""
    argument = str(error.facts.get("argument", "names"))
    words = {"option": OPTIONS.get(argument, argument), **error.facts}
    codes = [code for code in error.advice if code not in NOT_THERE.get(command, ())]
    hint = "; ".join(filter(None, [error.hint, *(HINTS[code].format_map(words) for code in codes)]))
    if command in WITHOUT_LEVEL:
        hint = "; ".join(part for part in hint.split("; ") if OPTIONS["level"] not in part)
    return hint or None


def worded(line: str) -> str:
    """Returns `line` with the options of the command line."""
    return line.naming(OPTIONS) if isinstance(line, Line) else line


def word_proof(proof: Proof) -> None:
    """Replaces arguments of the library by options in the reasons of `proof`."""
    proof.skipped = [(name, worded(reason)) for name, reason in proof.skipped]
    for output in proof.outputs:
        output.reason = worded(output.reason)


def error_json(error: GdsurgeonError, command: str = "") -> dict[str, Json]:
    """Returns `error` for JSON; the fact `option` is an option of the command line."""
    option = error.facts.get("option")
    return {
        "code": error.code,
        "message": worded(error.message),
        "details": [worded(detail) for detail in error.details],
        "hint": hint_of(error, command),
        "facts": error.facts | {"option": OPTIONS.get(str(option), option)} if option else error.facts,
        "exit": error.exit_code,
    }
