"""The rows of the bench: the commands that each row compares, and its target.

Commands are templates. `{big}` or `{chain:1000}` is a model, of the default or the given size; it is made if its file
does not exist. `{out}` is the output (`{folder}`: a folder), and `{figures}` a file for a command's own figures.
`{gdsurgeon}` and `{in_tensorflow}` are the programs.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

from bench_support.measure import MB, Contender, Growth, Runner, Target

HERE = os.path.dirname(os.path.abspath(__file__))
GDSURGEON, CP, TENSORFLOW, GTT = COLUMNS = ("gdsurgeon", "cp", "TensorFlow", "Graph Transform Tool")

FULL = {"big": 1_900 * MB, "medium": 100 * MB, "chain": 1_000_000, "short": 100_000, "checkpoint": 1_000 * MB}
QUICK = {"big": 200 * MB, "medium": 10 * MB, "chain": 100_000, "short": 10_000, "checkpoint": 100 * MB}
"""Bytes of models, nodes of chains, and bytes of a checkpoint."""

RECIPES = {
    "MobileNetV2": "{in_tensorflow} keras MobileNetV2 {path}",
    "ResNet50": "{in_tensorflow} keras ResNet50 {path}",
    "DenseNet169": "{in_tensorflow} keras DenseNet169 {path}",
    "saved-tf1": "{in_tensorflow} saved tf1 {size} {path}",
    "saved-tf2": "{in_tensorflow} saved tf2 {size} {path}",
    "saved-keras": "{in_tensorflow} saved keras 0 {path}",
    "simplified": "{gdsurgeon} simplify {MobileNetV2} -o {path}",
    "simplified-resnet": "{gdsurgeon} simplify {ResNet50} -o {path}",
    "folded": "{gdsurgeon} simplify {MobileNetV2} --fold-bn -o {path}",
    "fused": "{gdsurgeon} fuse-ops {pointwise:36} --scope chain --name fused -o {path}",
    "fused-xla": "{gdsurgeon} fuse-ops {pointwise:36} --scope chain --name fused --xla -o {path}",
    "moved": "{gdsurgeon} rename {towers:N} --rename-scope left=again --validate none -o {path}",
    "other": "{gdsurgeon} remove {moved:N} --node again/out --bypass --allow-outputs --validate none -o {path}",
}
"""The commands that make models. Without a command, generate.py makes the model."""

GRADIENTS = {
    "tanh": ("{tanh:1000}", "out", "--xs x", "x=1048576"),
    "consumers": ("{consumers:200}", "out", "--xs x", "x=1048576"),
    "mobilenet": ("{MobileNetV2}", "Identity", "--weights", "image=32,224,224,3"),
    "resnet": ("{ResNet50}", "Identity", "--weights", "image=32,224,224,3"),
}
"""By name: a model, the tensor that is differentiated, with respect to which tensors, and the shape of the input."""
CHECKPOINTS = {"none": "--checkpoints none", "memory": "--checkpoints memory", "budget": "--budget 1200"}
RECIPES |= {
    f"{name}-{kind}": (
        f"{{gdsurgeon}} add-gradients {model} --ys {y} {xs} --shape {shape} {how} --validate none -o {{path}}"
    )
    for name, (model, y, xs, shape) in GRADIENTS.items()
    for kind, how in CHECKPOINTS.items()
}
RECIPES |= {
    f"{name}-own": f"{{in_tensorflow}} make-gradients {model} {{path}} {y} {xs}"
    for name, (model, y, xs, _) in GRADIENTS.items()
}

RENAMED = {
    "big": ("layer_200/weights", "layer_200/renamed_weights"),
    "medium": ("layer_175/weights", "layer_175/renamed_weights"),
    "chain": ("scope_{scope}/node_{node}", "scope_{scope}/renamed"),
    "tiny": ("probabilities", "scores"),
    "MobileNetV2": ("Identity", "scores"),  # TensorFlow 2 ends a frozen graph with a node called Identity
    "ResNet50": ("Identity", "scores"),
}
"""The node in the middle of a model that the bench renames, and its new name."""


@dataclass(frozen=True)
class Row:
    """A line of the table. The target is for the first contender. The work ends with the size of the model `weighed`.
    `script` is the content of the file `{script}`.
    """

    work: str
    contenders: list[Contender]
    target: Target | Growth | None = None
    weighed: str = ""
    script: str = ""


class Workshop:
    """Makes models, once each, and contenders from commands."""

    def __init__(self, folder: str, runner: Runner, say: Callable[[str], None]) -> None:
        self.folder, self.runner, self.say = folder, runner, say
        script = beside_python("gdsurgeon")
        self.programs = {
            "gdsurgeon": script if os.path.exists(script) else f"{sys.executable} -m gdsurgeon",
            "in_tensorflow": f"{sys.executable} {HERE}/in_tensorflow.py",
            "generate": f"{sys.executable} {HERE}/generate.py",
            "python": sys.executable,
            "out": runner.out,
            "folder": runner.folder_out,
            "figures": runner.figures,
            "script": os.path.join(folder, "script.gds"),
        }

    def filled(self, template: str, **words: str) -> str:
        """Returns a template with paths and programs. Raises Failed if a model cannot be made."""
        known = self.programs | words
        return re.sub(
            r"\{([\w-]+)(?::(\w+))?\}", lambda found: known.get(found[1]) or self.path(*found.groups()), template
        )

    def path(self, kind: str, size: str | None = None) -> str:
        """Returns the path of a model: a file, a folder, or the prefix of a checkpoint."""
        suffix = "" if kind.startswith(("saved", "checkpoint")) else ".pb"
        path = os.path.join(self.folder, f"{kind}_{size or 0}{suffix}")
        if not os.path.exists(f"{path}.index" if kind == "checkpoint" else path):
            recipe = RECIPES.get(kind, "{generate} {kind} {size} {path}").replace(":N}", f":{size}}}")
            unfinished = path if kind == "checkpoint" else f"{path}.part"
            command = self.filled(recipe, kind=kind, size=size or "0", path=unfinished)
            self.say(f"generating {os.path.basename(path)}")
            self.runner.run(command)
            if unfinished != path:
                os.replace(unfinished, path)
        return path

    def ready(self, row: Row, before: str | None) -> Row:
        """Returns the row with filled templates; with `before`, also each command of gdsurgeon in this checkout."""
        with open(self.programs["script"], "w", encoding="utf-8") as file:
            file.write(row.script)
        contenders = [replace(c, line=self.filled(c.line), model=self.filled(c.model)) for c in row.contenders]
        own = [each for each in contenders if before and each.column == GDSURGEON]
        contenders += [replace(each, note=f"before {each.note}".strip(), tree=before or "") for each in own]
        size = os.path.getsize(self.filled(row.weighed)) / MB if row.weighed else 0
        return replace(row, work=row.work + (f" ({size:.0f} MB)" if size >= 1 else ""), contenders=contenders)


def beside_python(script: str) -> str:
    """Returns the path of a script that is installed with this Python."""
    return os.path.join(os.path.dirname(sys.executable), script)


# -- commands ---------------------------------------------------------------------------------------------------------


def spoken(kind: str, size: int = 0) -> str:
    """Returns a model in words."""
    if kind in ("big", "medium"):
        return f"a {size // MB:,} MB model"
    return "a tiny graph" if kind == "tiny" else f"{size:,} small nodes" if kind == "chain" else kind


def model(kind: str, size: int = 0) -> str:
    """Returns the template of a model."""
    return f"{{{kind}:{size}}}" if size else f"{{{kind}}}"


def renaming(kind: str, size: int) -> tuple[str, str]:
    """Returns the node that is renamed, and its new name."""
    old, new = RENAMED[kind]
    numbers = {"scope": size // 2 // 10_000, "node": size // 2}
    return old.format(**numbers), new.format(**numbers)


def rename(kind: str, size: int = 0, validate: str = "", note: str = "") -> Contender:
    path, pair = model(kind, size), "=".join(renaming(kind, size))
    options = f" --validate {validate}" if validate else ""
    return Contender(GDSURGEON, f"{{gdsurgeon}} rename {path} {pair} -o {{out}}{options}", note, path)


def peer(way: str, kind: str, size: int = 0, column: str = TENSORFLOW, note: str = "") -> Contender:
    path, names = model(kind, size), " ".join(renaming(kind, size))
    return Contender(column, f"{{in_tensorflow}} {way} {path} {{out}} {names}", note, path, slow=True)


def copy(path: str, note: str = "") -> Contender:
    return Contender(CP, f"cp {path} {{out}}", note, path)


def synced(path: str, is_model: bool = True) -> Contender:
    """Returns a copy that is on the disk when it ends, like a file that gdsurgeon writes."""
    line = f"""sh -c 'cp "$1" "$2" && sync "$2"' sh {path} {{out}}"""
    return Contender(CP, line, "and sync", path if is_model else "")


def surgery(command: str, size: int, arguments: str = "", kind: str = "towers", seconds: float = 2.0) -> Row:
    """Returns an edit that changes much of a graph, with the structural check."""
    out = "" if command == "select" else " -o {out} --validate structure"
    line = f"{{gdsurgeon}} {command} {model(kind, size)} {arguments}{out}"
    work = f"{command} in {size:,} nodes, --validate structure"
    return Row(work, [Contender(GDSURGEON, line)], Target(seconds=seconds))


def edit(kind: str, size: int, target: Target | None, with_import: bool = False) -> Row:
    """Returns the edit without proof, compared with a file copy and with peers."""
    path = model(kind, size)
    contenders = [
        rename(kind, size, "none"),
        copy(path),
        synced(path),
        peer("parse", kind, size),
        peer("gtt", kind, size, GTT),
        *([peer("import", kind, size, note="and import_graph_def")] if with_import else []),
    ]
    return Row(f"rename one node in {spoken(kind, size)}", contenders, target)


def structure(kind: str, size: int, target: Target) -> Row:
    """Returns the edit with the structural check, compared with the edit without it."""
    contenders = [rename(kind, size, "structure"), rename(kind, size, "none", "without the check")]
    return Row(f"the same with --validate structure, {spoken(kind, size)}", contenders, target)


def proof(kind: str, seconds: float) -> Row:
    """Returns an edit with its proof, compared with the import of TensorFlow."""
    importing = Contender(TENSORFLOW, "{python} -c 'import tensorflow'", "import alone", slow=True)
    work = f"rename and proof by execution, {spoken(kind)}"
    return Row(work, [rename(kind), importing], Target(seconds=seconds), model(kind))


def proven(command: str, arguments: str) -> Row:
    """Returns an edit with its proof in a graph of very many nodes, which shows the cost of analysing the graph."""
    line = f"{{gdsurgeon}} {command} {{towers:50000}} {arguments} -o {{out}}"
    return Row(f"{command} and proof by execution, 50,000 nodes", [Contender(GDSURGEON, line)])


def diff(size: int, seconds: float) -> Row:
    """Returns a graph compared with a copy that has half of it under a different name, and one node less."""
    line = f"{{gdsurgeon}} diff {{towers:{size}}} {{other:{size}}}"
    return Row(f"diff of two graphs of {size:,} nodes", [Contender(GDSURGEON, line, status=1)], Target(seconds=seconds))


def gradients(name: str, option: str, work: str, target: Target | None) -> Row:
    """Returns a backward pass that TensorFlow runs, time and traced peak, compared with TensorFlow's own."""
    shape = GRADIENTS[name][-1]
    contenders = [
        Contender(column, f"{{in_tensorflow}} time-gradients {{{name}-{kind}}} {{figures}} {shape}", note)
        for column, kind, note in ((GDSURGEON, option, CHECKPOINTS[option]), (TENSORFLOW, "own", "tf.gradients"))
    ]
    return Row(f"{work}: a run of the gradients, its peak", contenders, target)


