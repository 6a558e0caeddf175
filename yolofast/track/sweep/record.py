"""The file a search grows: a line for every setting that is done, so that an interrupted search continues.

The first line says what was searched: the sequences and a digest of all that results depend on. Results of other data
would be nonsense beside each other, so a folder of another search is refused. A line that was cut off is left out.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from yolofast.errors import UserError
from yolofast.track.formats.sequence import Floats
from yolofast.track.sweep.figures import WIDTH
from yolofast.track.sweep.space import Trial, key_of

FILE_NAME = "trials.jsonl"
_FORMAT = 1
_MADE_BY = "yolofast tracksweep"
_DIGITS = 9


class Record:
    """`rows[key]` is [sequences, WIDTH] of each setting that is done."""

    def __init__(self, folder: Path, sequences: Sequence[str], digest: str) -> None:
        self.path = folder / FILE_NAME
        self.rows: dict[str, Floats] = {}
        self._head = {"made_by": _MADE_BY, "format": _FORMAT, "sequences": list(sequences), "digest": digest}
        self._shape = (len(sequences), WIDTH)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            is_new = not self.path.exists() or not self._read()
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            if is_new:
                os.ftruncate(self._file, 0)
                self._append(self._head)
            elif not self.path.read_bytes().endswith(b"\n"):
                os.write(self._file, b"\n")
        except OSError as error:
            raise UserError(
                f"cannot be written: {error.strerror}", where=self.path, fix="name another folder"
            ) from None

    def add(self, trial: Trial, rows: Floats) -> None:
        """Written whole: by one call, at the end of the file."""
        key = key_of(trial)
        if key in self.rows:
            return
        self.rows[key] = rows
        self._append({"settings": trial, "rows": [[_short(value) for value in row] for row in rows.tolist()]})

    def close(self) -> None:
        os.close(self._file)

    def _append(self, entry: dict[str, Any]) -> None:
        os.write(self._file, (json.dumps(entry, separators=(",", ":")) + "\n").encode())

    def _read(self) -> bool:
        """False if not even the first line is there."""
        first, *lines = self.path.read_text(encoding="utf-8", errors="replace").split("\n")
        head = _parsed(first)
        if head is None:
            if lines or first:
                raise UserError(f"was not written by `{_MADE_BY}`", where=self.path, fix="name another --output")
            return False
        if head != self._head:
            what = "holds results of other sequences, detections or truth"
            raise UserError(what, where=self.path, fix="name another --output, or remove it")
        for line in lines:
            entry = _parsed(line) or {}
            rows = np.array(entry.get("rows", []), np.float64) if "settings" in entry else np.zeros(0)
            if rows.shape == self._shape:
                self.rows[key_of(entry["settings"])] = rows
        return True


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _short(value: float) -> float | int:
    """Most are counts."""
    return int(value) if value.is_integer() else round(value, _DIGITS)
