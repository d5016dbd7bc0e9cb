"""The rows of the bench: which commands each compares, and the target it must reach."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bench_support.generate import rename_of
from bench_support.measure import Contender, Runner
from bench_support.targets import MB, Growth, Target

HERE = os.path.dirname(os.path.abspath(__file__))
GDSURGEON, CP, TENSORFLOW, GTT = COLUMNS = ("gdsurgeon", "cp", "TensorFlow", "Graph Transform Tool")
WITHOUT_CHECK = "without the check"
WITHOUT_PLAN = "without checkpoints"
OWN_GRADIENTS = "tf.gradients"
GRADIENTS = {
    "tanh": ("out", "--xs", "x"),
    "consumers": ("out", "--xs", "x"),
    "MobileNetV2": ("Identity", "--weights"),
    "ResNet50": ("Identity", "--weights"),
}
"""The tensors of the models that are differentiated, and with respect to which tensors."""
KERAS = ("MobileNetV2", "ResNet50", "DenseNet169")
POINTWISE_STEPS = 36
AS_IT_IS = "as it is"


@dataclass(frozen=True)
class Sizes:
    """Bytes of the two heavy models, nodes of the two chains; bytes of a checkpoint."""

    big: int = 1_900 * MB
    medium: int = 100 * MB
    chain: int = 1_000_000
    short_chain: int = 100_000
    checkpoint: int = 1_000 * MB


FULL = Sizes()
QUICK = Sizes(200 * MB, 10 * MB, 100_000, 10_000, 100 * MB)


@dataclass(frozen=True)
class Model:
    """A generated model: its kind and, for some kinds, its size in bytes or nodes."""

    kind: str
    size: int = 0

    def __str__(self) -> str:
        if self.kind == "chain":
            return f"{self.size:,} small nodes"
        if self.kind in ("towers", "tanh", "consumers", "redundant"):
            return f"{self.size:,} nodes"
        if self.size:
            return f"a {self.size // MB:,} MB model"
        return "a tiny graph" if self.kind == "tiny" else self.kind

    @property
    def file(self) -> str:
        return f"{self.kind}_{self.size}.pb" if self.size else f"{self.kind}.pb"

    @property
    def renaming(self) -> tuple[str, str]:
        """The node that the bench renames, and its new name."""
        # TF 2 ends a frozen graph with a node called Identity.
        return ("Identity", "scores") if self.kind in KERAS else rename_of(self.kind, self.size)


TINY = Model("tiny")


@dataclass(frozen=True)
class Row:
    """A line of the table. The first contender is the one that has the target to reach."""

    work: str
    contenders: list[Contender]
    target: Target | Growth | None = None


class Workshop:
    """Makes models, once each, and the commands that work on them."""

    def __init__(self, folder: str, runner: Runner, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.runner = runner
        self.say = say
        self.output = os.path.join(folder, "out.pb")
        script = beside_python("gdsurgeon")
        self.gdsurgeon = (script,) if os.path.exists(script) else (sys.executable, "-m", "gdsurgeon")

    def path(self, model: Model) -> str:
        """The model's file. Raises Failed where it cannot be made."""
        path = os.path.join(self.folder, model.file)
        if not os.path.exists(path):
            self.say(f"generating {model.file}")
            script = "generate_with_tensorflow.py" if model.kind in KERAS else "generate.py"
            unfinished = f"{path}.part"
            self.runner.run((sys.executable, helper(script), model.kind, str(model.size), unfinished))
            os.replace(unfinished, path)
        return path

    def checkpoint(self, size: int) -> str:
        """The prefix of a checkpoint of SIZE bytes. Raises Failed where it cannot be made."""
        prefix = os.path.join(self.folder, f"checkpoint_{size}")
        if not os.path.exists(f"{prefix}.index"):
            self.say(f"generating {prefix}")
            self.runner.run((sys.executable, helper("generate.py"), "checkpoint", str(size), prefix))
        return prefix

    def edit(self, model: Model, command: str, *arguments: str, note: str = "") -> Contender:
        """Any command that edits; its output is of another size than its model."""
        output = () if command == "select" else ("-o", self.output, "--validate", "structure")
        return Contender(GDSURGEON, (*self.gdsurgeon, command, self.path(model), *arguments, *output), note)

    def fused(self, model: Model, suffix: str, *options: str) -> str:
        """The file of MODEL with the scope `chain` fused."""
        path = self.path(model)
        fused = f"{path}.{suffix}.pb"
        if not os.path.exists(fused):
            self.runner.run(
                (*self.gdsurgeon, "fuse-ops", path, "--scope", "chain", "--name", "fused", "-o", fused, *options)
            )
        return fused

    def run(self, column: str, note: str, path: str, elements: int, runs: int) -> Contender:
        """TensorFlow running a graph, start-up included."""
        return Contender(column, (sys.executable, helper("run_graph.py"), "run", path, str(elements), str(runs)), note)

    def rename(self, model: Model, validate: str | None = None, note: str = "") -> Contender:
        path, (old, new) = self.path(model), model.renaming
        options = ("--validate", validate) if validate else ()
        command = (*self.gdsurgeon, "rename", path, f"{old}={new}", "-o", self.output, *options)
        return Contender(GDSURGEON, command, note, path, self.output)

    def cp(self, model: Model, note: str = "") -> Contender:
        path = self.path(model)
        return Contender(CP, ("cp", path, self.output), note, path, self.output)

    def cp_and_sync(self, model: Model) -> Contender:
        """A copy that is on the disk when it ends, as what replaces a file safely has to be."""
        path = self.path(model)
        command = ("sh", "-c", 'cp "$1" "$2" && sync "$2"', "sh", path, self.output)
        return Contender(CP, command, "and sync", path, self.output)

    def gradients(self, model: Model, feed: str, *options: str) -> str:
        """The file of MODEL with gradients."""
        path = self.path(model)
        out = f"{path}.{'_'.join(options).replace('-', '')}.pb"
        if not os.path.exists(out):
            ys, *sources = GRADIENTS[model.kind]
            command = (*self.gdsurgeon, "add-gradients", path, "--ys", ys, *sources, "--shape", feed, *options)
            self.runner.run((*command, "--validate", "none", "-o", out))
        return out

    def own_gradients(self, model: Model) -> str:
        """The file of MODEL with the gradients that TensorFlow makes itself."""
        path = self.path(model)
        out = f"{path}.tensorflow.pb"
        if not os.path.exists(out):
            self.runner.run(
                (sys.executable, helper("run_graph.py"), "make-gradients", path, out, *GRADIENTS[model.kind])
            )
        return out

    def backward(self, column: str, note: str, path: str, feed: str) -> Contender:
        """TensorFlow running the gradients in a graph: it measures that itself, start-up left out."""
        figures = f"{path}.json"
        command = (sys.executable, helper("run_graph.py"), "time-gradients", path, figures, feed)
        return Contender(column, command, note, figures=figures)

    def simplified(self, model: Model, *options: str) -> str:
        """The file of MODEL, simplified with OPTIONS."""
        path = self.path(model)
        out = f"{path}.simplified{''.join(options)}.pb"
        if not os.path.exists(out):
            self.runner.run((*self.gdsurgeon, "simplify", path, *options, "-o", out))
        return out

    def timed(self, column: str, note: str, path: str, run: Sequence[str]) -> Contender:
        """TensorFlow running a graph as RUN says (feed, fetch, optimiser): it measures that itself."""
        figures = f"{path}.{run[-1]}.json"
        command = (sys.executable, helper("run_graph.py"), "time", path, figures, *run)
        return Contender(column, command, note, figures=figures)

    def peer(self, way: str, model: Model, column: str, note: str = "") -> Contender:
        path = self.path(model)
        command = (sys.executable, helper("peers.py"), way, path, self.output, *model.renaming)
        return Contender(column, command, note, path, self.output, slow=True)