def optimised(result: str, original: str, how: str, options: str = "", times: float = 0.97) -> Row:
    """Returns a simplified graph that TensorFlow runs, compared with the original: at least `times` as fast."""
    run = f"{{figures}} image=1,224,224,3 Identity {how}"
    contenders = [
        Contender(GDSURGEON, f"{{in_tensorflow}} time {{{result}}} {run}", f"simplify{options}"),
        Contender(TENSORFLOW, f"{{in_tensorflow}} time {{{original}}} {run}", "as it is"),
    ]
    threads = " on one thread, its optimizer on" if how == "on-1" else f", its optimizer {how}"
    return Row(f"TensorFlow runs {original}{threads}", contenders, Target(times=1 / times, peer="TensorFlow as it is"))


def growth(middle: tuple[str, int], large: tuple[str, int], unit: str) -> Row:
    """Returns the edit without proof on three sizes; for bytes, also cp on these sizes."""
    sizes = {"tiny": ("tiny", 0), "middle": middle, "large": large}
    contenders = [rename(*size, "none", note) for note, size in sizes.items()]
    if unit == "byte":
        contenders += [copy(model(*size), note) for note, size in sizes.items()]
    target = Growth((0, middle[1], large[1]), unit)
    return Row(f"growth from {spoken(*middle)} to {spoken(*large)}", contenders, target)


