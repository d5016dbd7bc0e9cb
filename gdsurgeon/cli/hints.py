"""The command line's words: below it an error says what helps by a code, and names arguments of the library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gdsurgeon.errors import GdsurgeonError, Json, Line

if TYPE_CHECKING:
    from gdsurgeon.proof.proof import Proof

OPTIONS: Mapping[str, str] = {
    "against": "--against",
    "allow_ops": "--allow-ops",
    "archive": "--feeds",
    "as_json": "--json",
    "atol": "--atol",
    "backup": "--backup",
    "between": "--between",
    "checkpoint": "--checkpoint",
    "checkpoints": "--checkpoints",
    "depth": "--depth",
    "engine": "--for",
    "feeds": "--feed",
    "first_divergence": "--first-divergence",
    "golden": "--golden",
    "in_place": "-i",
    "level": "--validate",
    "lockstep": "--lockstep",
    "names": "--map",
    "op_libraries": "--op-lib",
    "ops": "--op",
    "out": "-o",
    "outputs": "--outputs",
    "passes": "--passes",
    "post": "--post",
    "post_map": "--post-map",
    "pre": "--pre",
    "pre_map": "--pre-map",
    "reduce": "--reduce",
    "regexes": "--select",
    "report": "--report",
    "rtol": "--rtol",
    "run": "--run",
    "run_in": "--run-in",
    "save": "--save",
    "save_feeds": "--save-feeds",
    "save_outputs": "--save-outputs",
    "scopes": "--scope",
    "shapes": "--shape",
    "share": "--share",
    "signatures": "--signature",
    "skip": "--skip",
    "strict": "--strict",
    "tags": "--tags",
    "target": "--for",
    "top": "--top",
    "verbose": "-v",
}
"""The option for each argument of the library that a `Line` names."""

HINTS: Mapping[str, str] = {
    "add-signature": "gdsurgeon signature {model} --inputs NAME=TENSOR --outputs NAME=TENSOR -o OUT adds one",
    "allow-difference": "--rtol and --atol allow a difference, --no-grappler leaves the optimiser out",
    "allow-ops": "--allow-ops runs it all the same",
    "allow-outputs": "--allow-outputs lets that happen; extract --outputs cuts a graph down to some outputs",
    "as-many-samples": "--samples {samples} runs as many",
    "before-conversion": "no command reads it: MODEL is what it was converted from",
    "big-endian": "TensorFlow reads it: what is loaded and saved again on this machine is in order",
    "binary-form": "--format binary keeps everything as it is",
    "budget": "--budget {enough}",
    "budget-or-batch": "--budget {enough}, or a smaller batch (--shape)",
    "bypass": "--bypass has readers take the node's input, --dangling placeholder a placeholder",
    "bypass-input": "--bypass-input N says which is meant",
    "cannot-be-fed": "no option supplies such a value; --validate load or structure do without",
    "clear-devices": "set-device --clear takes away the devices that it asks for; "
    "--validate load or structure do without",
    "cut-first": "gdsurgeon extract {model} --inputs {tensor} --outputs ... -o OUT makes an input of it; a script of "
    "apply cuts there and puts steps in front in one go",
    "custom-ops": "--op-lib FILE.so brings custom ops",
    "do-without-running": "--validate structure does without running it",
    "do-without-tensorflow": "--validate structure does without TensorFlow",
    "export-keras": "keras.saving.load_model({file!r}, compile=False).export('DIR') makes a SavedModel of a model: DIR",
    "feed": "--feed NAME=VALUE, --feeds FILE.npz or --shape NAME=1,2,3 supply it; --validate structure does without",
    "fix-batch": "--fix-batch has Reshapes take any batch",
    "free-scope": "without --prefix a free one is taken, gradients or the like",
    "freeze-first": "gdsurgeon freeze {model} -o OUT makes them constants",
    "freeze-input": "freeze-input MODEL NAME=VALUE gives a constant another value",
    "front-of-pipe": "what stands in front of the pipe has failed, or written elsewhere: -o - is standard output",
    "get-engine": "pip install {package}, or --run-in WHEEL|DIR, which is made for this Python",
    "give-attr": "{key}=VALUE sets it",
    "give-others": "--feed NAME=VALUE or --feeds FILE.npz give others",
    "install-tensorflow": "pip install 'gdsurgeon[tensorflow]' installs TensorFlow and NumPy",
    "import-frozen": "freeze both models and import one into the other; to-savedmodel --init NODE --asset TENSOR=FILE "
    "then makes a model that initializes its tables",
    "inline-first": "gdsurgeon inline MODEL brings out what is inside functions",
    "keep-constants": "--keep REGEX has constants stay as they are, --keep-strings strings and small constants",
    "keep-others": "gdsurgeon slim {model} --signature KEY -o OUT keeps other signatures alone",
    "keep-these": "--keep '{pattern}' leaves them as they are",
    "list-steps": "gdsurgeon steps lists them",
    "longer": "--timeout gives it longer",
    "look": "gdsurgeon inspect MODEL shows inputs and outputs, gdsurgeon select MODEL lists all nodes",
    "make-older": "gdsurgeon compat {model} --for {target} -o OUT converts it",
    "make-writable": "make it writable, or name another output with -o",
    "map-boundary": "--map TENSOR=NODE pairs a tensor at the selection's boundary with a node of the body",
    "map-name": "{option} {form} names it where the names differ",
    "map-result": "{option} {form} names the result where the graph does not follow the convention",
    "more-memory": "GDSURGEON_MEMORY=MIB in the environment lets TensorFlow use more memory",
    "name-checkpoint": "--checkpoint PREFIX names one that is elsewhere",
    "name-input": "--at TENSOR says which is meant",
    "name-output": "--at TENSOR says which is meant",
    "no-batch-check": "--no-batch-check sets the shape all the same, for batches that are one",
    "no-graph": "checkpoint {prefix} lists its tensors; the graph is in a SavedModel or a .meta file, "
    "which the code of the model writes: tf.saved_model.save, Keras' model.export, Saver.save",
    "op-freeze": "gdsurgeon freeze makes variables constants",
    "op-inline": "gdsurgeon inline puts functions in the place of their calls",
    "op-older": "gdsurgeon compat --for {release} makes it {older} where it can",
    "op-select": "the converter takes it with OpsSet.SELECT_TF_OPS, which links ops of TensorFlow into the program",
    "op-simplify": "gdsurgeon simplify takes it away",
    "one-size": "a step such as resize, letterbox or center-crop gives them one, of sounds decode-wav(samples=N); "
    "batch=false in the step that decodes takes one item, and no batch",
    "on-the-cpu": "--device cpu runs it on the CPU",
    "other-feeds": "--shape NAME=1,2,3, --feed NAME=VALUE or --feeds FILE.npz say what it takes; "
    "--validate load or structure do without",
    "other-sources": "--xs names other tensors",
    "outputs": "--outputs NAME,... says what is compared",
    "pair-names": "--map OLD=NEW pairs names, --outputs NAME,... says what is compared",
    "pair-or-feed": "--map OLD=NEW pairs names, --feed NAME=VALUE gives a value to one of the two alone",
    "plan-again": "--shape tells the plan what the inputs are; what it cannot foresee needs a lower --budget",
    "put-in-place": "import, reroute and remove put it in the place of nodes without a function",
    "put-in-front": "--pre PRE.pb names a graph that makes the one of the other",
    "remove-attr": "--unset {key} takes them away",
    "remove-signature": "gdsurgeon signature {model} --delete {key} -o OUT removes it",
    "rename-keys": "checkpoint {prefix} --rename OLD=NEW has tensors called as the model wants them",
    "repair": "--validate none lets an edit through that repairs it",
    "repair-first": "repair, as the first line of the script, mends what it can",
    "replace-model": "-i replaces MODEL",
    "replace-path": "-o PATH replaces PATH",
    "say-raw": "--raw 'TYPE[SHAPE]' says it",
    "run-there": "a list of ops says nothing of attrs, types and shapes, nor of what is taken together with others; "
    "--run has the engine itself take it",
    "same-feeds": "--feeds FILE.npz has it fed what --save-feeds has kept, where seed and samples are not the same",
    "share-variables": "--variables share has the clone read those that there are",
    "show-less": "a smaller --depth, --scope SCOPE or --in FUNCTION show less",
    "simplify-first": "gdsurgeon simplify {model} -o OUT writes one of fewer ops, which engines take more often",
    "simplify-for-opencv": "gdsurgeon simplify {model} --for opencv -o OUT writes one as its importer knows graphs",
    "single-quotes": "put the rule in single quotes: the shell replaces $x within double quotes",
    "slim": "gdsurgeon slim {model} -o OUT writes it for all loaders",
    "structure-only": "--validate structure does without running",
    "tar-stream": "'-' takes the tar stream of a SavedModel's folder from standard input",
    "unique-scope": "--unique takes a fresh one: the name and a number",
    "what-changed": "gdsurgeon diff {model} {other} tells what changed",
    "which-models": "MODEL is a GraphDef, the folder of a SavedModel, a .meta file, or the prefix of its checkpoint; "
    "freeze makes a GraphDef of the others",
    "whole-model": "MODEL is {whole}",
    "write-elsewhere": "-o FILE, or a pipe",
    "zeros": "--unconnected zero gives zeros for them",
    "not-loaded": "--no-v2-check leaves tf.saved_model.load out",
    "without-objects": "--as-v1 writes a SavedModel without objects, in which all loaders run the graph",
}
"""By the code of the advice. In braces are facts of the error; --validate is the option that says how far to go."""

NOT_THERE = {"convert": frozenset(("replace-model",)), "validate": frozenset(("repair",))}
"""Advice that would have somebody use an option that the command has not."""


WITHOUT_LEVEL = frozenset(("check-ops",))
"""Commands that run a model and have no option that says how far to go."""


def hint_of(error: GdsurgeonError, command: str = "") -> str | None:
    """The second line of ERROR, as COMMAND says it; None where there is nothing to say."""
    argument = str(error.facts.get("argument", "names"))
    words = {"option": OPTIONS.get(argument, argument), **error.facts}
    codes = [code for code in error.advice if code not in NOT_THERE.get(command, ())]
    hint = "; ".join(filter(None, [error.hint, *(HINTS[code].format_map(words) for code in codes)]))
    if command in WITHOUT_LEVEL:
        hint = "; ".join(part for part in hint.split("; ") if OPTIONS["level"] not in part)
    return hint or None


def worded(line: str) -> str:
    """LINE as the command line says it."""
    return line.naming(OPTIONS) if isinstance(line, Line) else line


def word_proof(proof: Proof) -> None:
    """Has PROOF give its reasons as the command line says them."""
    proof.skipped = [(name, worded(reason)) for name, reason in proof.skipped]
    for output in proof.outputs:
        output.reason = worded(output.reason)


def error_json(error: GdsurgeonError, command: str = "") -> dict[str, Json]:
    """ERROR for machines; the fact `option` is an option of the command line."""
    option = error.facts.get("option")
    return {
        "code": error.code,
        "message": worded(error.message),
        "details": [worded(detail) for detail in error.details],
        "hint": hint_of(error, command),
        "facts": error.facts | {"option": OPTIONS.get(str(option), option)} if option else error.facts,
        "exit": error.exit_code,
    }
