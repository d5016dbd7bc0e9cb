"""Steps that make samples of recordings, and features of samples."""

from __future__ import annotations

from math import log

from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import FLOAT32, INT32
from gdsurgeon.steps.builder import Builder
from gdsurgeon.steps.images import BATCH, bytes_in, require_bytes
from gdsurgeon.steps.kinds import NUMBER, POSITIVE, one_of, whole
from gdsurgeon.steps.mel import hann_window, mel_weights
from gdsurgeon.steps.step import FRONT, Arguments, Parameter, Raw, step
from gdsurgeon.steps.value import LAYOUTS, SOUNDS, Unfit, Value

LONGEST_FRAME = 1 << 16
MOST_BANDS = 1024
MOST_WEIGHTS = 1 << 22
"""Numbers of the constant that makes bands of a spectrum."""
MOST_STARTS = 1 << 12
"""Beginnings of frames that are a constant: more are made when it runs."""
STATED_RATE = "sample rate"
"""The name under which the sample rate of a sound file is kept."""
RATE = Parameter("rate", whole(1), "samples per second; by default, that of decode-wav", None)


@step(
    "decode-wav",
    "Decode a WAV file with 16 bits.",
    Parameter(
        "channels", whole(0), "1 mono, the first channel of a stereo file; 2 stereo; 0 keeps those of the file", 1
    ),
    Parameter(
        "samples",
        whole(1),
        "the number of samples: shorter files are padded with silence, longer ones are cut off",
        None,
    ),
    Parameter("rate", whole(1), "the required samples per second; other files fail when the model runs", None),
    BATCH,
    sides=(FRONT,),
    example="decode-wav(samples=16000, rate=16000) | mfcc(640, 320, coefficients=10)",
    explanation="A sound has 2 dimensions (samples, channels) and values of -1..1, float32: the integers of "
    "the file divided by 32768, bit for bit. Sounds are not resampled. With rate, a file with a "
    "different rate fails when the model runs. Without rate, mfcc uses the rate of the file. "
    "Sounds in a batch require samples.",
    takes=bytes_in,
    one_by_one=True,
)
def decode_wav(
    build: Builder, value: Value, *, channels: int, samples: int | None, rate: int | None, batch: bool | None
) -> Value:
    del batch
    require_bytes(value)
    node = build.node(
        "DecodeWav", [value.tensor], {"desired_channels": channels or -1, "desired_samples": samples or -1}
    )
    audio, stated = node.outputs
    sound = value.but(
        tensor=audio, dtype=FLOAT32, shape=(samples or -1, channels or -1), layout="WC", low=-1.0, high=1.0,
        beside={**value.beside, STATED_RATE: Value(stated, INT32, ())},
    )  # fmt: skip
    return _of_rate(build, sound, rate) if rate else sound


def _of_rate(build: Builder, sound: Value, rate: int) -> Value:
    """SOUND, which fails to be computed where its file states another rate; the node's name says why."""
    stated = sound.beside[STATED_RATE].tensor
    off = build.add("ExpandDims", build.add("Sub", stated, build.constant(INT32, rate)), build.constant(INT32, 0))
    one = build.constant(FLOAT32, [1.0])
    name = "/".join(filter(None, (build.scope, build.step, f"sample_rate_is_{rate}")))
    factor = build.node("Slice", [one, off, build.axes(1)], {}, name).output  # there is an element at 0 alone
    return sound.but(tensor=build.add("Mul", sound.tensor, factor), rate=rate)


def _samples_in(raw: Raw, arguments: Arguments) -> Raw:
    """What comes in where features come out: as many sounds, of any length."""
    return Raw(FLOAT32, None if raw.shape is None else (*raw.shape[:-2], -1))


