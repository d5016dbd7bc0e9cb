"""The window and the bands of tf.signal, as numbers."""

from __future__ import annotations

from math import cos, log1p, pi


def hann_window(length: int) -> list[float]:
    """tf.signal.hann_window(LENGTH), from 2 on: periodic where it is even, and symmetric where it is odd, as there."""
    period = length - length % 2
    return [0.5 - 0.5 * cos(2 * pi * place / period) for place in range(length)]


def mel_weights(mels: int, bins: int, rate: int, lower: float, upper: float) -> list[float]:
    """tf.signal.linear_to_mel_weight_matrix: BINS rows of MELS weights, triangles on the mel scale of HTK."""
    low, high = _mel(lower), _mel(upper)
    edges = [low + (high - low) * place / (mels + 1) for place in range(mels + 2)]
    out = [0.0] * mels  # the constant part belongs to no band
    for place in range(1, bins):
        at = _mel(rate / 2 * place / (bins - 1))
        for left, middle, right in zip(edges, edges[1:], edges[2:], strict=False):
            out.append(max(0.0, min((at - left) / (middle - left), (right - at) / (right - middle))))
    return out


def _mel(frequency: float) -> float:
    return 1127.0 * log1p(frequency / 700.0)
