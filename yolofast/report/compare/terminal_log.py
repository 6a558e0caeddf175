"""What a saved terminal says about time: `100 epochs completed in 1.810 hours`, and the pace of the progress bars."""

import re
from dataclasses import dataclass
from pathlib import Path
from statistics import median

_PATTERNS = ("*.log", "*.out", "log*.txt", "train*.txt", "output*.txt", "console*.txt")
_MAX_BYTES = 64 * 2**20
_NUMBER = r"(\d{1,9}(?:\.\d{0,9})?)"
_COMPLETED = re.compile(rf"\b(\d{{1,7}}) epochs completed in {_NUMBER} hours")
# Only bars that have come to their end, and only those of training: their line begins with epoch and GPU memory.
_BAR = re.compile(
    rf"^[ \t]*\d+/\d+\s+[\d.]+G\b.*?\b(\d{{1,9}})/\1\s*\[(?:\d+:)?\d+:\d+<[^,\]]*,\s*{_NUMBER}\s*(it/s|s/it)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Told:
    epochs: int | None = None
    hours: float | None = None
    iterations: int | None = None
    """Of an epoch."""
    iterations_per_second: float | None = None
    file: str = ""


def read_told(folder: Path, problems: list[str]) -> Told:
    """From the first log that says anything; epochs of a resumed run are added up. One that cannot be read is told."""
    names = sorted({path for pattern in _PATTERNS for path in folder.glob(pattern) if path.is_file()})
    for path in names:
        try:
            text = path.read_text(encoding="utf-8", errors="replace") if path.stat().st_size <= _MAX_BYTES else ""
        except OSError as error:
            problems.append(f"{path.name} cannot be read: {error.strerror}")
            continue
        told = told_by(text, path.name)
        if told.hours or told.iterations:
            return told
    return Told()


def told_by(text: str, file: str = "") -> Told:
    text = text.replace("\r", "\n")
    ends = [(int(match[1]), float(match[2])) for match in _COMPLETED.finditer(text)]
    bars = [(int(match[1]), _pace(float(match[2]), match[3])) for match in _BAR.finditer(text) if float(match[2])]
    return Told(
        epochs=sum(epochs for epochs, _ in ends) or None,
        hours=sum(hours for _, hours in ends) or None,
        iterations=bars[-1][0] if bars else None,
        iterations_per_second=median(pace for _, pace in bars) if bars else None,
        file=file,
    )


def _pace(number: float, unit: str) -> float:
    return number if unit == "it/s" else 1 / number
