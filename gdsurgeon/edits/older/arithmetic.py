"""Arithmetic, products of matrices and normalisation."""

from __future__ import annotations

from gdsurgeon.edits.older.broadcasting import broadcast, broadcast_shape, part_of_shape
from gdsurgeon.edits.older.site import Rule, Site, is_known, typed
from gdsurgeon.errors import Remark
from gdsurgeon.graph.attrs import int_value
from gdsurgeon.ops.dtypes import FLOAT32, INT32, dtype_name


def _add(site: Site) -> str:
    return site.become("Add")  # of strings, which alone it joins in an order of its own, AddV2 is none


def _leaky_relu(site: Site) -> str:
    alpha, dtype = site.node.setting("alpha"), site.dtype(0)
    if not isinstance(alpha, float) or not 0 <= alpha <= 1:
        return Remark(f"alpha is {alpha}, and only alpha from 0 to 1 has an older equivalent", "bad-value")
    if dtype != FLOAT32:
        return Remark(
            f"it is {dtype_name(dtype)}, and only float32 has an older equivalent",
            "unsupported-dtype",
            dtype=dtype_name(dtype),
        )
    scaled = site.add("scaled", "Mul", [site.node.inputs[0], site.const("alpha", dtype, alpha)], **typed(T=dtype))
    return site.become("Maximum", [site.node.inputs[0], scaled], drop=("alpha",), attrs=typed(T=dtype))


def _batch_mat_mul_v3(site: Site) -> str:
    dtypes = {site.node.setting(key) for key in ("Ta", "Tb", "Tout")}
    if len(dtypes) != 1:
        return Remark("its dtypes differ: add a Cast before it so that they are equal", "dtype-mismatch")
    return site.become("BatchMatMulV2", drop=("Ta", "Tb", "Tout"), attrs=typed(T=site.dtype(0)))


def _batch_mat_mul(site: Site) -> str:
    """BatchMatMul takes batches that are equal: they are made so, which is no change where they are."""
    a, b = (site.shape(slot) for slot in (0, 1))
    is_flat = a is not None and b is not None and len(a) == len(b) == 2
    if is_flat or (a is not None and b is not None and a[:-2] == b[:-2] and is_known(a[:-2])):
        return site.become("BatchMatMul")
    common = broadcast_shape(site, [part_of_shape(site, slot, batch=True) for slot in (0, 1)])
    both = []
    for slot in (0, 1):
        parts = [common, part_of_shape(site, slot, batch=False)]
        axis = site.ints(f"axis_{slot}", 0)
        shape = site.add(f"shape_{slot}", "ConcatV2", [*parts, axis], **typed(T=INT32, Tidx=INT32), N=int_value(2))
        both.append(broadcast(site, site.node.inputs[slot], shape, f"input_{slot}"))
    return site.become("BatchMatMul", both)


def _batch_norm(site: Site) -> str:
    if any(index > 4 for index in site.reads()):
        return Remark(
            "its output 5, which exists only for gradients, is used: remove the gradients with extract", "output-read"
        )
    return site.become("FusedBatchNormV2")


RULES = (
    Rule("AddV2", "Add", "", _add),
    Rule("LeakyRelu", "Maximum(x, alpha * x)", "alpha from 0 to 1, float32", _leaky_relu),
    Rule("BatchMatMulV3", "BatchMatMulV2", "one type", _batch_mat_mul_v3),
    Rule("BatchMatMulV2", "BatchMatMul, batches broadcast before it", "", _batch_mat_mul),
    Rule("FusedBatchNormV3", "FusedBatchNormV2", "output 5 is not read", _batch_norm),
)
