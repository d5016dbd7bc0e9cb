"""Steps that decode recordings, and compute features of samples."""

from __future__ import annotations

from math import cos, log, log1p, pi
from typing import Annotated

from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import FLOAT32, INT32
from gdsurgeon.steps.builder import Builder, Input
from gdsurgeon.steps.catalog import BEFORE, Arguments, step
from gdsurgeon.steps.images import bytes_in, require_bytes
from gdsurgeon.steps.language import Count, Flag, NotNegative, Number, Positive, one_of, whole
from gdsurgeon.steps.value import LAYOUTS, SOUNDS, InputSpec, Unfit, Value

LONGEST_FRAME = 1 << 16
MOST_BANDS = 1024
MOST_WEIGHTS = 1 << 22
"""The largest size of the constant that converts a spectrum to bands."""
MOST_STARTS = 1 << 12
"""The number of frames whose first samples are a constant; for more they are computed when the graph runs."""
STATED_RATE = "sample rate"
"""The name of the extra value with the sample rate of a sound file."""


@step(
    "decode-wav",
    side=BEFORE,
    example="decode-wav(samples=16000, rate=16000) | mfcc(640, 320, coefficients=10)",
    takes=bytes_in,
    one_by_one=True,
)
def decode_wav(
    build: Builder,
    value: Value,
    *,
    channels: NotNegative = 1,
    samples: Count | None = None,
    rate: Count | None = None,
    batch: Flag | None = None,
) -> Value:
    """Decode a WAV file with 16 bits.

    A sound has 2 dimensions (samples, channels) and values of -1..1, float32: the integers of the file divided by
    32768, bit for bit. Sounds are not resampled. With rate, a file with a different rate fails when the model runs.
    Without rate, mfcc uses the rate of the file. Sounds in a batch require samples.

    Args:
        channels: 1 mono, the first channel of a stereo file; 2 stereo; 0 keeps those of the file
        samples: the number of samples: shorter files are padded with silence, longer ones are cut off
        rate: the required samples per second; other files fail when the model runs
        batch: whether the input is a vector of items instead of one item; by default, if the model has an open
            batch dimension and the sizes are equal
    """
    del batch
    require_bytes(value)
    node = build.node(
        "DecodeWav", [value.tensor], {"desired_channels": channels or -1, "desired_samples": samples or -1}
    )
    audio, stated = node.outputs
    sound = value.replace(
        tensor=audio, dtype=FLOAT32, shape=(samples or -1, channels or -1), layout="WC", low=-1.0, high=1.0,
        extras={**value.extras, STATED_RATE: Value(stated, INT32, ())},
    )  # fmt: skip
    return _of_rate(build, sound, rate) if rate else sound


def _of_rate(build: Builder, sound: Value, rate: int) -> Value:
    """Returns a sound that fails to run if its file has a different rate; the name of the node is the reason."""
    stated = sound.extras[STATED_RATE].tensor
    off = build.add("ExpandDims", build.add("Sub", stated, rate), 0)
    name = "/".join(filter(None, (build.scope, build.step, f"sample_rate_is_{rate}")))
    factor = build.node("Slice", [(1.0,), off, (1,)], {}, name).output  # the only element is at 0
    return sound.replace(tensor=build.add("Mul", sound.tensor, factor), rate=rate)


def _samples_in(output: InputSpec, arguments: Arguments) -> InputSpec:
    """Returns the input for features: the same number of sounds, of any length."""
    return InputSpec(FLOAT32, None if output.shape is None else (*output.shape[:-2], -1))


