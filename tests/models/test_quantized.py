"""A published detector with its weights stored in fewer bytes: what it chooses from stays within a tolerance."""

from __future__ import annotations

import json

import pytest
from support.desk import Desk
from support.published import ABSENT, FOLDER

pytestmark = [pytest.mark.slow, pytest.mark.models, pytest.mark.skipif(not FOLDER.is_dir(), reason=ABSENT)]


@pytest.mark.tensorflow
def test_a_detector_keeps_what_it_chooses_from(desk: Desk) -> None:
    """Boxes that a suppression puts in another order are not compared; the raw ones are, and their scores."""
    model = str(FOLDER / "od_hand_ssd_frozen_synth.pb")
    wanted = ["--dtype", "float16", "--tolerance", "0.05", "--samples", "1", "-o", "half.pb", "--report", "report.json"]
    ran = desk.run("quantize", model, *wanted)
    assert ran.code == 0, ran.err
    report = json.loads(desk.files()["report.json"])
    compared = {each["edited"]: each["of_largest"] for each in report["proof"]["outputs"] if each["compared"]}
    assert compared.keys() == {"Postprocessor/ExpandDims_1", "Postprocessor/Slice"}
    assert 0 < max(compared.values()) < 0.05
    assert report["edit"]["bytes_after"] < 0.53 * report["edit"]["bytes_before"]