def freeze(kind: str, size: int) -> Row:
    """Returns variables to constants, compared with a copy of the variables and TensorFlow's own tool."""
    folder = f"{{saved-{kind}:{size}}}"
    own = "freeze_graph" if kind == "tf1" else "convert_variables_to_constants_v2"
    contenders = [
        Contender(GDSURGEON, f"{{gdsurgeon}} freeze {folder} -o {{out}} --validate structure"),
        synced(f"{folder}/variables/variables.data-00000-of-00001", is_model=False),
        Contender(TENSORFLOW, f"{{in_tensorflow}} freeze-{kind} {folder} {{out}}", own, slow=True),
    ]
    work = f"freeze a SavedModel of TensorFlow {kind[-1]} with {size // MB:,} MB of variables, --validate structure"
    return Row(work, contenders, Target(times=2.5, peer="cp and sync", megabytes=60))


STEPS = (
    "decode-image(channels=3) | resize(224,224, like=tf1) | normalize(mean=[123.7,116.8,103.9], std=[58.4,57.1,57.4])"
)
FIRST = "densenet169_1/conv1"
TEN_EDITS = (
    "rename image=picture Identity=logits",
    "set-shape picture=1,224,224,3",
    f"add-preprocessing --at picture --steps '{STEPS}'",
    "rename picture=jpeg",
    "add-postprocessing --at logits --steps 'top-k(5)'",
    f"freeze-input {FIRST}_bn_1/batchnorm/add/y=0.00001",
    f"control-edges --add logits=^{FIRST}_relu_1/Relu",
    "set-device --assign /cpu:0 --op Relu",
    f"remove --node {FIRST}_conv_1/convolution/ReadVariableOp --bypass",
    f"rename {FIRST}_relu_1/Relu=first",
)
"""Edits of a frozen model before it is served."""
SLOWEST_EDITS = {
    "set-shape": "image=1,224,224,3",
    "add-preprocessing": f"--at image --steps '{STEPS}'",
    "add-postprocessing": "--at Identity --steps 'top-k(5)'",
    "freeze-input": f"{FIRST}_bn_1/batchnorm/add/y=0.00001",
}
"""The slowest of `TEN_EDITS`, each on the original model."""