@step(
    "log-mel",
    side=BEFORE,
    example="decode-wav(rate=16000) | log-mel(400, 160, mels=64, lower=125, upper=7500) | expand-dims(-1)",
    takes=_samples_in,
)
def log_mel(
    build: Builder,
    value: Value,
    *,
    frame: Annotated[int, whole(2, LONGEST_FRAME)],
    step: Count,
    mels: Annotated[int, whole(1, MOST_BANDS)],
    lower: Number,
    upper: Positive,
    fft: Annotated[int, whole(2, LONGEST_FRAME)] | None = None,
    power: Annotated[int, one_of(1, 2)] = 1,
    offset: Positive = 1e-6,
    rate: Count | None = None,
) -> Value:
    """Compute the logarithm of mel spectra of samples.

    Computes log(tf.abs(tf.signal.stft(x, frame, step, fft)) ** power @ tf.signal.linear_to_mel_weight_matrix(...) +
    offset), within 0.0001: a periodic Hann window, whole frames, the mel scale of HTK, bands without normalization,
    the natural logarithm. librosa uses a different scale (Slaney) and centered frames. Samples become [frames,
    mels], after any dimensions before them; a single channel has no dimension.

    Args:
        frame: samples in a frame
        step: samples from one frame to the next
        mels: bands
        lower: the lower end of the lowest band, in Hz
        upper: the upper end of the highest band, in Hz
        fft: the length of the transform; by default, the next power of two from frame on
        power: of the magnitudes: 1, or 2 for a power spectrum
        offset: the number added before the logarithm
        rate: samples per second; by default, that of decode-wav
    """
    length = fft or 1 << (frame - 1).bit_length()
    if length < frame:
        raise Unfit(f"fft {length} is shorter than a frame of {frame}")
    bins = length // 2 + 1
    if bins * mels > MOST_WEIGHTS:
        raise Unfit(
            f"{mels:,} bands of {bins:,} frequencies are too many for a constant; the limit is {MOST_WEIGHTS:,}"
        )
    sound, known = _with_rate(build, value, rate)
    if not known:
        raise Unfit("the sample rate is unknown: use decode-wav(rate=16000), or rate=16000 here")
    _check_bands(lower, upper, known)
    samples = _samples_last(build, sound)
    count = _frames(samples, frame, step)
    period = frame - frame % 2  # tf.signal.hann_window is periodic for even lengths, symmetric for odd lengths
    window = [0.5 - 0.5 * cos(2 * pi * place / period) for place in range(frame)]
    frames = build.add("Mul", _framed(build, samples, frame, step), window)
    if length > frame:
        frames = build.add("Pad", frames, [*[(0, 0)] * len(samples.dims), (0, length - frame)])
    spectrum = build.add("ComplexAbs", build.add("RFFT", frames, (length,)))
    spectrum = build.add("Square", spectrum) if power == 2 else spectrum
    weights = build.constant(FLOAT32, _mel_weights(mels, bins, known, lower, upper), (bins, mels))
    bands = build.add("BatchMatMulV2", spectrum, weights)
    tensor = build.add("Log", build.add("AddV2", bands, offset))
    features = value.fresh(tensor, FLOAT32, (*samples.dims[:-1], count, mels))
    return features.replace(low=log(offset) - 1e-3)


@step(
    "mfcc",
    side=BEFORE,
    example="decode-wav(samples=16000) | mfcc(640, 320, coefficients=10) | reshape([-1, 490])",
    takes=_samples_in,
)
def mfcc(
    build: Builder,
    value: Value,
    *,
    window: Annotated[int, whole(2, LONGEST_FRAME)],
    stride: Count,
    coefficients: Count = 13,
    mels: Annotated[int, whole(1, MOST_BANDS)] = 40,
    lower: Positive = 20.0,
    upper: Positive = 4000.0,
    rate: Count | None = None,
) -> Value:
    """Compute mel frequency cepstral coefficients of samples, by the ops of TensorFlow's keyword models.

    Uses AudioSpectrogram (magnitudes squared) and Mfcc: the same input, bit for bit, as in speech_commands and
    ML-KWS-for-MCU. Samples become [frames, coefficients], after any dimensions before them; a single channel has no
    dimension. The rate is that of the file, unless it is given.

    Args:
        window: samples in a frame
        stride: samples from one frame to the next
        coefficients: the number of coefficients of each frame
        mels: the number of mel bands
        lower: the lower end of the lowest band, in Hz
        upper: the upper end of the highest band, in Hz
        rate: samples per second; by default, that of decode-wav
    """
    sound, known = _with_rate(build, value, rate)
    _check_bands(lower, upper, known)
    if coefficients > mels:
        raise Unfit(f"cannot make {coefficients} coefficients from {mels} bands")
    stated = sound.extras.get(STATED_RATE)
    if not known and stated is None:
        raise Unfit("the sample rate is unknown: use decode-wav(rate=16000), or rate=16000 here")
    at_rate = known if known or stated is None else stated.tensor
    samples, is_one = _channels_last(build, sound)
    count = _frames(samples.replace(shape=samples.dims[:1]), window, stride)
    spectrogram = build.add(
        "AudioSpectrogram", samples.tensor, window_size=window, stride=stride, magnitude_squared=True
    )
    tensor = build.add(
        "Mfcc", spectrogram, at_rate,
        upper_frequency_limit=upper, lower_frequency_limit=lower,
        filterbank_channel_count=mels, dct_coefficient_count=coefficients,
    )  # fmt: skip
    outer = () if is_one else (samples.dims[1],)
    tensor = build.add("Squeeze", tensor, squeeze_dims=[0]) if is_one else tensor
    return value.fresh(tensor, FLOAT32, (*outer, count, coefficients))