@step(
    "log-mel",
    "Compute the logarithm of mel spectra of samples.",
    Parameter("frame", whole(2, LONGEST_FRAME), "samples in a frame"),
    Parameter("step", whole(1), "samples from one frame to the next"),
    Parameter("mels", whole(1, MOST_BANDS), "bands"),
    Parameter("lower", NUMBER, "the lower end of the lowest band, in Hz"),
    Parameter("upper", POSITIVE, "the upper end of the highest band, in Hz"),
    Parameter(
        "fft",
        whole(2, LONGEST_FRAME),
        "the length of the transform; by default, the next power of two from frame on",
        None,
    ),
    Parameter("power", one_of(1, 2), "of the magnitudes: 1, or 2 for a power spectrum", 1),
    Parameter("offset", POSITIVE, "the number added before the logarithm", 1e-6),
    RATE,
    sides=(FRONT,),
    example="decode-wav(rate=16000) | log-mel(400, 160, mels=64, lower=125, upper=7500) | expand-dims(-1)",
    explanation="Computes log(tf.abs(tf.signal.stft(x, frame, step, fft)) ** power @ "
    "tf.signal.linear_to_mel_weight_matrix(...) + offset), within 0.0001: a periodic Hann "
    "window, whole frames, the mel scale of HTK, bands without normalization, the natural "
    "logarithm. librosa uses a different scale (Slaney) and centered frames. Samples become "
    "[frames, mels], after any dimensions before them; a single channel has no dimension.",
    takes=_samples_in,
)
def log_mel(
    build: Builder,
    value: Value,
    *,
    frame: int,
    step: int,
    mels: int,
    lower: float,
    upper: float,
    fft: int | None,
    power: int,
    offset: float,
    rate: int | None,
) -> Value:
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
    frames = build.add("Mul", _framed(build, samples, frame, step), build.constant(FLOAT32, hann_window(frame)))
    assert samples.shape is not None
    if length > frame:
        around = [0] * 2 * len(samples.shape) + [0, length - frame]
        frames = build.add("Pad", frames, build.constant(INT32, around, (len(samples.shape) + 1, 2)))
    spectrum = build.add("ComplexAbs", build.add("RFFT", frames, build.axes(length)))
    spectrum = build.add("Square", spectrum) if power == 2 else spectrum
    weights = build.constant(FLOAT32, mel_weights(mels, bins, known, lower, upper), (bins, mels))
    bands = build.add("BatchMatMulV2", spectrum, weights)
    tensor = build.add("Log", build.add("AddV2", bands, build.constant(FLOAT32, offset)))
    features = value.anew(tensor, FLOAT32, (*samples.shape[:-1], count, mels))
    return features.but(low=log(offset) - 1e-3)


@step(
    "mfcc",
    "Compute mel frequency cepstral coefficients of samples, by the ops of TensorFlow's keyword models.",
    Parameter("window", whole(2, LONGEST_FRAME), "samples in a frame"),
    Parameter("stride", whole(1), "samples from one frame to the next"),
    Parameter("coefficients", whole(1), "the number of coefficients of each frame", 13),
    Parameter("mels", whole(1, MOST_BANDS), "the number of mel bands", 40),
    Parameter("lower", POSITIVE, "the lower end of the lowest band, in Hz", 20.0),
    Parameter("upper", POSITIVE, "the upper end of the highest band, in Hz", 4000.0),
    RATE,
    sides=(FRONT,),
    example="decode-wav(samples=16000) | mfcc(640, 320, coefficients=10) | reshape([-1, 490])",
    explanation="Uses AudioSpectrogram (magnitudes squared) and Mfcc: the same input, bit for bit, as in "
    "speech_commands and ML-KWS-for-MCU. Samples become [frames, coefficients], after any "
    "dimensions before them; a single channel has no dimension. The rate is that of the file, "
    "unless it is given.",
    takes=_samples_in,
)
def mfcc(
    build: Builder,
    value: Value,
    *,
    window: int,
    stride: int,
    coefficients: int,
    mels: int,
    lower: float,
    upper: float,
    rate: int | None,
) -> Value:
    sound, known = _with_rate(build, value, rate)
    _check_bands(lower, upper, known)
    if coefficients > mels:
        raise Unfit(f"cannot make {coefficients} coefficients from {mels} bands")
    stated = sound.beside.get(STATED_RATE)
    if not known and stated is None:
        raise Unfit("the sample rate is unknown: use decode-wav(rate=16000), or rate=16000 here")
    at_rate = build.constant(INT32, known) if known or stated is None else stated.tensor
    samples, is_one = _channels_last(build, sound)
    assert samples.shape is not None
    count = _frames(samples.but(shape=samples.shape[:1]), window, stride)
    spectrogram = build.add(
        "AudioSpectrogram", samples.tensor, window_size=window, stride=stride, magnitude_squared=True
    )
    tensor = build.add(
        "Mfcc", spectrogram, at_rate,
        upper_frequency_limit=upper, lower_frequency_limit=lower,
        filterbank_channel_count=mels, dct_coefficient_count=coefficients,
    )  # fmt: skip
    outer = () if is_one else (samples.shape[1],)
    tensor = build.add("Squeeze", tensor, squeeze_dims=[0]) if is_one else tensor
    return value.anew(tensor, FLOAT32, (*outer, count, coefficients))


