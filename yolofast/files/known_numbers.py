"""Numbers out of files that anybody may have written: NaN, infinity and absurdly large ones count as unknown.

Their squares would overflow, and an infinite duration has no meaning.
"""

import json
import math
import re
import zipfile
import zlib
from collections.abc import Mapping
from tokenize import TokenError
from typing import Any

NO_ARRAYS = (
    *(OSError, ValueError, TypeError, LookupError, AttributeError, EOFError, MemoryError, RecursionError),
    *(OverflowError, SyntaxError, NotImplementedError, TokenError, zipfile.BadZipFile, zlib.error),
)  # fmt: skip
"""What `np.load` of a file that is not, or no longer, one of arrays may end in."""
HUGE = 1e30
LONGEST_SIDE = 1e9
"""Pixels."""
_LARGEST_COUNT, _LARGEST_ID = 2**63, 2**62
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")
_DEEPEST = 30


def known_number(value: object) -> float | None:
    """None for NaN and for what is not a number: text, lists, booleans."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= HUGE:
        return None
    return float(value)


def as_id(value: Any) -> int | None:
    """A whole number, which some tools write as text or with a decimal point; None for anything else."""
    if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST_ID:
        return value
    return None


def stated_size(entry: Mapping[str, Any]) -> tuple[int, int] | None:
    """Width and height, of what says both, as images have them."""
    width, height = entry.get("width"), entry.get("height")
    if isinstance(width, int) and isinstance(height, int) and 0 < width < LONGEST_SIDE and 0 < height < LONGEST_SIDE:
        return width, height
    return None


def parse_json(text: str) -> tuple[Any, list[str]]:
    """The values, with None in the place of numbers that are not known, and those as they are written.

    Raises ValueError or RecursionError for what is no JSON.
    """
    unknown: list[str] = []

    def known(digits: str) -> float | int | None:
        value = float(digits)
        if abs(value) <= HUGE:
            whole = digits.removeprefix("-").isdecimal()
            if not whole or abs(value) < _LARGEST_COUNT:
                return int(digits) if whole else value
        unknown.append(digits if len(digits) <= 20 else f"{digits[:8]}… ({len(digits)} digits)")
        return None

    values = json.loads(text, parse_int=known, parse_float=known, parse_constant=known)
    if _is_deeper(values, _DEEPEST):
        raise ValueError("it is nested too deeply")
    return values, unknown


def without_nan(values: Mapping[str, Any]) -> dict[str, Any]:
    """For JSON, which has no word for what is not finite: None, not known."""
    return {key: _finite(item) for key, item in values.items()}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return without_nan(value)
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _is_deeper(value: object, most: int) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return most == 0 or any(_is_deeper(item, most - 1) for item in items)