def _check_bands(lower: float, upper: float, rate: int) -> None:
    """Raises Unfit if no bands lie between `lower` and `upper`; `rate` is 0 if it is unknown."""
    if not 0 <= lower < upper:
        raise Unfit(f"there are no bands between {lower:g} and {upper:g} Hz")
    if rate and upper > rate / 2:
        raise Unfit(f"upper {upper:g} Hz is more than half the sample rate, {rate / 2:g}")


def _with_rate(build: Builder, value: Value, rate: int | None) -> tuple[Value, int]:
    """Returns a sound as float32, and its rate: `rate` if given, or 0 if it is known only when the model runs."""
    if value.layout in LAYOUTS and value.layout not in SOUNDS:
        raise Unfit(f"requires a sound, got an image: {value.description}")
    if value.dtype.is_integer:
        raise Unfit(f"requires samples of -1..1, got {value.description}: divide(32768) converts samples of 16 bits")
    value.require_numbers()
    if value.rank is None or value.rank == 0:
        raise Unfit(f"requires samples along a dimension, got {value.description}")
    if rate and value.rate and rate != value.rate:
        raise Unfit(f"rate is {rate}, but the sound has {value.rate}")
    sound = build.cast(value, FLOAT32)
    if rate and not value.rate and STATED_RATE in value.extras:
        sound = _of_rate(build, sound, rate)
    return sound, rate or value.rate


def _samples_last(build: Builder, sound: Value) -> Value:
    """Returns the sound with its samples along the last dimension; a single channel has no dimension."""
    if sound.layout not in SOUNDS:
        return sound
    if sound.channels == 1:
        tensor = build.add("Squeeze", sound.tensor, squeeze_dims=[-1])
        return sound.replace(tensor=tensor, shape=sound.dims[:-1], layout="")
    order = (1, 0) if sound.layout == "WC" else (0, 2, 1)
    tensor = build.add("Transpose", sound.tensor, order)
    return sound.replace(tensor=tensor, shape=tuple(sound.dims[axis] for axis in order), layout="")


def _channels_last(build: Builder, sound: Value) -> tuple[Value, bool]:
    """Returns the sound as [samples, channels], and whether it is one channel. Sounds of a batch become channels."""
    if sound.layout == "WC":
        return sound, sound.channels == 1
    sound = _samples_last(build, sound)
    if len(sound.dims) == 1:
        tensor = build.add("ExpandDims", sound.tensor, -1)
        return sound.replace(tensor=tensor, shape=(*sound.dims, 1)), True
    if len(sound.dims) > 2:
        raise Unfit(f"requires one channel for each sound of a batch, got {sound.description}")
    tensor = build.add("Transpose", sound.tensor, (1, 0))
    return sound.replace(tensor=tensor, shape=sound.dims[::-1]), False


def _frames(samples: Value, frame: int, step: int) -> int:
    """Returns the number of whole frames in the last dimension of `samples`; -1 if open. Raises Unfit: no frame."""
    length = samples.dims[-1]
    if 0 <= length < frame:
        raise Unfit(f"{length:,} samples are fewer than a frame of {frame:,}")
    return -1 if length < 0 else 1 + (length - frame) // step


def _framed(build: Builder, samples: Value, frame: int, step: int) -> Output:
    """Returns the frames of samples: [..., frames, frame]."""
    count = _frames(samples, frame, step)
    if 0 <= count <= MOST_STARTS:
        starts: Input = [(start,) for start in range(0, count * step, step)]
    else:
        shape = build.add("Shape", samples.tensor)
        length = build.add("StridedSlice", shape, (-1,), (0,), (1,), end_mask=1, shrink_axis_mask=1)
        end = build.add("Maximum", build.add("Sub", length, frame - 1), 0)
        starts = build.add("ExpandDims", build.add("Range", 0, end, step), 1)
    places = build.add("AddV2", starts, [range(frame)])
    return build.add("GatherV2", samples.tensor, places, -1)


def _mel_weights(mels: int, bins: int, rate: int, lower: float, upper: float) -> list[float]:
    """Returns tf.signal.linear_to_mel_weight_matrix: for each bin the weights of bands, triangles on HTK's scale."""

    def mel(frequency: float) -> float:
        return 1127.0 * log1p(frequency / 700.0)

    low, high = mel(lower), mel(upper)
    edges = [low + (high - low) * place / (mels + 1) for place in range(mels + 2)]
    out = [0.0] * mels  # the constant part belongs to no band
    for place in range(1, bins):
        at = mel(rate / 2 * place / (bins - 1))
        for left, middle, right in zip(edges, edges[1:], edges[2:], strict=False):
            out.append(max(0.0, min((at - left) / (middle - left), (right - at) / (right - middle))))
    return out
