#!/usr/bin/env python3
"""Writes tests/steps/goldens.npz: results of Pillow, OpenCV, torchvision, Keras and tf.image that steps must reproduce.

The script updates the results of the installed libraries, and keeps the results of others.

The archive has an index (JSON: key, dtype, shape of each array) and the bytes of all arrays. Keys are `LIBRARY SOURCE
STEPS`: the result of the steps for the value SOURCE is compared with the result of the library. The file also contains
the sources by name. Pillow, OpenCV, torchvision: pip install pillow opencv-python-headless torchvision.
"""

from __future__ import annotations

import importlib.util
import io
import json
import math
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

GOLDENS = Path(__file__).resolve().parent.parent / "tests" / "steps" / "goldens.npz"
SIDES = (13, 11)
SIZES = ((7, 6), (17, 14), (13, 5))
"""Sizes of resized images: smaller than the image, larger, and smaller only in width."""

Array = np.ndarray[Any, Any]
Golden = tuple[str, str, Array]
"""The name of a source, the steps, and the result of the library."""


def image() -> Array:
    """Returns an image of waves, edges and a little noise, in three channels."""
    y, x = np.mgrid[0 : SIDES[0], 0 : SIDES[1]]
    waves = [
        127 + 110 * np.sin(x / 2.0) * np.cos(y / 5.0),
        127 + 100 * np.sin((x + y) / 3.0),
        255 * ((x // 4 + y // 4) % 2),
    ]
    noise = np.random.RandomState(0).randn(*SIDES, 3) * 6
    return np.clip(np.stack(waves, -1) + noise, 0, 255).astype(np.uint8)


def sources() -> dict[str, Array]:
    """Returns the inputs by name."""
    return images() | {"sound": sound()}


def images() -> dict[str, Array]:
    """Returns the image as bytes, and as floats."""
    return {"bytes": image(), "floats": image().astype(np.float32)}


def sound() -> Array:
    """Returns 900 samples of a rising tone with noise."""
    at = np.arange(900) / 8000
    noise = np.random.RandomState(0).randn(900) * 0.05
    return (0.4 * np.sin(2 * np.pi * (300 + 4000 * at) * at) + noise).astype(np.float32)


def sizes(source: str, method: str = "") -> tuple[tuple[int, int], ...]:
    """Returns the sizes of the results: all of `SIZES` for bytes with the most frequent methods, else the first."""
    return SIZES if source == "bytes" and method in ("bilinear", "bicubic", "linear", "nearest") else SIZES[:1]


def pillow() -> Iterator[Golden]:
    from PIL import Image, ImageOps

    picture = Image.fromarray(image())
    planes = [Image.fromarray(image()[..., channel].astype(np.float32)) for channel in range(3)]
    for method in ("nearest", "bilinear", "bicubic", "lanczos"):
        kernel = getattr(Image.Resampling, method.upper())
        for height, width in sizes("bytes", method):
            steps = f"resize({height}, {width}, like=pillow, method={method})"
            yield "bytes", steps, np.asarray(picture.resize((width, height), kernel))
        for height, width in sizes("floats"):
            steps = f"resize({height}, {width}, like=pillow, method={method})"
            yield "floats", steps, np.stack([np.asarray(plane.resize((width, height), kernel)) for plane in planes], -1)
    height, width = SIDES
    yield "bytes", "resize(7, 6, like=pillow)", np.asarray(picture.resize((6, 7)))
    small = picture.resize((8, int(8 * height / width)), Image.Resampling.BILINEAR)  # as torchvision's Resize(8)
    yield "bytes", "short-side(8, like=pillow, method=bilinear)", np.asarray(small)
    top, left = round((height - 6) / 2), round((width - 8) / 2)  # as torchvision's CenterCrop((6, 8))
    yield "bytes", "center-crop(6, 8, half=true)", image()[top : top + 6, left : left + 8]
    for name, data in oriented_pictures().items():
        upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data.tobytes())))
        yield name, "decode-image | exif", np.asarray(upright.convert("RGB"))
    for name, data in pictures().items():
        decoded = Image.open(io.BytesIO(data.tobytes()))
        if name == "jpeg-grey":
            yield name, "decode-image(channels=1)", np.asarray(decoded)[..., None]
        yield name, "decode-image(format=bmp)" if name == "bmp" else "decode-image", np.asarray(decoded.convert("RGB"))