def ten_edits() -> Row:
    """Returns ten edits with one proof, compared with a pipe, where each command proves its result."""
    calls = (edit.split(" ", 1) for edit in TEN_EDITS)
    piped = " | ".join(f"{{gdsurgeon}} {name} - {words} -o -" for name, words in calls)
    contenders = [
        Contender(GDSURGEON, "{gdsurgeon} apply {DenseNet169} {script} -o {out}"),
        *(
            Contender(GDSURGEON, f"{{gdsurgeon}} {name} {{DenseNet169}} {words} -o {{out}}", f"alone: {name}")
            for name, words in SLOWEST_EDITS.items()
        ),
        Contender(GDSURGEON, f"sh -c {shlex.quote(f'< {{DenseNet169}} {piped} > {{out}}')}", "in a pipe", slow=True),
    ]
    target = Target(times=1.3, peer=f"{GDSURGEON} alone")
    return Row("ten edits, proven at once, DenseNet169", contenders, target, "{DenseNet169}", "\n".join(TEN_EDITS))


def rows(sizes: dict[str, int], with_import: bool = False) -> dict[str, Row]:
    """Returns every row by name, in the order of the table."""
    big, medium, chain, short = (sizes[name] for name in ("big", "medium", "chain", "short"))
    variables, spoken_size = sizes["checkpoint"], f"{sizes['checkpoint'] // MB:,} MB"
    plain = "TensorFlow tf.gradients"
    checkpoint, planned = f"{{checkpoint:{variables}}}", "{gdsurgeon} add-gradients {tanh:10000} --ys out --xs x -n"
    listing = "{python} -c 'import sys, tensorflow as tf; print(tf.train.list_variables(sys.argv[1]))'"
    saved_model_cli, saved = beside_python("saved_model_cli"), f"{{saved-tf2:{variables}}}"
    renaming_saved = f"{{gdsurgeon}} rename {saved} serving_default_x=input -o {{folder}} --validate structure"

    def running(column: str, note: str, path: str) -> Contender:
        return Contender(column, f"{{in_tensorflow}} run {path} 32000000 20", note)

    return {
        "rename-big": edit("big", big, Target(times=1.3, megabytes=40)),
        "rename-medium": edit("medium", medium, Target(plus=0.08)),
        "rename-chain": edit("chain", chain, Target(seconds=0.4, megabytes=30), with_import),
        "rename-short-chain": edit("chain", short, None),
        "structure-big": structure("big", big, Target(times=2.0, peer="gdsurgeon without the check")),
        "structure-chain": structure("chain", chain, Target(seconds=3.0)),
        "help": Row(
            "gdsurgeon --help",
            [
                Contender(GDSURGEON, "{gdsurgeon} --help"),
                Contender(TENSORFLOW, f"{saved_model_cli} --help", "saved_model_cli --help", slow=True, status=1),
            ],
            Target(seconds=0.1),
        ),
        "list-checkpoint": Row(
            f"list the tensors of a checkpoint of {spoken_size}",
            [
                Contender(GDSURGEON, f"{{gdsurgeon}} checkpoint {checkpoint}"),
                Contender(TENSORFLOW, f"{listing} {checkpoint}", "tf.train.list_variables", slow=True),
            ],
            Target(seconds=0.2),
        ),
        "freeze-tf1": freeze("tf1", variables),
        "freeze-tf2": freeze("tf2", variables),
        "rename-saved": Row(
            f"rename in a SavedModel with {spoken_size} of variables, --validate structure",
            [Contender(GDSURGEON, renaming_saved), Contender(CP, f"cp -r {saved} {{folder}}")],
            Target(seconds=0.3),
        ),
        "inspect-saved": Row(
            "inspect Keras' MobileNetV2, exported",
            [
                Contender(GDSURGEON, "{gdsurgeon} inspect {saved-keras}"),
                Contender(
                    TENSORFLOW, f"{saved_model_cli} show --dir {{saved-keras}} --all", "saved_model_cli show", slow=True
                ),
            ],
            Target(seconds=0.4),
        ),
        "structure-tiny": Row(
            "rename with --validate structure, a tiny graph",
            [rename("tiny", 0, "structure"), peer("parse", "tiny")],
            Target(seconds=0.15),
        ),
        "proof-tiny": proof("tiny", 0.6),
        "proof-mobilenet": proof("MobileNetV2", 0.9),
        "proof-resnet": proof("ResNet50", 1.6),
        "apply-ten": ten_edits(),
        "proof-insert": proven("insert", "--at left/block_3/tanh_350 {part}"),
        "proof-fuse": proven("fuse-ops", "--select '^left/block_3/.*_35[0-9]$' --name fused"),
        "diff-5k": diff(5_000, 0.5),
        "diff-100k": diff(100_000, 5.0),
        "select-towers": surgery("select", short, "--between x=left/out"),
        "extract-towers": surgery("extract", short, "--outputs left/out"),
        "clone-towers": surgery("clone-scope", short, "left again"),
        "fuse-towers": surgery("fuse-ops", short, "--select '^left/block_1[0-3]/' --name fused"),
        "simplify-100k": surgery("simplify", short, kind="redundant", seconds=20.0),
        "fuse-xla": Row(
            "TensorFlow runs 108 elementwise ops on 32,000,000 floats, 20 times",
            [
                running(GDSURGEON, "fuse-ops --xla", "{fused-xla}"),
                running(TENSORFLOW, "unfused", "{pointwise:36}"),
                running(GDSURGEON, "fuse-ops", "{fused}"),
            ],
            Target(times=1 / 3, peer="TensorFlow unfused"),
        ),
        "gradients-tanh": gradients("tanh", "memory", "1,000 Tanh of 4 MiB", Target(less=15, times=1.5, peer=plain)),
        "gradients-resnet": gradients(
            "resnet", "memory", "ResNet50, batch 32, all weights", Target(less=2.8, times=1.25, peer=plain)
        ),
        "gradients-mobilenet": gradients(
            "mobilenet", "memory", "MobileNetV2, batch 32, all weights", Target(less=3.5, peer=plain)
        ),
        "gradients-budget": gradients(
            "resnet",
            "budget",
            "ResNet50, batch 32, all weights, 1,200 MiB (1,258 MB)",
            Target(megabytes=1.15 * 1200 * 1.048576),
        ),
        "gradients-consumers": gradients("consumers", "none", "a tensor of 4 MiB with 200 consumers", None),
        "simplified-mobilenet": optimised("simplified", "MobileNetV2", "off"),
        "simplified-mobilenet-grappler": optimised("simplified", "MobileNetV2", "on"),
        "simplified-resnet": optimised("simplified-resnet", "ResNet50", "off"),
        "simplified-resnet-grappler": optimised("simplified-resnet", "ResNet50", "on"),
        "folded-mobilenet": optimised("folded", "MobileNetV2", "on-1", " --fold-bn", 1.15),
        "plan-chain": Row(
            "add-gradients --checkpoints memory, a chain of 10,000 nodes",
            [
                Contender(GDSURGEON, f"{planned} --validate none --checkpoints memory --shape x=1000000"),
                Contender(GDSURGEON, f"{planned} --validate none", "without checkpoints"),
            ],
            Target(plus=5.0, peer="gdsurgeon without checkpoints"),
        ),
        "growth-nodes": growth(("chain", short), ("chain", chain), "node"),
        "growth-bytes": growth(("medium", medium), ("big", big), "byte"),
    }
