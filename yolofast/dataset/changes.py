"""What the splits of a run were made of when it was last started, so that `--resume` says what has changed since.

A run's folder keeps one record: of every image its file, the file's bytes and date, the number of its boxes and a
digest of them. Digests are CRC-32: they show edits, not forgeries.
"""

import io
import os
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from yolofast.dataset.image_facts import file_stamps
from yolofast.files.budget import open_regular
from yolofast.files.known_numbers import NO_ARRAYS
from yolofast.image_index import ImageIndex, Ints
from yolofast.words import counted

_MOST_BYTES = 2**28
"""Of a record that is written or believed: 1.7 million images take 200 MB."""
_MOST_NAMED = 5
_PARTS = ("names", "stamps", "counts", "digests")
Digests = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class SplitRecord:
    names: list[bytes]
    """[N] paths of the images."""
    stamps: Ints
    """[N, 2] bytes and modification times."""
    counts: Ints
    """[N] boxes."""
    digests: Digests
    """[N] of the boxes."""


def record_of(index: ImageIndex) -> SplitRecord:
    names = index.files.tolist()
    return SplitRecord(
        names, file_stamps([os.fsdecode(name) for name in names]), np.diff(index.starts), _digests(index)
    )


def encoded(records: Mapping[str, SplitRecord]) -> bytes:
    """Nothing, if that would be more than is believed."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    for split, record in records.items():
        names = np.frombuffer(b"\0".join(record.names), np.uint8)
        parts: list[npt.NDArray[Any]] = [names, record.stamps, record.counts, record.digests]
        arrays |= {f"{split}.{name}": part for name, part in zip(_PARTS, parts, strict=True)}
    if sum(array.nbytes for array in arrays.values()) > _MOST_BYTES // 2:
        return b""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def read_records(path: Path, splits: Iterable[str]) -> dict[str, SplitRecord] | None:
    """None if there are none, or none that can be understood: they only serve a warning."""
    try:
        with open_regular(path) as file:
            content = io.BytesIO(file.read(_MOST_BYTES))
        with zipfile.ZipFile(content) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > _MOST_BYTES:
                return None
        with np.load(content, allow_pickle=False) as stored:
            return {split: _decoded(*(stored[f"{split}.{name}"] for name in _PARTS)) for split in splits}
    except NO_ARRAYS:
        return None


def _decoded(*parts: npt.NDArray[Any]) -> SplitRecord:
    text = parts[0].tobytes()
    names = text.split(b"\0") if text else []
    count = len(names)
    if [part.shape for part in parts[1:]] != [(count, 2), (count,), (count,)]:
        raise ValueError("the parts do not fit")
    return SplitRecord(names, *(part.astype(kind) for part, kind in zip(parts[1:], (int, int, np.uint32), strict=True)))


def changes_of(before: Mapping[str, SplitRecord], now: Mapping[str, SplitRecord]) -> list[str]:
    """One warning with what has changed; none if nothing has."""
    lines = [line for split, record in now.items() for line in _changes_of_split(split, before[split], record)]
    if not lines:
        return []
    head = "warning: the data set has changed since the run was last started: it continues, but not to the same weights"
    return ["\n  ".join([head, *lines])]


def _changes_of_split(split: str, before: SplitRecord, now: SplitRecord) -> list[str]:
    names_before, names_now = before.names, now.names
    if names_before == names_now and all(
        np.array_equal(getattr(before, part), getattr(now, part)) for part in _PARTS[1:]
    ):
        return []
    moved = not set(names_before) & set(names_now)
    if moved:  # the whole data set may lie elsewhere now
        names_before, names_now = _below_common_folder(names_before), _below_common_folder(names_now)
    old = {name: place for place, name in enumerate(names_before)}
    new = {name: place for place, name in enumerate(names_now)}
    common = [name for name in new if name in old]
    was, has = np.array([old[name] for name in common], int), np.array([new[name] for name in common], int)
    relabelled = np.flatnonzero((before.counts[was] != now.counts[has]) | (before.digests[was] != now.digests[has]))
    # A copy has a date of its own.
    parts = slice(0, 1) if moved else slice(0, 2)
    rewritten = np.flatnonzero((before.stamps[was, parts] != now.stamps[has, parts]).any(axis=1))
    lists = {
        "more": [_shown(name) for name in new if name not in old],
        "fewer": [_shown(name) for name in old if name not in new],
        "with other labels": [
            f"{_shown(common[i])} ({_boxes(before.counts[was[i]], now.counts[has[i]])})" for i in relabelled
        ],
        "whose file was written since": [_shown(common[i]) for i in rewritten],
    }
    changed = [f"  {counted(len(names), 'image')} {what}: {_some(names)}" for what, names in lists.items() if names]
    if not changed:
        return []
    sums = [f"{a:,} {thing}" if a == b else f"{a:,} → {b:,} {thing}" for a, b, thing in (
        (len(before.names), len(now.names), "images"), (before.counts.sum(), now.counts.sum(), "boxes"),
    )]  # fmt: skip
    return [f"{split}: {', '.join(sums)}", *changed]


def _boxes(before: int, now: int) -> str:
    if before == now:
        return f"{now} boxes, other ones" if now > 1 else "its box is another"
    return f"{before} → {now} boxes"


def _below_common_folder(names: list[bytes]) -> list[bytes]:
    if not names:
        return []
    folder = os.path.commonpath([os.path.dirname(min(names)), os.path.dirname(max(names))])
    return [name[len(folder) :].lstrip(b"/") for name in names]


def _shown(name: bytes) -> str:
    return name.decode(errors="replace")


def _some(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _digests(index: ImageIndex) -> Digests:
    """[N]; the same boxes in another order have another one."""
    corners = np.diff(index.point_starts)
    per_box = [_bytes_per_row(array) for array in (index.labels, index.boxes, index.crowd, corners)]
    points = index.point_starts[index.starts].tolist()
    views = [*((view, size, index.starts.tolist()) for view, size in per_box), (*_bytes_per_row(index.points), points)]
    digests = np.zeros(len(index), np.uint32)
    for image in range(len(index)):
        digest = 0
        for view, size, starts in views:
            digest = zlib.crc32(view[starts[image] * size : starts[image + 1] * size], digest)
        digests[image] = digest
    return digests


def _bytes_per_row(array: npt.NDArray[Any]) -> tuple[memoryview, int]:
    rows = np.ascontiguousarray(array)
    return memoryview(rows.tobytes()), rows.itemsize * int(np.prod(rows.shape[1:]))
