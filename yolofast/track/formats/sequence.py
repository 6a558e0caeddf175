"""`Sequence`: the boxes of one video as columns, sorted by frame. It is what crosses every boundary of `track/`.

Columns, not objects: a sequence of half a million boxes is nine arrays, and filters are masks. Within a frame the order
of the file is kept, because solvers of assignments break ties by it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from yolofast.errors import UserError, shorten
from yolofast.files.budget import Budget

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

UNKNOWN = -1
"""The label of a box without a class, and the id of a box without an identity."""

MOST_FRAMES = 10_000_000
"""Of a sequence: four days at 30 a second. Beyond is a slip, and every frame costs memory."""


_LONGEST_NAME = 200


def check_name(name: str, where: str | Path | None = None) -> str:
    """Files are called like their sequence, whose name a stranger may have written: it must not lead elsewhere.

    TAO's `train/YFCC100M/v_1` leads into a folder, which is allowed. Raises `UserError`.
    """
    parts = name.split("/")
    leads_out = any(part in ("", ".", "..") for part in parts) or any(letter in name for letter in "\\\0\r\n")
    if leads_out or len(name) > _LONGEST_NAME:
        raise UserError(
            f"a sequence is called {shorten(name)}", where=where, fix="give it a name that a folder may have"
        )
    return name


def frames_allowed(where: str | Path) -> Budget:
    """For all sequences of a place together: a few bytes may say that there are millions, and each takes memory."""
    what = f"its sequences have more than {MOST_FRAMES:,} frames in all"
    return Budget(MOST_FRAMES, lambda: UserError(what, where=where, fix="correct their numbers, or read fewer at once"))


@dataclass(frozen=True, kw_only=True, eq=False)
class Sequence:
    """n boxes in `length` frames, which count from 1."""

    name: str
    length: int
    frame: Ints
    """[n], ascending"""
    id: Ints
    """[n]; -1 in detections"""
    box: Floats
    """[n, 4] x1, y1, x2, y2 in pixels"""
    score: Floats
    """[n]"""
    label: Ints
    """[n] the class; -1 where none is given"""
    mark: Bools
    """[n] whether a box of the truth counts"""
    visibility: Floats
    """[n] 0 to 1"""
    frame_rate: float | None = None
    width: int | None = None
    height: int | None = None
    files: tuple[str, ...] = ()
    """Image of each frame, if known."""
    classes: Mapping[int, str] = field(default_factory=dict)
    """Names of labels, if known."""

    def __post_init__(self) -> None:
        shapes = {name: getattr(self, name).shape for name in COLUMNS}
        rows = len(self.frame)
        assert all(shape == ((rows, 4) if name == "box" else (rows,)) for name, shape in shapes.items()), shapes
        assert not self.files or len(self.files) == self.length, "an image for each frame"

    def __len__(self) -> int:
        """Of boxes."""
        return len(self.frame)

    def kept(self, which: Bools | Ints) -> Self:
        """Some of the boxes."""
        return replace(self, **{name: getattr(self, name)[which] for name in COLUMNS})

    def starts(self) -> Ints:
        """[length + 1] boxes of frame f are `starts[f - 1] : starts[f]`."""
        return np.searchsorted(self.frame, np.arange(1, self.length + 2))

    def identities(self) -> Ints:
        """Each once, ascending."""
        return np.unique(self.id)


COLUMNS = ("frame", "id", "box", "score", "label", "mark", "visibility")


def make_sequence(
    name: str,
    *,
    frame: npt.ArrayLike,
    id: npt.ArrayLike,
    box: npt.ArrayLike,
    score: npt.ArrayLike | None = None,
    label: npt.ArrayLike | None = None,
    mark: npt.ArrayLike | None = None,
    visibility: npt.ArrayLike | None = None,
    length: int | None = None,
    **about: Any,
) -> Sequence:
    """From columns in any order of frames; what is not given is 1, no class, counts, visible. Raises `UserError`."""
    frames = _column(name, "frame", frame, np.int64, None)
    rows = len(frames)
    order = np.argsort(frames, kind="stable")
    boxes = _column(name, "box", np.reshape(np.asarray(box, np.float64), (-1, 4)), np.float64, rows)
    columns = {
        "frame": frames,
        "id": _column(name, "id", id, np.int64, rows),
        "box": boxes,
        "score": _column(name, "score", np.ones(rows) if score is None else score, np.float64, rows),
        "label": _column(name, "label", np.full(rows, UNKNOWN) if label is None else label, np.int64, rows),
        "mark": _column(name, "mark", np.ones(rows, np.bool_) if mark is None else mark, np.bool_, rows),
        "visibility": _column(
            name, "visibility", np.ones(rows) if visibility is None else visibility, np.float64, rows
        ),
    }
    if rows and frames[order[0]] < 1:
        raise UserError(f"sequence {name}: frame {frames[order[0]]}", fix="count frames from 1")
    last = int(frames[order[-1]]) if rows else 0
    if max(last, length or 0) > MOST_FRAMES:
        raise UserError(
            f"sequence {name} has {max(last, length or 0):,} frames", fix=f"at most {MOST_FRAMES:,} are read"
        )
    if length is not None and last > length:
        raise UserError(f"sequence {name}: frame {last}, but its length is {length}", fix="correct one of them")
    return Sequence(
        name=name,
        length=last if length is None else length,
        **{key: column[order] for key, column in columns.items()},
        **about,
    )


def _column(name: str, key: str, values: npt.ArrayLike, kind: type[np.generic], rows: int | None) -> Any:
    try:
        given = np.asarray(values)
        column = given.astype(kind)
    except (TypeError, ValueError) as error:
        raise UserError(f"sequence {name}: {key} is {shorten(values)}", fix="give numbers") from error
    if rows is not None and len(column) != rows:
        raise UserError(f"sequence {name}: {len(column)} of {key} for {rows} boxes", fix="give one for each box")
    if kind is np.int64 and given.size and not np.array_equal(column, given):
        raise UserError(f"sequence {name}: {key} has values that are not whole numbers", fix="give whole numbers")
    return column
