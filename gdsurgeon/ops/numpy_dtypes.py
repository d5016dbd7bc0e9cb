"""The numpy types of dtypes; the only file here that has numpy loaded, when it is asked."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from gdsurgeon.errors import NotValidatedError
from gdsurgeon.ops.dtypes import DTYPES, NUMBERS, DType

if TYPE_CHECKING:
    import numpy as np


@cache
def has_numpy() -> bool:
    """Returns whether NumPy is installed: TensorFlow brings it, gdsurgeon does not."""
    from importlib.util import find_spec

    return find_spec("numpy") is not None


def require_numpy(what: str) -> None:
    """Does nothing if NumPy is installed. WHAT is the work that needs it.

    Raises:
        NotValidatedError: NumPy is not installed.
    """
    if not has_numpy():
        raise NotValidatedError(
            f"NumPy is not installed, but {what} needs it",
            code="no-engine",
            package="numpy",
            advice="install-tensorflow",
        )


def is_readable(dtype: DType) -> bool:
    """Returns whether elements of DTYPE are numbers here: bfloat16 and its like need ml_dtypes, complex ones NumPy."""
    if not has_numpy():
        return bool(NUMBERS[dtype.numpy].code)
    return not dtype.is_float or numpy_dtype(dtype).kind != "u"


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
