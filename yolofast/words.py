"""Numbers in words, and how `yolofast` is typed here, for messages that say what to type next."""

import math
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

_NAME = "yolofast"
_DURATION = re.compile("".join(rf"(?:(\d+(?:\.\d+)?){unit})?" for unit in "dhms"))
_UNITS = 86_400, 3600, 60, 1


def counted(count: int, noun: str) -> str:
    """`1 epoch`, `1,000 epochs`, `2 classes`."""
    plural = "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}{'' if count == 1 else plural}"


def amount(count: float) -> str:
    """Bytes in the unit that suits them; powers of ten, as disks are sold."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1e3:.1f} kB"


def clock(seconds: float) -> str:
    """`1:02:03`, for what counts down."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def duration(seconds: float) -> str:
    """`1 h 2 min`, for what is over."""
    if not 0 <= seconds < math.inf:
        return "unknown"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def seconds_of(text: str) -> float:
    """Of `3h50m`, `90m`, `1d`, `45s`; 0 for anything else."""
    found = _DURATION.fullmatch(text.strip())
    return sum(float(n or 0) * unit for n, unit in zip(found.groups(), _UNITS, strict=True)) if found else 0.0


def own_command(python: str = sys.executable) -> str:
    """`yolofast`, or its path in an environment that is not active, or how to call it as a module."""
    own = shutil.which(_NAME, path=str(Path(python).parent))
    if own is None:
        return _NAME if shutil.which(_NAME) else f"{_shortest(python)} -m yolofast"
    on_path = shutil.which(_NAME)
    if on_path is not None and os.path.samefile(on_path, own):
        return _NAME
    return _shortest(own)


def _shortest(path: str) -> str:
    """From the current folder if it lies below; ready to be typed."""
    absolute, here = Path(path).absolute(), Path.cwd()
    return shlex.quote(str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute))
