"""Element types: weft's numbers, their names, and numpy's types."""

from __future__ import annotations

import importlib
from typing import Any

import numpy

from ._native import ffi, lib
from .errors import bad_argument, text

NAMES: list[str] = []
for _number in sorted(ffi.typeof("weft_dtype").elements):
    NAMES.append(text(lib.weft_dtype_name(_number)))

_NUMPY = {"f64": "float64", "f32": "float32", "f16": "float16", "i64": "int64", "i32": "int32", "i8": "int8",
          "u8": "uint8", "bool": "bool"}
BF16 = NAMES.index("bf16")


def _ml_bfloat16() -> Any:
    """numpy's bfloat16 by ml_dtypes where that is installed, else None."""
    try:
        return numpy.dtype(importlib.import_module("ml_dtypes").bfloat16)
    except ImportError:
        return None


ML_BF16 = _ml_bfloat16()

#: numpy's type by weft's number. bf16 without ml_dtypes has None.
NUMPY: list[Any] = [numpy.dtype(_NUMPY[name]) if name in _NUMPY else ML_BF16 for name in NAMES]
_NUMBER = {dtype: number for number, dtype in enumerate(NUMPY) if dtype is not None}
_BY_NAME = {name: number for number, name in enumerate(NAMES)}
SIZES = [int(lib.weft_dtype_bytes(number)) for number in range(len(NAMES))]


def number_of(dtype: Any, operation: str) -> int:
    """weft's number of a type: its name ("f32", "bf16"), or all that numpy.dtype() takes."""
    if isinstance(dtype, str):
        if dtype in _BY_NAME:
            return _BY_NAME[dtype]
        if dtype == "bfloat16":
            return BF16
    try:
        found = numpy.dtype(dtype)
    except TypeError:
        raise bad_argument(operation, f"{dtype!r} is no element type", "use one of " + ", ".join(NAMES)) from None
    number = _NUMBER.get(found)
    if number is None:
        raise bad_argument(operation, f"elements of type {found} can't be moved",
                           "convert them: weft has " + ", ".join(NAMES) + ", in the machine's byte order")
    return number


def numpy_of(number: int, operation: str) -> Any:
    """numpy's type of a number."""
    found = NUMPY[number]
    if found is None:
        raise bad_argument(operation, "numpy has no bf16", "install ml_dtypes, or use the Tensor itself by DLPack")
    return found