def helper(script: str) -> str:
    return os.path.join(HERE, script)


def beside_python(script: str) -> str:
    return os.path.join(os.path.dirname(sys.executable), script)


# The shapes that rows have.


def edit_row(
    shop: Workshop,
    model: Model,
    target: Target | None,
    with_import: bool = False,
) -> Row:
    """The edit alone, against a file copy and the peers."""
    contenders = [
        shop.rename(model, "none"),
        shop.cp(model),
        shop.cp_and_sync(model),
        shop.peer("parse", model, TENSORFLOW),
        shop.peer("gtt", model, GTT),
    ]
    if with_import:
        contenders.append(shop.peer("import", model, TENSORFLOW, "and import_graph_def"))
    return Row(f"rename one node in {model}", contenders, target)


def structure_row(shop: Workshop, model: Model, target: Target | None = None) -> Row:
    """The edit with the structural check, against the edit alone; by default it may cost as much again."""
    alone = shop.rename(model, "none", WITHOUT_CHECK)
    contenders = [shop.rename(model, "structure"), alone]
    work = f"the same with --validate structure, {model}"
    return Row(work, contenders, target or Target(times=2.0, peer=alone.label))


def small_structure_row(shop: Workshop) -> Row:
    contenders = [shop.rename(TINY, "structure"), shop.peer("parse", TINY, TENSORFLOW)]
    work = "rename with --validate structure, a tiny graph"
    return Row(work, contenders, Target(seconds=0.15))


