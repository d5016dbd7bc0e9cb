"""The numpy types of dtypes; the only file here that has numpy loaded, when it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gdsurgeon.ops.dtypes import DTYPES, NUMBERS

if TYPE_CHECKING:
    import numpy as np


def numpy_dtype(number: int) -> np.dtype[np.generic]:
    """The numpy dtype of DataType NUMBER, which has elements outside TensorFlow; strings are objects.

    bfloat16 and other small types are ml_dtypes' where that is installed, raw unsigned words otherwise.
    """
    import numpy as np

    dtype = DTYPES[number]
    if dtype.kind in ("f", "i", "u") and not NUMBERS[dtype.numpy].code:
        try:
            import ml_dtypes

            small: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, dtype.numpy))
            return small
        except (ImportError, AttributeError):
            return np.dtype(f"u{dtype.size}")
    return np.dtype(dtype.numpy)
