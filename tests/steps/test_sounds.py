"""Sounds: WAV files, log-mel spectra and coefficients, compared with NumPy; see also test_goldens.py."""

from __future__ import annotations

import numpy as np
import pytest
from support.stepping import Array, built, execute, made, ops, refusal, wav

from gdsurgeon.proof.executor import Refused

SAMPLES = (np.random.default_rng(0).random((700, 2)) * 65535 - 32768).astype("<i2")


MONO, STEREO = wav(SAMPLES[:, :1]), wav(SAMPLES)
FLOATS = (SAMPLES / 32768).astype(np.float32)


def log_mel(
    samples: Array, frame: int, step: int, mels: int, lower: float, upper: float, *, fft: int, power: int = 1
) -> Array:
    """The formulas of tf.signal, in float64, by NumPy's transform."""
    count = 1 + (samples.shape[-1] - frame) // step
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(frame) / frame)
    frames = np.stack([samples[..., at * step : at * step + frame] for at in range(count)], -2) * window
    spectrum = np.abs(np.fft.rfft(frames, fft)) ** power

    def mel(hertz: Array) -> Array:
        return 2595 * np.log10(1 + np.asarray(hertz) / 700)  # the same scale up to a factor

    edges = np.linspace(mel(np.float64(lower)), mel(np.float64(upper)), mels + 2)
    bins = mel(np.arange(fft // 2 + 1) * 8000 / fft)[:, None]
    rising = (bins - edges[:-2]) / np.diff(edges)[:-1]
    falling = (edges[2:] - bins) / np.diff(edges)[1:]
    weights = np.maximum(0, np.minimum(rising, falling))
    weights[0] = 0
    out: Array = np.log(spectrum @ weights + 1e-6)
    return out


@pytest.mark.tensorflow
def test_decoding_gives_the_samples_of_the_file() -> None:
    assert (made("decode-wav", MONO, "float32", (-1, 1), raw="string") == FLOATS[:, :1]).all()
    assert (made("decode-wav(channels=0)", STEREO, "float32", (-1, -1), raw="string") == FLOATS).all()
    assert (made("decode-wav(samples=500, rate=8000)", MONO, "float32", (1, 500, 1))[0] == FLOATS[:500, :1]).all()
    longer = made("decode-wav(samples=900) | squeeze(-1)", MONO, "float32", (1, 900))
    assert (longer[0, :700] == FLOATS[:, 0]).all() and not longer[0, 700:].any()


@pytest.mark.tensorflow
def test_a_file_of_another_rate_is_refused_when_it_runs() -> None:
    graph = built("decode-wav(rate=8000)", "float32", (-1, 1), raw="string")
    assert execute(graph, MONO).shape == (700, 1)
    assert any(node.name.endswith("sample_rate_is_8000") for node in graph.nodes())
    for other in (7999, 8001, 16000, 2**31 - 1, 0):
        with pytest.raises(Refused, match=r"Expected (begin|size)"):
            execute(graph, wav(SAMPLES[:, :1], other))


@pytest.mark.tensorflow
@pytest.mark.parametrize("power", [1, 2])
def test_log_mel_is_that_of_numpy(power: int) -> None:
    steps = f"log-mel(200, 80, mels=16, lower=100, upper=3500, rate=8000, power={power})"
    wanted = log_mel(FLOATS[:, 0].astype(np.float64), 200, 80, 16, 100, 3500, fft=256, power=power)
    for raw in ("float32[?]", "float32[700]"):
        assert np.abs(made(steps, FLOATS[:, 0], "float32", (-1, 16), raw=raw) - wanted).max() < 1e-4
    whole = steps.replace("80", "100", 1)  # the last frame ends with the sound
    assert made(whole, FLOATS[:, 0], "float32", (-1, 16), raw="float32[?]").shape == (6, 16)
    batch = made(steps, FLOATS.T, "float32", (-1, 7, 16))
    assert np.abs(batch[0] - wanted).max() < 1e-4 and batch.shape == (2, 7, 16)
    assert made(steps, FLOATS.T[:0], "float32", (-1, 7, 16)).shape == (0, 7, 16)
    assert made(steps, FLOATS[:99, 0], "float32", (-1, 16), raw="float32[?]").shape == (0, 16)
    decoded = made(f"decode-wav(channels=2) | {steps}", STEREO, "float32", (2, -1, 16), raw="string")
    assert np.abs(decoded - batch).max() < 1e-6


@pytest.mark.tensorflow
def test_batches_of_recordings() -> None:
    files = [MONO, wav(SAMPLES[::-1, :1]), wav(SAMPLES[:50, :1])]
    chains = {
        "decode-wav(samples=700) | mfcc(256, 128)": (4, 13),
        "decode-wav(samples=700, rate=8000) | mfcc(256, 128, coefficients=5)": (4, 5),
        "decode-wav(samples=700, rate=8000) | log-mel(256, 128, mels=10, lower=80, upper=4000)": (4, 10),
        "decode-wav(samples=700) | squeeze(-1) | reshape([7, 100])": (7, 100),
    }
    for steps, shape in chains.items():
        batch = execute(built(steps, "float32", (-1, *shape)), files)
        single = built(steps, "float32", (-1, *shape), raw="string")
        for file, row in zip(files, batch, strict=True):
            assert np.abs(execute(single, file).reshape(shape) - row).max() < 1e-5
        assert execute(built(steps, "float32", (-1, *shape)), np.zeros(0, object)).shape == (0, *shape)


@pytest.mark.tensorflow
def test_channels_have_coefficients_of_their_own() -> None:
    steps = "mfcc(256, 128, rate=8000)"
    one = made(steps, FLOATS[:, 1], "float32", (4, 13), raw="float32[700]")
    both = made(f"decode-wav(channels=2) | {steps}", STEREO, "float32", (2, 4, 13), raw="string")
    assert (both[1] == one).all() and (both[0] != one).any()
    assert (made(steps, FLOATS.T, "float32", (-1, 4, 13), raw="float32[?,700]") == both).all()
    assert (made("decode-wav | mfcc(256, 128)", MONO, "float32", (4, 13), raw="string") == both[0]).all()


def test_many_frames_are_no_constant() -> None:
    steps = "decode-wav(samples=2000000000, rate=8000) | log-mel(2, 1, mels=1, lower=20, upper=4000)"
    graph = built(steps, "float32", (-1, 1), raw="string")
    assert "Range" in ops(graph) and sum(len(node.attr_bytes("value") or b"") for node in graph.nodes()) < 10_000


def test_the_models_of_speech_commands_get_their_own_ops() -> None:
    graph = built("decode-wav(samples=16000) | mfcc(640, 320, coefficients=10)", "float32", (1, 49, 10))
    assert ops(graph) == ["Placeholder", "DecodeWav", "AudioSpectrogram", "Mfcc", "Squeeze", "ExpandDims", "Identity"]


def test_sounds_of_several_channels_are_no_batch() -> None:
    found = refusal("mfcc(640, 320, rate=8000)", "float32", (-1, 2, 27, 13))
    assert found.startswith("mfcc: requires one channel for each sound of a batch, got float32 [?,2,?]")
    steps = "decode-wav(channels=2, samples=9000) | mfcc(640, 320)"  # each of them is made of one item
    assert "MapDefun" in ops(built(steps, "float32", (-1, 2, 27, 13)))