def help_row(shop: Workshop) -> Row:
    command = (beside_python("saved_model_cli"), "--help")  # which ends with status 1
    contenders = [
        Contender(GDSURGEON, (*shop.gdsurgeon, "--help")),
        Contender(TENSORFLOW, command, "saved_model_cli --help", slow=True, status=1),
    ]
    return Row("gdsurgeon --help", contenders, Target(seconds=0.1))


def checkpoint_row(shop: Workshop, size: int) -> Row:
    """The tensors of a checkpoint, against TensorFlow's own list of them."""
    prefix = shop.checkpoint(size)
    listing = "import sys, tensorflow as tf; print(tf.train.list_variables(sys.argv[1]))"
    contenders = [
        Contender(GDSURGEON, (*shop.gdsurgeon, "checkpoint", prefix)),
        Contender(TENSORFLOW, (sys.executable, "-c", listing, prefix), "tf.train.list_variables", slow=True),
    ]
    work = f"list the tensors of a checkpoint of {size // MB:,} MB"
    return Row(work, contenders, Target(seconds=0.2))


def proof_row(shop: Workshop, model: Model, seconds: float) -> Row:
    """An edit with its proof, against what importing TensorFlow takes before any work."""
    importing = (sys.executable, "-c", "import tensorflow")
    contenders = [
        shop.rename(model),
        Contender(TENSORFLOW, importing, "import alone", slow=True),
    ]
    megabytes = os.path.getsize(shop.path(model)) / MB
    size = f" ({megabytes:.0f} MB)" if megabytes >= 1 else ""
    return Row(f"rename and proof by execution, {model}{size}", contenders, Target(seconds=seconds))


def proven_surgery_row(shop: Workshop, command: str, *arguments: str) -> Row:
    """An edit with its proof in a graph of very many nodes, which shows the cost of analysing the graph."""
    model = Model("towers", 50_000)
    contender = Contender(GDSURGEON, (*shop.gdsurgeon, command, shop.path(model), *arguments, "-o", shop.output))
    return Row(f"{command} and proof by execution, {model}", [contender])


def with_before(row: Row, tree: str) -> Row:
    """ROW with each command of gdsurgeon run a second time, with the gdsurgeon of the checkout TREE."""
    own = [one for one in row.contenders if one.column == GDSURGEON]
    before = [replace(one, note=f"before {one.note}".strip(), tree=tree) for one in own]
    return replace(row, contenders=[*row.contenders, *before])


