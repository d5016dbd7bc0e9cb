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
from dataclasses import replace
from typing import NamedTuple

from bench_support.measure import MB, Contender, Runner

HERE = os.path.dirname(os.path.abspath(__file__))
GDSURGEON, CP, TENSORFLOW, GTT = COLUMNS = ("gdsurgeon", "cp", "TensorFlow", "Graph Transform Tool")

FULL = {"big": 1_900 * MB, "medium": 100 * MB, "chain": 1_000_000, "short": 100_000, "checkpoint": 1_000 * MB}
QUICK = {"big": 200 * MB, "medium": 10 * MB, "chain": 100_000, "short": 10_000, "checkpoint": 100 * MB}
"""Bytes of models, nodes of chains, and bytes of a checkpoint."""

RECIPES = {
    "MobileNetV2": "{in_tensorflow} keras MobileNetV2 {path}",
    "ResNet50": "{in_tensorflow} keras ResNet50 {path}",
    "DenseNet169": "{in_tensorflow} keras DenseNet169 {path}",
    "saved-tf1": "{in_tensorflow} saved-tf1 {size} {path}",
    "saved-tf2": "{in_tensorflow} saved-tf2 {size} {path}",
    "saved-keras": "{in_tensorflow} saved-keras {path}",
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


class Row(NamedTuple):
    """A line of the table: the work, the target of the first contender (see `measure.met`), and the contenders.

    The work ends with the size of the model `weighed`. `script` is the content of the file `{script}`.
    """

    work: str
    target: str
    contenders: list[Contender]
    weighed: str = ""
    script: str = ""


class Workshop:
    """Makes models, once each, and contenders from commands."""

    def __init__(self, folder: str, runner: Runner, say: Callable[[str], None]) -> None:
        self.folder, self.runner, self.say = folder, runner, say
        programs = os.path.dirname(sys.executable)
        script = os.path.join(programs, "gdsurgeon")
        self.programs = {
            "gdsurgeon": script if os.path.exists(script) else f"{sys.executable} -m gdsurgeon",
            "saved_model_cli": os.path.join(programs, "saved_model_cli"),
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

    def ready(self, row: Row, before: str) -> Row:
        """Returns the row with filled templates; with `before`, also each command of gdsurgeon in this checkout."""
        with open(self.programs["script"], "w", encoding="utf-8") as file:
            file.write(row.script)
        for each in row.contenders:
            each.line, each.model = self.filled(each.line), self.filled(each.model)
        earlier = [
            replace(each, note=f"before {each.note}".strip(), tree=before, samples={})
            for each in row.contenders
            if before and each.column == GDSURGEON
        ]
        size = os.path.getsize(self.filled(row.weighed)) / MB if row.weighed else 0
        work = row.work + (f" ({size:.0f} MB)" if size >= 1 else "")
        return row._replace(work=work, contenders=row.contenders + earlier)


# -- commands ---------------------------------------------------------------------------------------------------------


def own(line: str, note: str = "", model: str = "", status: int = 0) -> Contender:
    """Returns a command of gdsurgeon."""
    return Contender(GDSURGEON, f"{{gdsurgeon}} {line}", note, model, status=status)


def rival(line: str, note: str = "") -> Contender:
    """Returns a command of TensorFlow that is slow."""
    return Contender(TENSORFLOW, line, note, slow=True)


def copy(path: str, note: str = "") -> Contender:
    return Contender(CP, f"cp {path} {{out}}", note, path)


def synced(path: str, model: str = "") -> Contender:
    """Returns a copy that is on the disk when it ends, like a file that gdsurgeon writes."""
    return Contender(CP, f"""sh -c 'cp "$1" "$2" && sync "$2"' sh {path} {{out}}""", "and sync", model)


def spoken(path: str) -> str:
    """Returns the template of a model in words."""
    kind, _, size = path.strip("{}").partition(":")
    if kind in ("big", "medium"):
        return f"a {int(size) // MB:,} MB model"
    return "a tiny graph" if kind == "tiny" else f"{int(size):,} small nodes" if kind == "chain" else kind


def renaming(path: str) -> tuple[str, str]:
    """Returns the node that is renamed in a model, and its new name."""
    kind, _, size = path.strip("{}").partition(":")
    node = int(size or 0) // 2
    old, new = (name.format(scope=node // 10_000, node=node) for name in RENAMED[kind])
    return old, new


def rename(path: str, validate: str = "run", note: str = "") -> Contender:
    return own(f"rename {path} {'='.join(renaming(path))} -o {{out}} --validate {validate}", note, path)


def peer(way: str, path: str, column: str = TENSORFLOW) -> Contender:
    """Returns the same rename by a different tool."""
    line = f"{{in_tensorflow}} {way} {path} {{out}} {' '.join(renaming(path))}"
    return Contender(column, line, model=path, slow=True)


def edit(path: str, target: str) -> Row:
    """Returns the edit without proof, compared with a file copy and with peers."""
    peers = [copy(path), synced(path, path), peer("parse", path), peer("gtt", path, GTT)]
    return Row(f"rename one node in {spoken(path)}", target, [rename(path, "none"), *peers])


def structure(path: str, target: str) -> Row:
    """Returns the edit with the structural check, compared with the edit without it."""
    contenders = [rename(path, "structure"), rename(path, "none", "without the check")]
    return Row(f"the same with --validate structure, {spoken(path)}", target, contenders)


def proof(path: str, target: str) -> Row:
    """Returns an edit with its proof, compared with the import of TensorFlow."""
    contenders = [rename(path), rival("{python} -c 'import tensorflow'", "import alone")]
    return Row(f"rename and proof by execution, {spoken(path)}", target, contenders, path)


def proven(command: str, arguments: str) -> Row:
    """Returns an edit with its proof in a graph of very many nodes, which shows the cost of analysing the graph."""
    line = f"{command} {{towers:50000}} {arguments} -o {{out}}"
    return Row(f"{command} and proof by execution, 50,000 nodes", "", [own(line)])


def surgery(command: str, model: str, arguments: str, target: str = "<= 2 s") -> Row:
    """Returns an edit that changes much of a graph, with the structural check."""
    out = "" if command == "select" else " -o {out} --validate structure"
    work = f"{command} in {int(model.partition(':')[2][:-1]):,} nodes, --validate structure"
    return Row(work, target, [own(f"{command} {model} {arguments}{out}")])


def diff(size: int, target: str) -> Row:
    """Returns a graph compared with a copy that has half of it under a different name, and one node less."""
    command = own(f"diff {{towers:{size}}} {{other:{size}}}", status=1)
    return Row(f"diff of two graphs of {size:,} nodes", target, [command])


def gradients(name: str, option: str, work: str, target: str) -> Row:
    """Returns a backward pass that TensorFlow runs, time and traced peak, compared with TensorFlow's own."""
    contenders = [
        Contender(column, f"{{in_tensorflow}} time-gradients {{{name}-{kind}}} {{figures}} {GRADIENTS[name][-1]}", note)
        for column, kind, note in ((GDSURGEON, option, CHECKPOINTS[option]), (TENSORFLOW, "own", "tf.gradients"))
    ]
    return Row(f"{work}: a run of the gradients, its peak", target, contenders)


def optimised(result: str, original: str, how: str, note: str = "simplify", factor: float = 1.03) -> Row:
    """Returns a simplified graph that TensorFlow runs, compared with the original."""
    contenders = [
        Contender(column, f"{{in_tensorflow}} time {{{model}}} {{figures}} image=1,224,224,3 Identity {how}", note)
        for column, model, note in ((GDSURGEON, result, note), (TENSORFLOW, original, "as it is"))
    ]
    threads = " on one thread, its optimizer on" if how == "on-1" else f", its optimizer {how}"
    return Row(f"TensorFlow runs {original}{threads}", f"<= {factor} x TensorFlow as it is", contenders)


def freeze(kind: str, size: int, peer: str) -> Row:
    """Returns variables to constants, compared with a copy of the variables and TensorFlow's own tool."""
    folder = f"{{saved-{kind}:{size}}}"
    contenders = [
        own(f"freeze {folder} -o {{out}} --validate structure"),
        synced(f"{folder}/variables/variables.data-00000-of-00001"),
        rival(f"{{in_tensorflow}} freeze-{kind} {folder} {{out}}", peer),
    ]
    work = f"freeze a SavedModel of TensorFlow {kind[-1]} with {size // MB:,} MB of variables, --validate structure"
    return Row(work, "<= 2.5 x cp and sync, <= 60 MB", contenders)


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
        own("apply {DenseNet169} {script} -o {out}"),
        *(own(f"{name} {{DenseNet169}} {words} -o {{out}}", f"alone: {name}") for name, words in SLOWEST_EDITS.items()),
        Contender(GDSURGEON, f"sh -c {shlex.quote(f'< {{DenseNet169}} {piped} > {{out}}')}", "in a pipe", slow=True),
    ]
    work, target = "ten edits, proven at once, DenseNet169", "<= 1.3 x gdsurgeon alone"
    return Row(work, target, contenders, "{DenseNet169}", "\n".join(TEN_EDITS))


def rows(sizes: dict[str, int]) -> dict[str, Row]:
    """Returns every row by name, in the order of the table."""
    big, medium, chain, short = (
        f"{{{k.replace('short', 'chain')}:{sizes[k]}}}" for k in ("big", "medium", "chain", "short")
    )
    variables, spoken_size = sizes["checkpoint"], f"{sizes['checkpoint'] // MB:,} MB"
    towers, redundant = (f"{{{kind}:{sizes['short']}}}" for kind in ("towers", "redundant"))
    checkpoint, saved = f"{{checkpoint:{variables}}}", f"{{saved-tf2:{variables}}}"
    listing = "{python} -c 'import sys, tensorflow as tf; print(tf.train.list_variables(sys.argv[1]))'"
    usage = Contender(TENSORFLOW, "{saved_model_cli} --help", "saved_model_cli --help", slow=True, status=1)
    planned = "add-gradients {tanh:10000} --ys out --xs x -n --validate none"
    runs = (
        (GDSURGEON, "fuse-ops --xla", "{fused-xla}"),
        (TENSORFLOW, "unfused", "{pointwise:36}"),
        (GDSURGEON, "fuse-ops", "{fused}"),
    )
    less, slower = ">= {} x less memory than TensorFlow tf.gradients", "<= {} x TensorFlow tf.gradients"
    return {
        "rename-big": edit(big, "<= 1.3 x cp, <= 40 MB"),
        "rename-medium": edit(medium, "<= cp + 80 ms"),
        "rename-chain": edit(chain, "<= 400 ms, <= 30 MB"),
        "rename-short-chain": edit(short, ""),
        "structure-big": structure(big, "<= 2 x gdsurgeon without the check"),
        "structure-chain": structure(chain, "<= 3 s"),
        "help": Row("gdsurgeon --help", "<= 100 ms", [own("--help"), usage]),
        "list-checkpoint": Row(
            f"list the tensors of a checkpoint of {spoken_size}",
            "<= 200 ms",
            [own(f"checkpoint {checkpoint}"), rival(f"{listing} {checkpoint}", "tf.train.list_variables")],
        ),
        "freeze-tf1": freeze("tf1", variables, "freeze_graph"),
        "freeze-tf2": freeze("tf2", variables, "convert_variables_to_constants_v2"),
        "rename-saved": Row(
            f"rename in a SavedModel with {spoken_size} of variables, --validate structure",
            "<= 300 ms",
            [
                own(f"rename {saved} serving_default_x=input -o {{folder}} --validate structure"),
                Contender(CP, f"cp -r {saved} {{folder}}"),
            ],
        ),
        "inspect-saved": Row(
            "inspect Keras' MobileNetV2, exported",
            "<= 400 ms",
            [
                own("inspect {saved-keras}"),
                rival("{saved_model_cli} show --dir {saved-keras} --all", "saved_model_cli show"),
            ],
        ),
        "structure-tiny": Row(
            "rename with --validate structure, a tiny graph",
            "<= 150 ms",
            [rename("{tiny}", "structure"), peer("parse", "{tiny}")],
        ),
        "proof-tiny": proof("{tiny}", "<= 600 ms"),
        "proof-mobilenet": proof("{MobileNetV2}", "<= 900 ms"),
        "proof-resnet": proof("{ResNet50}", "<= 1.6 s"),
        "apply-ten": ten_edits(),
        "proof-insert": proven("insert", "--at left/block_3/tanh_350 {part}"),
        "proof-fuse": proven("fuse-ops", "--select '^left/block_3/.*_35[0-9]$' --name fused"),
        "diff-5k": diff(5_000, "<= 500 ms"),
        "diff-100k": diff(100_000, "<= 5 s"),
        "select-towers": surgery("select", towers, "--between x=left/out"),
        "extract-towers": surgery("extract", towers, "--outputs left/out"),
        "clone-towers": surgery("clone-scope", towers, "left again"),
        "fuse-towers": surgery("fuse-ops", towers, "--select '^left/block_1[0-3]/' --name fused"),
        "simplify-100k": surgery("simplify", redundant, "", "<= 20 s"),
        "fuse-xla": Row(
            "TensorFlow runs 108 elementwise ops on 32,000,000 floats, 20 times",
            "<= 0.333 x TensorFlow unfused",
            [Contender(column, f"{{in_tensorflow}} run {path} 32000000 20", note) for column, note, path in runs],
        ),
        "gradients-tanh": gradients(
            "tanh", "memory", "1,000 Tanh of 4 MiB", f"{less.format(15)}, {slower.format(1.5)}"
        ),
        "gradients-resnet": gradients(
            "resnet", "memory", "ResNet50, batch 32, all weights", f"{less.format(2.8)}, {slower.format(1.25)}"
        ),
        "gradients-mobilenet": gradients("mobilenet", "memory", "MobileNetV2, batch 32, all weights", less.format(3.5)),
        "gradients-budget": gradients(
            "resnet", "budget", "ResNet50, batch 32, all weights, 1,200 MiB (1,258 MB)", "<= 1447 MB"
        ),
        "gradients-consumers": gradients("consumers", "none", "a tensor of 4 MiB with 200 consumers", ""),
        "simplified-mobilenet": optimised("simplified", "MobileNetV2", "off"),
        "simplified-mobilenet-grappler": optimised("simplified", "MobileNetV2", "on"),
        "simplified-resnet": optimised("simplified-resnet", "ResNet50", "off"),
        "simplified-resnet-grappler": optimised("simplified-resnet", "ResNet50", "on"),
        "folded-mobilenet": optimised("folded", "MobileNetV2", "on-1", "simplify --fold-bn", 0.87),
        "plan-chain": Row(
            "add-gradients --checkpoints memory, a chain of 10,000 nodes",
            "<= gdsurgeon without checkpoints + 5 s",
            [own(f"{planned} --checkpoints memory --shape x=1000000"), own(planned, "without checkpoints")],
        ),
    }
