"""MOTChallenge folders and files: truth, detections and results as text, `seqinfo.ini`, and lists of sequences.

Truth is `frame,id,x,y,w,h,mark,class,visibility`, results `frame,id,x,y,w,h,score,class,-1,-1`; detections have -1 as
id. Column 8 is a class only where every value of it is a whole number: files of the 2015 benchmark hold world
coordinates there. `folders.py` says where the files lie.
"""

import configparser
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from yolofast.dataset.faults import Fault
from yolofast.errors import UserError, nearest_file, shorten
from yolofast.files.atomic_file import write_output
from yolofast.files.budget import open_regular
from yolofast.track.formats.faults import refuse_faults
from yolofast.track.formats.mot_text import LEAST_COLUMNS, Kind, MotRows, check_rows, parse_mot
from yolofast.track.formats.sequence import UNKNOWN, Floats, Ints, Sequence, check_name, make_sequence

SEQINFO, TIMES = "seqinfo.ini", "times.txt"
_SECTION = "Sequence"
_MOST_LETTERS = 10_000
"""Of `seqinfo.ini`, which has some two hundred: Python looks through a line of spaces again from each of them."""
_WITH_VISIBILITY = 9
_GIVE_ROWS = "give frame, id, x, y, w, h, … a row"


@dataclass(frozen=True, kw_only=True)
class SeqInfo:
    """What `seqinfo.ini` says; None where it says nothing."""

    name: str | None = None
    length: int | None = None
    frame_rate: float | None = None
    width: int | None = None
    height: int | None = None
    images: str = "img1"
    ending: str = ".jpg"


def read_mot(
    path: str | Path,
    kind: Kind,
    *,
    name: str | None = None,
    info: SeqInfo | None = None,
    faults: list[Fault] | None = None,
    skip_bad: bool = False,
) -> Sequence:
    """Raises `UserError` for fatal faults, or with `skip_bad` omits their rows; `faults` collects them all."""
    path, info = Path(path), info or SeqInfo()
    found = parse_mot(text_of(path), str(path), kind, info.length)
    if faults is not None:
        faults.extend(found.faults)
    if not skip_bad:
        refuse_faults(found.faults, str(path))
    return sequence_of(name or info.name or path.stem, found, kind, info)


def sequence_of_rows(
    name: str,
    rows: npt.ArrayLike,
    kind: Kind,
    length: int | None = None,
    *,
    faults: list[Fault] | None = None,
    skip_bad: bool = False,
) -> Sequence:
    """From an array of MOT rows [n, 6 or more] in place of a file; faults name its rows."""
    where = f"{kind}, rows of {name}"
    if np.ma.is_masked(rows):
        raise UserError(f"{where}: some values are masked", fix="omit the rows that are masked")
    try:
        given = np.asarray(rows, np.float64)
    except (TypeError, ValueError):
        raise UserError(f"{where} are {shorten(rows)}", fix=_GIVE_ROWS) from None
    if given.size == 0:
        given = np.zeros((0, LEAST_COLUMNS))
    if given.ndim != 2 or given.shape[1] < LEAST_COLUMNS:
        raise UserError(f"{where} have the shape {given.shape}", fix=_GIVE_ROWS)
    found = check_rows(given, where, kind, length)
    if faults is not None:
        faults.extend(found.faults)
    if not skip_bad:
        refuse_faults(found.faults, where)
    return sequence_of(name, found, kind, SeqInfo(length=length))


def text_of(path: Path, rows: str = "frame,id,x,y,w,h,…") -> str:
    """`rows` says what is expected."""
    try:
        with open_regular(path) as file:
            return file.read().decode("utf-8-sig").replace("\r\n", "\n")
    except FileNotFoundError:
        raise UserError(f"does not exist{nearest_file(path)}", where=path, fix="give the file's path") from None
    except UnicodeDecodeError:
        raise UserError("is not text", where=path, fix=f"give a file of rows {rows}") from None
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=path, fix="give a file that can be read") from None


def sequence_of(name: str, found: MotRows, kind: Kind, info: SeqInfo, **about: Any) -> Sequence:
    """Of the rows without a fatal fault."""
    rows = found.rows[~found.bad]
    box = rows[:, 2:6].copy()
    box[:, 2:] += box[:, :2]
    seventh = rows[:, 6] if rows.shape[1] > 6 else np.ones(len(rows))
    visible = kind == "truth" and rows.shape[1] == _WITH_VISIBILITY
    return make_sequence(
        name,
        frame=rows[:, 0].astype(np.int64),
        id=rows[:, 1].astype(np.int64) if kind != "detections" else np.full(len(rows), UNKNOWN),
        box=box,
        score=np.ones(len(rows)) if kind == "truth" else seventh,
        mark=seventh != 0 if kind == "truth" else None,
        label=_labels(rows),
        visibility=rows[:, 8] if visible else None,
        length=info.length,
        frame_rate=info.frame_rate,
        width=info.width,
        height=info.height,
        **about,
    )


def _labels(rows: Floats) -> Ints:
    column = rows[:, 7] if rows.shape[1] > 7 else np.full(len(rows), float(UNKNOWN))
    with np.errstate(invalid="ignore"):
        whole = (column == np.floor(column)).all() and (np.abs(column) < 2**53).all()
    return column.astype(np.int64) if whole else np.full(len(rows), UNKNOWN)