def diff_row(shop: Workshop, model: Model, seconds: float) -> Row:
    """A graph, and the same with half of it under another name and a node less."""
    path = shop.path(model)
    renamed, other = f"{path}.renamed.pb", f"{path}.other.pb"
    if not os.path.exists(other):
        unproven = ("--validate", "none")
        shop.runner.run((*shop.gdsurgeon, "rename", path, "--rename-scope", "left=again", "-o", renamed, *unproven))
        removing = ("remove", renamed, "--node", "again/out", "--bypass", "--allow-outputs")
        shop.runner.run((*shop.gdsurgeon, *removing, "-o", other, *unproven))
    compared = Contender(GDSURGEON, (*shop.gdsurgeon, "diff", path, other), status=1)
    return Row(f"diff of two graphs of {model}", [compared], Target(seconds=seconds))


def surgery_row(shop: Workshop, model: Model, command: str, *arguments: str, seconds: float = 2.0) -> Row:
    """An edit that touches much of a graph, with the structural check."""
    work = f"{command} in {model}, --validate structure"
    return Row(work, [shop.edit(model, command, *arguments)], Target(seconds=seconds))


def xla_row(shop: Workshop, elements: int, runs: int) -> Row:
    """A memory-bound chain run as it is, as a function, and as one that XLA compiles."""
    model = Model("pointwise", POINTWISE_STEPS)
    unfused = shop.run(TENSORFLOW, "unfused", shop.path(model), elements, runs)
    contenders = [
        shop.run(GDSURGEON, "fuse-ops --xla", shop.fused(model, "xla", "--xla"), elements, runs),
        unfused,
        shop.run(GDSURGEON, "fuse-ops", shop.fused(model, "function"), elements, runs),
    ]
    work = f"TensorFlow runs {3 * POINTWISE_STEPS} elementwise ops on {elements:,} floats, {runs} times"
    return Row(work, contenders, Target(times=1 / 3, peer=unfused.label))


def gradient_row(
    shop: Workshop, model: Model, feed: str, options: tuple[str, ...], target: Target | None, work: str
) -> Row:
    """A backward pass that TensorFlow runs, time and traced peak of one run; against the one that it makes itself."""
    contenders = [
        shop.backward(GDSURGEON, " ".join(options), shop.gradients(model, feed, *options), feed),
        shop.backward(TENSORFLOW, OWN_GRADIENTS, shop.own_gradients(model), feed),
    ]
    return Row(f"{work}: a run of the gradients, its peak", contenders, target)


def simplified_row(shop: Workshop, model: Model, optimised: str) -> Row:
    """A graph that TensorFlow runs, simplified, against what it was; it may not be slower, but for noise."""
    run = ("image=1,224,224,3", "Identity", optimised)
    contenders = [
        shop.timed(GDSURGEON, "simplify", shop.simplified(model), run),
        shop.timed(TENSORFLOW, AS_IT_IS, shop.path(model), run),
    ]
    work = f"TensorFlow runs {model}, its optimizer {optimised}"
    return Row(work, contenders, Target(times=1 / 0.97, peer=contenders[1].label))


def folded_row(shop: Workshop, model: Model, times: float) -> Row:
    """A graph that TensorFlow runs, its batch norms folded, against what it was: at least TIMES as fast."""
    run = ("image=1,224,224,3", "Identity", "on-1")
    contenders = [
        shop.timed(GDSURGEON, "simplify --fold-bn", shop.simplified(model, "--fold-bn"), run),
        shop.timed(TENSORFLOW, AS_IT_IS, shop.path(model), run),
    ]
    work = f"TensorFlow runs {model} on one thread, its optimizer on"
    return Row(work, contenders, Target(times=1 / times, peer=contenders[1].label))