def _check_bands(lower: float, upper: float, rate: int) -> None:
    """Raises Unfit where no bands lie between LOWER and UPPER in a sound of RATE, or 0."""
    if not 0 <= lower < upper:
        raise Unfit(f"there are no bands between {lower:g} and {upper:g} Hz")
    if rate and upper > rate / 2:
        raise Unfit(f"upper {upper:g} Hz is more than half the sample rate, {rate / 2:g}")


def _with_rate(build: Builder, value: Value, rate: int | None) -> tuple[Value, int]:
    """Returns a sound as float32, and its rate: `rate` if given, or 0 if it is known only when the model runs."""
    if value.layout in LAYOUTS and value.layout not in SOUNDS:
        raise Unfit(f"requires a sound, got an image: {value.told}")
    if value.dtype.is_integer:
        raise Unfit(f"requires samples of -1..1, got {value.told}: divide(32768) converts samples of 16 bits")
    value.require_numbers()
    if value.rank is None or value.rank == 0:
        raise Unfit(f"requires samples along a dimension, got {value.told}")
    if rate and value.rate and rate != value.rate:
        raise Unfit(f"rate is {rate}, but the sound has {value.rate}")
    sound = build.cast(value, FLOAT32)
    if rate and not value.rate and STATED_RATE in value.beside:
        sound = _of_rate(build, sound, rate)
    return sound, rate or value.rate


def _samples_last(build: Builder, sound: Value) -> Value:
    """SOUND with its samples along the last dimension; one channel has no dimension of its own."""
    assert sound.shape is not None
    if sound.layout not in SOUNDS:
        return sound
    if sound.channels == 1:
        tensor = build.add("Squeeze", sound.tensor, squeeze_dims=[-1])
        return sound.but(tensor=tensor, shape=sound.shape[:-1], layout="")
    order = (1, 0) if sound.layout == "WC" else (0, 2, 1)
    tensor = build.add("Transpose", sound.tensor, build.axes(*order))
    return sound.but(tensor=tensor, shape=tuple(sound.shape[axis] for axis in order), layout="")


def _channels_last(build: Builder, sound: Value) -> tuple[Value, bool]:
    """SOUND as [samples, channels], and whether it is one channel; the sounds of a batch are channels here."""
    assert sound.shape is not None
    if sound.layout == "WC":
        return sound, sound.channels == 1
    sound = _samples_last(build, sound)
    assert sound.shape is not None
    if len(sound.shape) == 1:
        tensor = build.add("ExpandDims", sound.tensor, build.constant(INT32, -1))
        return sound.but(tensor=tensor, shape=(*sound.shape, 1)), True
    if len(sound.shape) > 2:
        raise Unfit(f"requires one channel for each sound of a batch, got {sound.told}")
    tensor = build.add("Transpose", sound.tensor, build.axes(1, 0))
    return sound.but(tensor=tensor, shape=sound.shape[::-1]), False


def _frames(samples: Value, frame: int, step: int) -> int:
    """Returns the number of whole frames in the last dimension of `samples`; -1 if open. Raises Unfit: no frame."""
    assert samples.shape is not None
    length = samples.shape[-1]
    if 0 <= length < frame:
        raise Unfit(f"{length:,} samples are fewer than a frame of {frame:,}")
    return -1 if length < 0 else 1 + (length - frame) // step


def _framed(build: Builder, samples: Value, frame: int, step: int) -> Output:
    """The frames of SAMPLES: [..., frames, frame]."""
    count = _frames(samples, frame, step)
    if 0 <= count <= MOST_STARTS:
        starts = build.constant(INT32, range(0, count * step, step), (count, 1))
    else:
        zero, one = build.constant(INT32, 0), build.constant(INT32, 1)
        last_dim = build.axes(-1), build.axes(0), build.axes(1)
        length = build.add(
            "StridedSlice", build.add("Shape", samples.tensor), *last_dim, end_mask=1, shrink_axis_mask=1
        )
        end = build.add("Maximum", build.add("Sub", length, build.constant(INT32, frame - 1)), zero)
        starts = build.add("ExpandDims", build.add("Range", zero, end, build.constant(INT32, step)), one)
    places = build.add("AddV2", starts, build.constant(INT32, range(frame), (1, frame)))
    return build.add("GatherV2", samples.tensor, places, build.constant(INT32, -1))