def pictures() -> dict[str, Array]:
    """Returns the image in the file formats that Pillow writes."""
    from PIL import Image

    picture = Image.fromarray(image())
    kinds: dict[str, tuple[Any, str, dict[str, Any]]] = {
        "jpeg": (picture, "JPEG", {"quality": 90}),
        "jpeg-444": (picture, "JPEG", {"quality": 90, "subsampling": 0}),
        "jpeg-progressive": (picture, "JPEG", {"quality": 90, "progressive": True}),
        "jpeg-cmyk": (picture.convert("CMYK"), "JPEG", {"quality": 90}),
        "jpeg-grey": (picture.convert("L"), "JPEG", {"quality": 90}),
        "png": (picture, "PNG", {}),
        "png-palette": (picture.convert("P"), "PNG", {}),
        "gif": (picture.convert("P"), "GIF", {}),
        "bmp": (picture, "BMP", {}),
    }
    out = {}
    for name, (converted, form, options) in kinds.items():
        buffer = io.BytesIO()
        converted.save(buffer, form, **options)
        out[name] = np.frombuffer(buffer.getvalue(), np.uint8)
    return out


def oriented_pictures() -> dict[str, Array]:
    """Returns JPEGs with an EXIF header of each orientation, in both byte orders, and files without such a header."""
    plain = pictures()
    jpeg = plain["jpeg"].tobytes()
    out = {"jpeg": jpeg, "png": plain["png"].tobytes(), "gif": plain["gif"].tobytes()}
    for order in ("II", "MM"):
        for orientation in range(1, 10):
            out[f"exif-{order}-{orientation}"] = with_exif(jpeg, tiff(orientation, order))
        out[f"exif-{order}-behind-an-odd-gap"] = with_exif(jpeg, tiff(6, order, start=27))
        out[f"exif-{order}-outside-the-directory"] = with_exif(jpeg, tiff(6, order, entries=1))
        out[f"exif-{order}-beyond-the-end"] = with_exif(jpeg, tiff(6, order, says=1 << 30))
        out[f"exif-{order}-before-the-beginning"] = with_exif(jpeg, tiff(6, order, says=0xFFFFFFF0))
        for length in (7, 9, 24):
            out[f"exif-{order}-of-{length}-bytes"] = with_exif(jpeg, tiff(6, order)[:length])
    jfif = 20  # bytes of the mark and the segment that the files of JFIF begin with
    out["exif-behind-jfif"] = jpeg[:jfif] + with_exif(jpeg[:2], tiff(8, "II"))[2:] + jpeg[jfif:]
    return {name: np.frombuffer(data, np.uint8) for name, data in out.items()}


def tiff(orientation: int, order: str, *, start: int = 8, says: int | None = None, entries: int = 2) -> bytes:
    """Returns a TIFF header with a directory of two entries at `start`; states `says` and `entries` instead."""
    end = "<" if order == "II" else ">"
    maker = struct.pack(end + "HHII", 0x010F, 2, 6, start + 2 + 2 * 12 + 4)
    entry = struct.pack(end + "HHIHH", 0x0112, 3, 1, orientation, 0)
    header = order.encode() + struct.pack(end + "HI", 42, start if says is None else says)
    return header + b"\x12" * (start - 8) + struct.pack(end + "H", entries) + maker + entry + bytes(4) + b"maker\0"


def with_exif(jpeg: bytes, header: bytes) -> bytes:
    """Returns a JPEG with an APP1 segment that contains `header`."""
    content = b"Exif\0\0" + header
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(content) + 2) + content + jpeg[2:]


def opencv() -> Iterator[Golden]:
    import cv2

    kernels = {
        "linear": cv2.INTER_LINEAR, "nearest": cv2.INTER_NEAREST, "nearest-exact": cv2.INTER_NEAREST_EXACT,
        "area": cv2.INTER_AREA,
    }  # fmt: skip
    for method, kernel in kernels.items():
        for source, value in images().items():
            for height, width in sizes(source, method):
                if (source, method) != ("floats", "nearest-exact"):
                    steps = f"resize({height}, {width}, like=opencv, method={method})"
                    yield source, steps, cv2.resize(value, (width, height), interpolation=kernel)
    yield "bytes", "resize(7, 6, like=opencv)", cv2.resize(image(), (6, 7))
    yield "png-16", "decode-image(format=png)", cv2.imdecode(deep_picture()["png-16"], cv2.IMREAD_COLOR)[..., ::-1]
    for height, width in ((9, 20), (20, 9), (20, 20)):
        yield "bytes", f"letterbox({height}, {width}, like=opencv)", _letterbox(height, width)