def planning_row(shop: Workshop, nodes: int) -> Row:
    """Choosing checkpoints, against the same edit that keeps everything."""
    model = Model("tanh", nodes)
    wanted = ("--ys", "out", "--xs", "x", "--validate", "none", "-n")
    command = (*shop.gdsurgeon, "add-gradients", shop.path(model), *wanted)
    contenders = [
        Contender(GDSURGEON, (*command, "--checkpoints", "memory", "--shape", "x=1000000")),
        Contender(GDSURGEON, command, WITHOUT_PLAN),
    ]
    work = f"add-gradients --checkpoints memory, a chain of {nodes:,} nodes"
    return Row(work, contenders, Target(plus=5.0, peer=contenders[1].label))


def growth_row(shop: Workshop, middle: Model, large: Model, unit: str) -> Row:
    """The edit alone on three sizes; where bytes grow, cp on the same three."""
    notes = {TINY: "tiny", middle: "middle", large: "large"}
    contenders = [shop.rename(model, "none", note) for model, note in notes.items()]
    if unit == "byte":
        contenders += [shop.cp(model, note) for model, note in notes.items()]
    growth = Growth((0, middle.size, large.size), unit)
    return Row(f"growth from {middle} to {large}", contenders, growth)


VARIABLES = os.path.join("variables", "variables.data-00000-of-00001")
COPY = 'cp "$1" "$2" && sync "$2"'


def folder_of(shop: Workshop, kind: str, size: int = 0) -> str:
    """The folder of a SavedModel of KIND. Raises Failed where it cannot be made."""
    folder = os.path.join(shop.folder, f"{kind}_{size}")
    if not os.path.exists(folder):
        shop.say(f"generating {os.path.basename(folder)}")
        unfinished = f"{folder}.part"
        shop.runner.run((sys.executable, helper("generate_with_tensorflow.py"), f"saved-{kind}", str(size), unfinished))
        os.replace(unfinished, folder)
    return folder


def freeze_row(shop: Workshop, kind: str, size: int) -> Row:
    """Variables to constants, from file to file, against a copy of the variables and TensorFlow's own tool."""
    folder, out = folder_of(shop, kind, size), shop.output
    command = (*shop.gdsurgeon, "freeze", folder, "-o", out, "--validate", "structure")
    copy = Contender(CP, ("sh", "-c", COPY, "sh", os.path.join(folder, VARIABLES), out), "and sync", output=out)
    peer = (sys.executable, helper("peers.py"), f"freeze-{kind}", folder, out, "y", "y")
    own = "freeze_graph" if kind == "tf1" else "convert_variables_to_constants_v2"
    contenders = [
        Contender(GDSURGEON, command, output=out),
        copy,
        Contender(TENSORFLOW, peer, own, output=out, slow=True),
    ]
    kinds = {"tf1": "TensorFlow 1", "tf2": "TensorFlow 2"}
    work = f"freeze a SavedModel of {kinds[kind]} with {size // MB:,} MB of variables, --validate structure"
    return Row(work, contenders, Target(times=2.5, peer=copy.label, megabytes=60))


def rename_saved_row(shop: Workshop, size: int) -> Row:
    """An edit of a model with a large checkpoint, which is linked."""
    folder, out = folder_of(shop, "tf2", size), os.path.join(shop.folder, "renamed")
    rename = (*shop.gdsurgeon, "rename", folder, "serving_default_x=input", "-o", out, "--validate", "structure")
    copy = Contender(CP, ("cp", "-r", folder, out), output=out)
    work = f"rename in a SavedModel with {size // MB:,} MB of variables, --validate structure"
    return Row(work, [Contender(GDSURGEON, rename, output=out), copy], Target(seconds=0.3))


def inspect_saved_row(shop: Workshop) -> Row:
    folder = folder_of(shop, "keras")
    show = (beside_python("saved_model_cli"), "show", "--dir", folder, "--all")
    contenders = [
        Contender(GDSURGEON, (*shop.gdsurgeon, "inspect", folder)),
        Contender(TENSORFLOW, show, "saved_model_cli show", slow=True),
    ]
    return Row("inspect Keras' MobileNetV2, exported", contenders, Target(seconds=0.4))


