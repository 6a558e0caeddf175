"""Where the sequences of a folder lie, and all of them read.

A folder of truth holds `SEQ/gt/gt.txt` with `SEQ/seqinfo.ini`, or flat `SEQ.txt`. Results are flat, in the folder or in
`data/` below it, where benchmarks ask for them. Detections are `SEQ/det/det.txt`, or flat.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from yolofast.dataset.faults import Fault
from yolofast.errors import UserError, nearest, nearest_file
from yolofast.track.formats.faults import refuse_faults
from yolofast.track.formats.mot import SEQINFO, SeqInfo, read_mot, read_seqinfo
from yolofast.track.formats.mot_text import Kind
from yolofast.track.formats.sequence import Sequence, frames_allowed

_INSIDE = {"truth": Path("gt", "gt.txt"), "detections": Path("det", "det.txt")}
"""Of a sequence's own folder."""
_NOT_SEQUENCES = {"seqmap", "seqmaps", "readme", "license", "classes", "names", "times", "warps"}
_LAYOUTS = {
    "truth": "SEQ/gt/gt.txt or SEQ.txt",
    "detections": "SEQ/det/det.txt or SEQ.txt",
    "results": "SEQ.txt or data/SEQ.txt",
}


@dataclass(frozen=True)
class SequenceFolder:
    name: str
    path: Path
    info: SeqInfo
    folder: Path
    """Of the sequence, whether it is there or not."""


def find_sequences(place: str | Path, kind: Kind) -> dict[str, SequenceFolder]:
    """By name, sorted; a file is one sequence. Raises `UserError` if there are none."""
    place = Path(place)
    if place.is_file():
        return _one_file(place, kind)
    if not place.is_dir():
        raise UserError(f"does not exist{nearest_file(place)}", where=place, fix=f"give a folder of {_LAYOUTS[kind]}")
    found = {one.name: one for one in (*_flat(place), *_nested(place, kind))}
    if not found:
        fix = f"give a folder of {_LAYOUTS[kind]}"
        raise UserError("holds no sequences", where=place, fix=fix)
    return dict(sorted(found.items()))


def read_sequences(
    place: str | Path,
    kind: Kind,
    *,
    names: Collection[str] | None = None,
    lengths: Mapping[str, int] | None = None,
    faults: list[Fault] | None = None,
    skip_bad: bool = False,
) -> dict[str, Sequence]:
    """All sequences of a place, or those named. `lengths` take precedence over `seqinfo.ini`. Faults of all files are
    refused together."""
    found = find_sequences(place, kind)
    for name in names or ():
        if name not in found:
            raise UserError(f"has no sequence {name}{nearest(name, found)}", where=place, fix=f"add {_LAYOUTS[kind]}")
    result, noted, budget = {}, [] if faults is None else faults, frames_allowed(place)
    for name in found if names is None else names:
        one = found[name]
        length = (lengths or {}).get(name, one.info.length)
        info = replace(one.info, length=length)
        result[name] = read_mot(one.path, kind, name=name, info=info, faults=noted, skip_bad=True)
        budget.spend(result[name].length)
    if not skip_bad:
        refuse_faults(noted, str(place))
    return result


def _one_file(path: Path, kind: Kind) -> dict[str, SequenceFolder]:
    """`SEQ/gt/gt.txt` has the name of its folder."""
    inside = _INSIDE.get(kind)
    if inside is not None and path.parts[-2:] == inside.parts:
        folder = path.absolute().parent.parent
        info = _info(folder)
        name = info.name or folder.name
        return {name: SequenceFolder(name, path, info, folder)}
    return {path.stem: SequenceFolder(path.stem, path, SeqInfo(), path.with_suffix(""))}


def _flat(folder: Path) -> list[SequenceFolder]:
    files = [path for below in (folder, folder / "data") if below.is_dir() for path in sorted(below.glob("*.txt"))]
    named = [path for path in files if path.is_file() and path.stem.lower() not in _NOT_SEQUENCES]
    return [SequenceFolder(path.stem, path, _info(folder / path.stem), folder / path.stem) for path in named]


def _nested(folder: Path, kind: Kind) -> list[SequenceFolder]:
    """The folders of sequences, or the folder itself if it is one."""
    inside = _INSIDE.get(kind)
    if inside is None:
        return []
    found = []
    for own in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())):
        if (own / inside).is_file():
            info = _info(own)
            name = info.name or own.absolute().name
            found.append(SequenceFolder(name, own / inside, info, own))
    return found


def _info(folder: Path) -> SeqInfo:
    path = folder / SEQINFO
    return read_seqinfo(path) if path.is_file() else SeqInfo()
