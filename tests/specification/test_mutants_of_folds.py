# ruff: noqa: E501 (a text of the source stands in one line here, too)
"""Mistakes planted in what simplify folds, which the specification must find without running anything."""

from __future__ import annotations

import pytest
from support.folding import conv, fused, image, ints, numbers, relu, spelt_out, whole
from support.graphs import FLOAT, INT32, const, graph, node
from support.mutants import Case, Mutant, check_caught

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.simplify import simplify
from gdsurgeon.graph.graph import Graph

PASSES = "edits.simplifying"
CHANNELS, NORMS, REPLACED, PADS = (f"{PASSES}.{name}" for name in ("channels", "batch_norms", "replaced", "paddings"))


def case(*records: bytes) -> Case:
    """The fold of a model, which has something unread besides."""

    def made() -> tuple[Graph, EditResult]:
        found = graph(*records, const("unread", [1.0]))
        return found, simplify(found, passes=["unread"], fold_bn=True)

    return made


PLAIN = conv("c", "x", (3, 3, 4, 3))
NORM = case(image(), *PLAIN, *fused("n", "c", 3), relu("n"))
SUMS = case(image(), *PLAIN, numbers("f", [3]), numbers("g", [3]), node("d", "Sub", ["g", "c"], T=FLOAT),
            node("m", "Mul", ["d", "f"], T=FLOAT), node("n", "AddV2", ["m", "g"], T=FLOAT), relu("n"))  # fmt: skip
QUOTIENT = case(image(), *PLAIN, numbers("f", [3], 1, 2), node("n", "RealDiv", ["c", "f"], T=FLOAT), relu("n"))
SPELT = case(image(), *PLAIN, *spelt_out("n", "c", 3), relu("n"))
DEEP = case(image(), *conv("c", "x", (2, 2, 4, 2), "DepthwiseConv2dNative"), *fused("n", "c", 8), relu("n"))
SQUARE = case(image(), whole("flat", [-1, 4]), node("r", "Reshape", ["x", "flat"], T=FLOAT, Tshape=INT32),
              numbers("w", [4, 4]), node("c", "MatMul", ["r", "w"], T=FLOAT, transpose_b=True), *spelt_out("n", "c", 4),
              relu("n"))  # fmt: skip
STRIDES = case(image(), *conv("c", "x", (3, 3, 4, 3), strides=(1, 2, 2, 1)), *fused("n", "c", 3), relu("n"))
DEVICES = case(image(), PLAIN[0], node("c", "Conv2D", ["x", "c/w"], device="/cpu:1", T=FLOAT, padding="SAME",
               strides=ints((1, 1, 1, 1))), *fused("n", "c", 3), relu("n"))  # fmt: skip
TWICE = case(image(), *PLAIN, *fused("n", "c", 3), relu("n"), relu("c/w", "z", "Neg"))
READ = case(image(), *PLAIN, *fused("n", "c", 3), relu("n"), relu("c", "z", "Neg"))
ASIDE = case(image(), *PLAIN, *fused("n", "c", 3), relu("n"), relu("n:1", "z", "Neg"))
PADDED = case(image(), whole("pads", [0, 0, 2, 1, 0, 1, 0, 0], (4, 2)),
              node("p", "Pad", ["x", "pads"], T=FLOAT, Tpaddings=INT32), *conv("n", "p", (3, 3, 4, 3), padding="VALID"),
              relu("n"))  # fmt: skip
GAPS = case(image(side=6), whole("block", [2, 3]), whole("pads", [2, 2, 1, 2], (2, 2)), whole("crops", [1, 0, 0, 0], (2, 2)),
            node("t", "SpaceToBatchND", ["x", "block", "pads"], T=FLOAT, Tblock_shape=INT32, Tpaddings=INT32),
            *conv("c", "t", (3, 3, 4, 3), padding="VALID"),
            node("n", "BatchToSpaceND", ["c", "block", "crops"], T=FLOAT, Tblock_shape=INT32, Tcrops=INT32), relu("n"))  # fmt: skip