STEPS_IN_FRONT = (
    "decode-image(channels=3) | resize(224,224, like=tf1) | normalize(mean=[123.7,116.8,103.9], std=[58.4,57.1,57.4])"
)
FIRST_LAYER = "densenet169_1/conv1"
TEN_EDITS = (
    "rename image=picture Identity=logits",
    "set-shape picture=1,224,224,3",
    f"add-preprocessing --at picture --steps '{STEPS_IN_FRONT}'",
    "rename picture=jpeg",
    "add-postprocessing --at logits --steps 'top-k(5)'",
    f"freeze-input {FIRST_LAYER}_bn_1/batchnorm/add/y=0.00001",
    f"control-edges --add logits=^{FIRST_LAYER}_relu_1/Relu",
    "set-device --assign /cpu:0 --op Relu",
    f"remove --node {FIRST_LAYER}_conv_1/convolution/ReadVariableOp --bypass",
    f"rename {FIRST_LAYER}_relu_1/Relu=first",
)
"""Edits of a frozen model before it is served."""
SLOWEST_EDITS = (
    ("set-shape", "image=1,224,224,3"),
    ("add-preprocessing", "--at", "image", "--steps", STEPS_IN_FRONT),
    ("add-postprocessing", "--at", "Identity", "--steps", "top-k(5)"),
    ("freeze-input", f"{FIRST_LAYER}_bn_1/batchnorm/add/y=0.00001"),
)
"""The slowest of `TEN_EDITS`, each on the original model."""


def apply_row(shop: Workshop, model: Model) -> Row:
    """Ten edits of MODEL with one proof; each command of the pipe proves what it has made."""
    path, script = shop.path(model), os.path.join(shop.folder, "ten.gds")
    with open(script, "w", encoding="utf-8") as file:
        file.write("\n".join(TEN_EDITS))
    calls = [(name, "-", *words) for name, *words in map(shlex.split, TEN_EDITS)]
    piped = " | ".join(shlex.join((*shop.gdsurgeon, *call, "-o", "-")) for call in calls)
    contenders = [
        Contender(GDSURGEON, (*shop.gdsurgeon, "apply", path, script, "-o", shop.output)),
        *(
            Contender(GDSURGEON, (*shop.gdsurgeon, name, path, *words, "-o", shop.output), f"alone: {name}")
            for name, *words in SLOWEST_EDITS
        ),
        Contender(GDSURGEON, ("sh", "-c", f'< "$1" {piped} > "$2"', "sh", path, shop.output), "in a pipe", slow=True),
    ]
    size = os.path.getsize(path) // 1_000_000
    work = f"ten edits, proven at once, {model} ({size} MB)"
    return Row(work, contenders, Target(times=1.3, peer=f"{GDSURGEON} alone"))