def deep_picture() -> dict[str, Array]:
    """Returns the image as a PNG of 16 bits that OpenCV writes."""
    import cv2

    encoded = cv2.imencode(".png", image()[..., ::-1].astype(np.uint16) * 257)[1]
    return {"png-16": np.asarray(encoded).reshape(-1)}


def _letterbox(height: int, width: int) -> Array:
    """Returns the image as YOLOv5 prepares it for its detector."""
    import cv2

    factor = min(height / SIDES[0], width / SIDES[1])
    inner = round(SIDES[0] * factor), round(SIDES[1] * factor)
    resized = cv2.resize(image(), inner[::-1], interpolation=cv2.INTER_LINEAR)
    down, right = (height - inner[0]) / 2, (width - inner[1]) / 2
    borders = round(down - 0.1), round(down + 0.1), round(right - 0.1), round(right + 0.1)
    return cv2.copyMakeBorder(resized, *borders, cv2.BORDER_CONSTANT, value=(114, 114, 114))


def torchvision() -> Iterator[Golden]:
    """Yields the transforms of torchvision's models, on images of Pillow and on tensors with channels first."""
    import torch
    from PIL import Image
    from torchvision import transforms

    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    steps = f"divide(255) | normalize(mean={list(mean)}, std={list(std)}) | to-nchw"
    normalized = [transforms.ToTensor(), transforms.Normalize(mean, std)]
    picture = Image.fromarray(image())
    yield "bytes", "divide(255) | to-nchw", transforms.ToTensor()(picture).numpy()
    yield "bytes", steps, transforms.Compose(normalized)(picture).numpy()
    small = transforms.Compose([transforms.Resize(9), transforms.CenterCrop((6, 8))])(picture)
    yield "bytes", "short-side(9, like=pillow, method=bilinear) | center-crop(6, 8, half=true)", np.asarray(small)
    classifier = transforms.Compose([transforms.Resize(9), transforms.CenterCrop(8), *normalized])(picture)
    chain = "short-side(9, like=pillow, method=bilinear) | center-crop(8, 8, half=true) | " + steps
    yield "bytes", chain, classifier.numpy()
    bicubic = transforms.InterpolationMode.BICUBIC
    planes = torch.from_numpy(image().astype(np.float32)).permute(2, 0, 1)
    for method, mode in (("bilinear", transforms.InterpolationMode.BILINEAR), ("bicubic", bicubic)):
        found = transforms.Resize(SIZES[0], mode, antialias=True)(planes)
        yield "floats", f"resize(7, 6, method={method}, antialias=true) | to-nchw", found.numpy()


def keras() -> Iterator[Golden]:
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    import keras as k

    given = images()
    for source, value in given.items():
        for method in ("bilinear", "nearest", "bicubic", "lanczos3", "lanczos5"):
            for height, width in sizes(source, method):
                found = k.layers.Resizing(height, width, interpolation=method)(value)
                yield source, f"resize({height}, {width}, like=keras, method={method})", np.asarray(found)
        yield source, "resize(7, 6, like=keras)", np.asarray(k.layers.Resizing(7, 6)(value))
    floats = given["floats"]
    yield "bytes", "rescale(1/255)", np.asarray(k.layers.Rescaling(1 / 255)(given["bytes"]))
    yield "floats", "rescale(1/127.5, -1)", np.asarray(k.layers.Rescaling(1 / 127.5, -1)(floats))
    yield "floats", "center-crop(6, 8)", np.asarray(k.layers.CenterCrop(6, 8)(floats))
    for mode in ("caffe", "tf", "torch"):
        found = k.applications.imagenet_utils.preprocess_input(floats.copy(), mode=mode)
        yield "bytes", f"normalize(like=keras-{mode})", np.asarray(found)


