"""Steps against what other libraries give: goldens that scripts/make_step_goldens.py has made."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import numpy as np
import pytest
from support.paths import ROOT
from support.stepping import built, execute

pytestmark = pytest.mark.kernels


def _script() -> ModuleType:
    found = importlib.util.spec_from_file_location("make_step_goldens", ROOT / "scripts" / "make_step_goldens.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


SCRIPT = _script()
KEPT = SCRIPT.load()
GOLDENS = {key: tuple(key.split(" ", 2)) for key in KEPT if " " in key}


OPEN = {"bytes": "?,?,3", "floats": "?,?,3", "sound": "?"}
"""The shape of a source, left open."""


def tolerance(library: str, source: str, steps: str) -> float:
    """By how much numbers may differ, as the pages and `gdsurgeon steps` say it, on one machine."""
    if source == "sound":
        return 1e-4
    if "resize" not in steps and "side" not in steps and "box" not in steps:
        return 0.0
    if library in ("keras", "tensorflow") or "nearest" in steps:
        return 0.0
    grey_level = 1 / 255 / 0.224 if "normalize" in steps else 1.0
    return grey_level if source == "bytes" else 0.01


ROUNDING = {"uint8": 1.0, "float32": 1e-3, "float64": 1e-3}
"""Additional tolerance for numbers from 0 to 255 if other kernels of TensorFlow computed them."""
MOST_ROUNDED = 0.01
"""The part of grey levels that may lie so near between two integers that kernels round them differently."""


def check_near(found: np.ndarray, kept: np.ndarray, tolerance: float = 0.0) -> None:
    """FOUND is KEPT, within TOLERANCE and the rounding of kernels."""
    assert (found.dtype, found.shape) == (kept.dtype, kept.shape)
    difference = np.abs(found.astype(np.float64) - kept)
    assert difference.max(initial=0) <= tolerance + ROUNDING.get(str(kept.dtype), 0.0)
    if tolerance == 0 and kept.dtype == np.uint8:
        assert np.count_nonzero(difference) <= MOST_ROUNDED * difference.size


@pytest.mark.tensorflow
@pytest.mark.parametrize("key", GOLDENS)
def test_steps_give_what_the_library_gives(key: str) -> None:
    _, source, steps = GOLDENS[key]
    wanted = KEPT[key]
    value = KEPT[source]
    sizes = ",".join(map(str, value.shape))
    for raw in (
        ["string"] if steps.startswith("decode") else [f"{value.dtype}[{dims}]" for dims in (OPEN[source], sizes)]
    ):
        graph = built(steps, str(wanted.dtype), wanted.shape, raw=raw)
        check_near(execute(graph, value.tobytes() if raw == "string" else value), wanted, tolerance(*GOLDENS[key]))


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", ["jpeg", "jpeg-444", "jpeg-progressive"])
def test_what_tensorflow_decodes_by_default_is_near(name: str) -> None:
    wanted = KEPT[f"pillow {name} decode-image"]
    for steps in ("decode-image(dct=default)", "decode-image(dct=default, format=jpeg)", "decode-image(dct=fast)"):
        found = execute(built(steps, "uint8", wanted.shape, raw="string"), KEPT[name].tobytes())
        assert 0 < np.abs(found.astype(int) - wanted).max() <= 8


@pytest.mark.parametrize("steps", ["resize(7, 6, like=pillow, method=bicubic)", "resize(7, 6, like=keras)"])
def test_a_wrong_kernel_would_be_noticed(steps: str) -> None:
    library = steps.partition("like=")[2].partition(",")[0].rstrip(")")
    tf1 = KEPT["tensorflow bytes resize(7, 6, like=tf1, method=bilinear)"]
    assert np.abs(tf1 - KEPT[f"{library} bytes {steps}"]).max() > 20


@pytest.mark.parametrize("library", ["pillow", "opencv", "torchvision"])
def test_the_goldens_can_be_made_again(library: str) -> None:
    if not SCRIPT.is_installed(library):
        pytest.skip(f"{library} is not installed here")
    check_made(library)


@pytest.mark.parametrize("library", ["keras", "tensorflow"])
def test_those_of_tensorflow_can_be_made_again(library: str, tf: ModuleType) -> None:
    made = check_made(library)
    for key in made.keys() & GOLDENS:  # the same kernels: what rounds is the same
        _, source, steps = GOLDENS[key]
        value = KEPT[source]
        if tolerance(*GOLDENS[key]) == 0:
            graph = built(steps, str(made[key].dtype), made[key].shape, raw=f"{value.dtype}[{OPEN[source]}]")
            assert np.array_equal(execute(graph, value), made[key])


def check_made(library: str) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = SCRIPT.sources() | SCRIPT.goldens_of(library)
    assert {key for key in KEPT if key.startswith(f"{library} ")} <= set(found)
    for key in found:
        check_near(found[key], KEPT[key])
    return found