def row_makers(shop: Workshop, sizes: Sizes, with_import: bool) -> dict[str, Callable[[], Row]]:
    """Every row by name, in the order of the table; a row makes its models when it is called for."""
    big, medium = Model("big", sizes.big), Model("medium", sizes.medium)
    chain, short_chain = Model("chain", sizes.chain), Model("chain", sizes.short_chain)
    mobilenet, resnet, densenet = map(Model, KERAS)
    towers = Model("towers", sizes.short_chain)
    tanh, images, memory = Model("tanh", 1000), "image=32,224,224,3", ("--checkpoints", "memory")
    plain = f"{TENSORFLOW} {OWN_GRADIENTS}"
    return {
        "rename-big": lambda: edit_row(shop, big, Target(times=1.3, megabytes=40)),
        "rename-medium": lambda: edit_row(shop, medium, Target(plus=0.08)),
        "rename-chain": lambda: edit_row(shop, chain, Target(seconds=0.4, megabytes=30), with_import),
        "rename-short-chain": lambda: edit_row(shop, short_chain, None),
        "structure-big": lambda: structure_row(shop, big),
        "structure-chain": lambda: structure_row(shop, chain, Target(seconds=3.0)),
        "help": lambda: help_row(shop),
        "list-checkpoint": lambda: checkpoint_row(shop, sizes.checkpoint),
        "freeze-tf1": lambda: freeze_row(shop, "tf1", sizes.checkpoint),
        "freeze-tf2": lambda: freeze_row(shop, "tf2", sizes.checkpoint),
        "rename-saved": lambda: rename_saved_row(shop, sizes.checkpoint),
        "inspect-saved": lambda: inspect_saved_row(shop),
        "structure-tiny": lambda: small_structure_row(shop),
        "proof-tiny": lambda: proof_row(shop, TINY, 0.6),
        "proof-mobilenet": lambda: proof_row(shop, mobilenet, 0.9),
        "proof-resnet": lambda: proof_row(shop, resnet, 1.6),
        "apply-ten": lambda: apply_row(shop, densenet),
        "proof-insert": lambda: proven_surgery_row(
            shop, "insert", "--at", "left/block_3/tanh_350", shop.path(Model("part"))
        ),
        "proof-fuse": lambda: proven_surgery_row(
            shop, "fuse-ops", "--select", "^left/block_3/.*_35[0-9]$", "--name", "fused"
        ),
        "diff-5k": lambda: diff_row(shop, Model("towers", 5_000), 0.5),
        "diff-100k": lambda: diff_row(shop, Model("towers", 100_000), 5.0),
        "select-towers": lambda: surgery_row(shop, towers, "select", "--between", "x=left/out"),
        "extract-towers": lambda: surgery_row(shop, towers, "extract", "--outputs", "left/out"),
        "clone-towers": lambda: surgery_row(shop, towers, "clone-scope", "left", "again"),
        "fuse-towers": lambda: surgery_row(
            shop, towers, "fuse-ops", "--select", "^left/block_2[0-3]/", "--name", "fused"
        ),
        "simplify-100k": lambda: surgery_row(shop, Model("redundant", sizes.short_chain), "simplify", seconds=20.0),
        "fuse-xla": lambda: xla_row(shop, 32_000_000, 20),
        "gradients-tanh": lambda: gradient_row(
            shop, tanh, "x=1048576", memory, Target(less=15, times=1.5, peer=plain), "1,000 Tanh of 4 MiB"
        ),
        "gradients-resnet": lambda: gradient_row(
            shop, resnet, images, memory, Target(less=2.8, times=1.25, peer=plain), "ResNet50, batch 32, all weights"
        ),
        "gradients-mobilenet": lambda: gradient_row(
            shop, mobilenet, images, memory, Target(less=3.5, peer=plain), "MobileNetV2, batch 32, all weights"
        ),
        "gradients-budget": lambda: gradient_row(
            shop,
            resnet,
            images,
            ("--budget", "1200"),
            Target(megabytes=1.15 * 1200 * 1.048576),
            "ResNet50, batch 32, all weights, 1,200 MiB (1,258 MB)",
        ),
        "gradients-consumers": lambda: gradient_row(
            shop,
            Model("consumers", 200),
            "x=1048576",
            ("--checkpoints", "none"),
            None,
            "a tensor of 4 MiB with 200 consumers",
        ),
        "simplified-mobilenet": lambda: simplified_row(shop, mobilenet, "off"),
        "simplified-mobilenet-grappler": lambda: simplified_row(shop, mobilenet, "on"),
        "simplified-resnet": lambda: simplified_row(shop, resnet, "off"),
        "simplified-resnet-grappler": lambda: simplified_row(shop, resnet, "on"),
        "folded-mobilenet": lambda: folded_row(shop, mobilenet, 1.15),
        "plan-chain": lambda: planning_row(shop, 10_000),
        "growth-nodes": lambda: growth_row(shop, short_chain, chain, "node"),
        "growth-bytes": lambda: growth_row(shop, medium, big, "byte"),
    }