MUTANTS = [
    Mutant("the variance is not made a root of", CHANNELS, "1 / np.sqrt(variance + epsilon)", "1 / (variance + epsilon)", NORM),
    Mutant("epsilon is left out", CHANNELS, "1 / np.sqrt(variance + epsilon)", "1 / np.sqrt(variance)", NORM),
    Mutant("the mean is added", CHANNELS, "_added(done, -mean)", "_added(done, mean)", NORM),
    Mutant("beta is left out", CHANNELS, "return _added(_multiplied(scaled, gamma) if is_scaled else scaled, beta)", "return _multiplied(scaled, gamma)", NORM),
    Mutant("gamma is left out", CHANNELS, "_multiplied(scaled, gamma) if is_scaled else scaled", "scaled", NORM),
    Mutant("a sum is not multiplied", CHANNELS, "Affine(done.scale * factor, done.offset * factor,", "Affine(done.scale * factor, done.offset,", SUMS),
    Mutant("a difference is turned round", CHANNELS, "turned = done if slot == 0 else", "turned = done if slot == 1 else", SUMS),
    Mutant("a quotient is a product", CHANNELS, 'value if node.op == "Mul" else 1 / value', "value", QUOTIENT),
    Mutant("constants are taken the other way round", CHANNELS, "np.asarray(rule.value(*parts))", "np.asarray(rule.value(*parts[::-1]))", SPELT),
    Mutant("one channel is 1 % wrong", NORMS, "offset = exact.astype(old.dtype), chain.does.offset.astype(old.dtype)", "offset = (exact * (1 + 0.01 * (np.arange(exact.size).reshape(exact.shape) % 3 == 1))).astype(old.dtype), chain.does.offset.astype(old.dtype)", NORM),
    Mutant("weights are rounded twice", NORMS, "exact: Array = old.astype(np.float64) * chain.does.scale.reshape(shape)", "exact: Array = (old.astype(np.float16) * chain.does.scale.reshape(shape)).astype(np.float64)", NORM),
    Mutant("channels of depthwise weights are others", NORMS, "old.astype(np.float64) * chain.does.scale.reshape(shape)", "old.astype(np.float64) * (chain.does.scale.reshape(shape[::-1]).T if len(counted) > 1 else chain.does.scale.reshape(shape))", DEEP),
    Mutant("a matrix is not turned", NORMS, 'if conv.op == "MatMul" and conv.setting("transpose_b"):', "if False:", SQUARE),
    Mutant("the sums are left out", NORMS, "if offset.any():", "if False:", NORM),
    Mutant("the weights stay as they were", NORMS, "filters.output if slot == 1 else read", "read", NORM),
    Mutant("weights that others read are folded", NORMS, "if node in sites.kept or beside or len(sites.graph.users(node)) != 1 or len(sites.graph.uses(node.output)) != 1:", "if False:", TWICE),
    Mutant("a statistic is still read", NORMS, "if any(read.node is node and read.index for user in sites.graph.users(node) for read in user.inputs):", "if False:", ASIDE),
    Mutant("the device is another's", NORMS, "or use.node.controls or use.node.device != conv.device", "or use.node.controls", DEVICES),
    Mutant("attrs are lost", REPLACED, "made = graph.add_copy(self.sites.unique(f\"{self.last.name}/{node.op}\"), node, after=behind)", "made = graph.add_copy(self.sites.unique(f\"{self.last.name}/{node.op}\"), node, after=behind); graph.set_attr(made, 'padding', b'\\x12\\x05VALID')", STRIDES),
    Mutant("pads lie the other way round", PADS, "[size for pair in folding.pads for size in pair]", "[size for pair in folding.pads for size in pair[::-1]]", PADDED),
    Mutant("pads are left out", PADS, "if folding.pads == ((0, 0), (0, 0)):", "if True:", PADDED),
    Mutant("crops are left out", PADS, "padded = [pad - crop for pad, crop in zip(sizes[0], sizes[1], strict=True)]", "padded = list(sizes[0])", GAPS),
    Mutant("gaps are left out", PADS, 'out["dilations"] = ints_value(gaps)', "pass", GAPS),
    Mutant("gaps are exchanged", PADS, "gaps[first : first + 2] = folding.gaps", "gaps[first : first + 2] = folding.gaps[::-1]", GAPS),
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake)
def test_a_mistake_is_found(mutant: Mutant) -> None:
    check_caught(mutant)
