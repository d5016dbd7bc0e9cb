"""The published SavedModels and MetaGraphs: unedited they keep their bytes, frozen they give what they gave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import loaders
from support.desk import Desk
from support.graphs import FLOAT, INT32, node, placeholder
from support.published import FOLDER, needs_models
from support.renaming import QUICK

from gdsurgeon.container.load import open_model
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.settings import Settings
from gdsurgeon.wire.protos import message
from gdsurgeon.wire.write import read_chunks

pytestmark = needs_models

SAVED = ("rust_regression_sm", "serving_half_plus_two_sm", "serving_half_plus_two_tf2_sm")
META = ("od_hand_ssd.meta", "scisharp_cond_test.meta", "scisharp_xor.meta")
FROZEN = [
    ("serving_half_plus_two_sm", key)
    for key in ("serving_default", "classify_x_to_y", "regress_x_to_y", "regress_x_to_y2", "regress_x2_to_y3")
] + [
    ("serving_half_plus_two_tf2_sm", key)
    for key in ("serving_default", "classify_x_to_y", "classify_x2_to_y3", "regress_x_to_y", "regress_x2_to_y3")
] + [("rust_regression_sm", "b"), ("rust_regression_sm", "w")]  # fmt: skip


def bytes_of(name: str) -> tuple[bytes, str]:
    path = FOLDER / name
    return (
        ((path / "saved_model.pb").read_bytes(), "SavedModel") if path.is_dir() else (path.read_bytes(), "MetaGraphDef")
    )


@pytest.mark.parametrize("name", [*SAVED, *META])
def test_a_model_that_was_not_edited_is_written_as_it_was(name: str) -> None:
    model = open_model(str(FOLDER / name))
    assert model.container is not None
    for item in model.graph.nodes():
        _ = item.inputs, item.controls, item.colocated, item.attr_keys
    assert read_chunks(model.container.chunks()) == bytes_of(name)[0]


@pytest.mark.parametrize("name", [*SAVED, *META])
def test_all_names_there_and_back_give_the_same_model(desk: Desk, name: str) -> None:
    there, back = ("there", "back") if name in SAVED else ("there.meta", "back.meta")
    for model, regex, out in ((str(FOLDER / name), "^=p/", there), (there, "^p/=", back)):
        desk.done("rename", model, "--regex", regex, "--validate", "none", "-o", out)
    data, kind = bytes_of(name)
    found = (desk.folder / back / "saved_model.pb" if name in SAVED else desk.folder / back).read_bytes()
    make = message(f"tensorflow.{kind}").FromString
    assert make(found) == make(data)


@pytest.mark.tensorflow
@pytest.mark.parametrize(("name", "key"), FROZEN)
def test_a_published_model_is_frozen(desk: Desk, name: str, key: str) -> None:
    ran = desk.done("freeze", str(FOLDER / name), "--signature", key, "-o", "frozen.pb")
    assert "bit-identical" in ran.err


def test_what_trains_variables_is_run_apart_from_what_reads_them() -> None:
    plan = plan_with(Settings(), open_model(str(FOLDER / "rust_regression_sm")).graph)
    by_key = {"b": "StatefulPartitionedCall", "train": "StatefulPartitionedCall_1", "w": "StatefulPartitionedCall_2"}
    assert plan.groups == [[by_key["b"], by_key["w"]], [by_key["train"]]]


def test_what_is_put_in_front_of_a_published_model_is_seen_by_all(desk: Desk, tf: Any) -> None:
    """Its input has a default, which goes."""
    raw, kinds = placeholder("raw", INT32), {"T": INT32, "type": FLOAT}
    desk.put("pre.pb", raw + node("used", "Bitcast", ["raw"], **kinds))
    edit = ("add-preprocessing", str(FOLDER / "serving_half_plus_two_tf2_sm"), "pre.pb")
    desk.done(*edit, "--map", "serving_default/x=raw,used", "--no-v2-check", "-o", "out")
    bits = np.array([4], np.float32).view(np.int32)
    for load in loaders.ALL:
        assert load(tf, "out", "serving_default", {"x": bits}) == {"y": [4.0]}, load


@pytest.mark.parametrize("name", META)
def test_a_graph_without_its_checkpoint_cannot_be_frozen(desk: Desk, name: str) -> None:
    desk.refused(4, "no-such-signature", "freeze", str(FOLDER / name), *QUICK, "-o", "frozen.pb", signatures=[])