def write_mot(path: str | Path, sequence: Sequence, kind: Kind) -> Path:
    return write_output(path, mot_content(sequence, kind))


def mot_content(sequence: Sequence, kind: Kind) -> bytes:
    """Coordinates are written with the digits they have, at most six after the point."""
    size = sequence.box[:, 2:] - sequence.box[:, :2]
    corner = sequence.box[:, :2]
    ids = sequence.id if kind != "detections" else np.full(len(sequence), UNKNOWN)
    start = [_whole(sequence.frame), _whole(ids), *map(_decimal, (corner[:, 0], corner[:, 1], size[:, 0], size[:, 1]))]
    labels = _whole(sequence.label)
    if kind == "truth":
        end = [_whole(sequence.mark.astype(np.int64)), labels, _decimal(sequence.visibility)]
    else:
        nothing = [str(UNKNOWN)] * len(sequence)
        end = [_decimal(sequence.score), labels, nothing, nothing]
    lines = map(",".join, zip(*start, *end, strict=True))
    return "".join(f"{line}\n" for line in lines).encode()


def _whole(values: Ints) -> list[str]:
    return list(map(str, values.tolist()))


def _decimal(values: Floats) -> list[str]:
    """Six decimals are a micrometre of a screen, and hide that x + w - x is not always w."""
    return [f"{value:.6f}".rstrip("0").rstrip(".") for value in (values + 0.0).tolist()]


def read_seqinfo(path: str | Path) -> SeqInfo:
    """Keys it does not have stay unknown; values that are no numbers are refused."""
    parser = configparser.ConfigParser(interpolation=None)
    text = text_of(Path(path))
    if len(text) > _MOST_LETTERS:
        raise UserError(f"has {len(text):,} letters, too many for a {SEQINFO}", where=path, fix=f"shorten [{_SECTION}]")
    try:
        parser.read_string(text)
    except configparser.Error as error:
        first = str(error).splitlines()[0]
        raise UserError(f"is not an ini file: {first}", where=path, fix=f"begin it with [{_SECTION}]") from None
    if not parser.has_section(_SECTION):
        raise UserError(f"has no section [{_SECTION}]", where=path, fix=f"begin it with [{_SECTION}]")
    section = parser[_SECTION]
    name = section.get("name")
    length, width, height = (_number(section, key, path) for key in ("seqLength", "imWidth", "imHeight"))
    return SeqInfo(
        name=check_name(name, path) if name else None,
        length=None if length is None else int(length),
        frame_rate=_number(section, "frameRate", path),
        width=None if width is None else int(width),
        height=None if height is None else int(height),
        images=section.get("imDir", SeqInfo.images),
        ending=section.get("imExt", SeqInfo.ending),
    )


def _number(section: configparser.SectionProxy, key: str, path: str | Path) -> float | None:
    text = section.get(key)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    fits = 0 < value < math.inf if key == "frameRate" else value >= 0 and value.is_integer()
    if not fits:
        raise UserError(f"{key} is {shorten(text)}", where=path, fix="give a number above 0")
    return value


def read_times(folder: Path, length: int | None = None) -> Floats | None:
    """Seconds of each frame of the sequence in this folder; None where frames are evenly spaced."""
    path = folder / TIMES
    if not path.is_file():
        return None
    fix, times = "write seconds, a frame a line, each later than the one before", []
    for number, text in enumerate(text_of(path, "of seconds").split(), 1):
        try:
            times.append(float(text))
        except ValueError:
            times.append(math.nan)
        if not math.isfinite(times[-1]):
            raise UserError(f"{shorten(text)} is not a time", where=path, line=number, fix=fix)
        if number > 1 and times[-1] <= times[-2]:
            raise UserError(f"{times[-1]:g} follows {times[-2]:g}", where=path, line=number, fix=fix)
    if length is not None and len(times) != length:
        what = f"has {len(times):,} times, but the sequence {length:,} frames"
        raise UserError(what, where=path, fix=f"correct it, or seqLength in {SEQINFO}")
    return np.array(times)


def write_seqinfo(
    path: str | Path, sequence: Sequence, images: str = SeqInfo.images, ending: str = SeqInfo.ending
) -> Path:
    return write_output(path, seqinfo_content(sequence, images, ending))


def seqinfo_content(sequence: Sequence, images: str, ending: str) -> bytes:
    known = {
        "name": sequence.name,
        "imDir": images,
        "frameRate": None if sequence.frame_rate is None else f"{sequence.frame_rate:g}",
        "seqLength": sequence.length,
        "imWidth": sequence.width,
        "imHeight": sequence.height,
        "imExt": ending,
    }
    lines = [f"[{_SECTION}]", *(f"{key}={value}" for key, value in known.items() if value is not None)]
    return ("\n".join(lines) + "\n").encode()


def read_seqmap(path: str | Path) -> tuple[str, ...]:
    """Names of sequences, a line each, below a line `name`."""
    names = [line.strip().split(",")[0] for line in text_of(Path(path)).splitlines()]
    names = [name for name in names if name and name != "name"]
    for name, count in Counter(names).items():
        if count > 1:
            raise UserError(f"names {shorten(name)} twice", where=path, fix="name each sequence once")
    return tuple(names)