def tensorflow() -> Iterator[Golden]:
    import tensorflow as tf

    value, (height, width) = image(), SIZES[0]
    for method in ("bilinear", "nearest", "bicubic", "area", "lanczos3", "lanczos5", "gaussian", "mitchellcubic"):
        for antialias in (False, True) if method not in ("nearest", "area") else (False,):
            found = tf.image.resize(value, (height, width), method=method, antialias=antialias)
            more = ", antialias=true" if antialias else ""
            yield "bytes", f"resize({height}, {width}, method={method}{more})", found.numpy()
    for number, method in enumerate(("bilinear", "nearest", "bicubic", "area")):
        found = tf.compat.v1.image.resize_images(value, (height, width), method=number)
        yield "bytes", f"resize({height}, {width}, like=tf1, method={method})", found.numpy()
    corners = tf.compat.v1.image.resize_bilinear(value[None], (7, 6), align_corners=True)[0]
    yield "bytes", "resize(7, 6, method=bilinear, align-corners=true)", corners.numpy()
    yield from signal()


def signal() -> Iterator[Golden]:
    import tensorflow as tf

    samples, rate = sound(), 8000
    spectra = (
        (256, 128, 20, 80.0, 3800.0, None, 1),
        (255, 100, 40, 0.0, 4000.0, None, 2),
        (200, 80, 13, 125.0, 3000.0, 512, 1),
    )
    for frame, step, mels, lower, upper, fft, power in spectra:
        spectrum = tf.abs(tf.signal.stft(samples, frame, step, fft)) ** power
        weights = tf.signal.linear_to_mel_weight_matrix(mels, spectrum.shape[-1], rate, lower, upper)
        more = f", power={power}" + (f", fft={fft}" if fft else "")
        steps = f"log-mel({frame}, {step}, mels={mels}, lower={lower:g}, upper={upper:g}, rate={rate}{more})"
        yield "sound", steps, tf.math.log(spectrum @ weights + 1e-6).numpy()
    for window, stride, count in ((256, 128, 13), (200, 100, 10)):
        spectrogram = tf.raw_ops.AudioSpectrogram(
            input=samples[:, None], window_size=window, stride=stride, magnitude_squared=True
        )
        found = tf.raw_ops.Mfcc(spectrogram=spectrogram, sample_rate=rate, dct_coefficient_count=count)
        yield "sound", f"mfcc({window}, {stride}, coefficients={count}, rate={rate})", found[0].numpy()


LIBRARIES: dict[str, tuple[str, Callable[[], Iterator[Golden]]]] = {
    "pillow": ("PIL", pillow), "opencv": ("cv2", opencv), "torchvision": ("torchvision", torchvision),
    "keras": ("keras", keras), "tensorflow": ("tensorflow", tensorflow),
}  # fmt: skip
"""By name: the module of a library, and the function that yields its results."""


def is_installed(library: str) -> bool:
    """Returns whether a library is installed, without an import."""
    return importlib.util.find_spec(LIBRARIES[library][0]) is not None


def goldens_of(library: str) -> dict[str, Array]:
    """Returns the results of an installed library by key."""
    out = {f"{library} {source} {steps}": array for source, steps, array in LIBRARIES[library][1]()}
    if library == "pillow":
        return out | oriented_pictures() | pictures()
    return out | (deep_picture() if library == "opencv" else {})


def load() -> dict[str, Array]:
    """Returns the saved results by key."""
    if not GOLDENS.exists():
        return {}
    with np.load(GOLDENS) as archive:
        index, data = json.loads(str(archive["index"])), archive["data"].tobytes()
    out, at = {}, 0
    for key, dtype, shape in index:
        count = math.prod(shape)
        out[key] = np.frombuffer(data, dtype, count, at).reshape(shape)
        at += count * np.dtype(dtype).itemsize
    return out


def save(goldens: Mapping[str, Array]) -> None:
    """Writes the results by key."""
    arrays = {key: np.ascontiguousarray(goldens[key]) for key in sorted(goldens)}
    index = json.dumps([[key, str(array.dtype), array.shape] for key, array in arrays.items()])
    data = np.frombuffer(b"".join(array.tobytes() for array in arrays.values()), np.uint8)
    np.savez_compressed(GOLDENS, index=np.array(index), data=data)


def main() -> None:
    kept, found = load(), sources()
    made = [library for library in LIBRARIES if is_installed(library)]
    for library in made:
        found |= goldens_of(library)
    save({key: value for key, value in kept.items() if key.partition(" ")[0] not in made} | found)
    print(f"{GOLDENS}: {len(found)} made with {', '.join(made)}, {GOLDENS.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
