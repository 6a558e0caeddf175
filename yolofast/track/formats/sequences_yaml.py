"""`sequences.yaml`: which sequences belong together, where they lie, and what their classes are called.

    path: .                           # folder of the sequences, from this file; by default its own folder
    names: [circle, square]           # classes; or {1: pedestrian} where they are not numbered from 0
    sequences: [SEQ-01, SEQ-02]       # MOTChallenge folders; or a seqmap file; by default all that are there

A sequence's images are the folder or the video that `imDir` of its `seqinfo.ini` names, or a video called as the
sequence beside its folder. `times.txt` holds the seconds of each frame, a line each, where frames are not evenly
spaced. Everything that is missing is reported in one message.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from yolofast.dataset.faults import Fault
from yolofast.errors import UserError, nearest, nearest_file, shorten
from yolofast.files.atomic_file import write_output
from yolofast.files.yaml_file import YamlFile, dump_yaml, read_yaml
from yolofast.track.formats import sequence as columns
from yolofast.track.formats.mot import SEQINFO, SeqInfo, read_mot, read_seqinfo, read_seqmap, read_times

FILE_NAME = "sequences.yaml"
LISTS = (".yaml", ".yml")
"""Endings of such files."""
_TRUTH, _DETECTIONS = Path("gt", "gt.txt"), Path("det", "det.txt")
_KEYS = ("path", "names", "sequences")
_EXAMPLE = "sequences: [SEQ-01, SEQ-02]"
_SHOWN = 5
_VIDEOS = (".mp4", ".avi", ".mkv", ".mov")


@dataclass(frozen=True, kw_only=True)
class ListedSequence:
    """One sequence and its files; `None` for those it does not have."""

    name: str
    folder: Path
    info: SeqInfo
    source: Path | None
    """Folder of images, or a video: what `yolofast track --source` takes."""
    truth: Path | None
    detections: Path | None
    classes: Mapping[int, str]

    def read_truth(self, faults: list[Fault] | None = None, *, skip_bad: bool = False) -> columns.Sequence:
        if self.truth is None:
            raise UserError(f"has no {_TRUTH}", where=self.folder, fix="only sequences with truth can be scored")
        found = read_mot(self.truth, "truth", name=self.name, info=self.info, faults=faults, skip_bad=skip_bad)
        return replace(found, classes=dict(self.classes))

    def times(self) -> columns.Floats | None:
        """Seconds of each frame; None where frames are evenly spaced."""
        return read_times(self.folder, self.info.length)


@dataclass(frozen=True, kw_only=True)
class SequencesYaml:
    path: Path
    names: Mapping[int, str]
    """Classes by the numbers of column 8; empty if the file does not name them."""
    sequences: tuple[ListedSequence, ...]


def read_sequences_yaml(path: str | Path) -> SequencesYaml:
    """A folder means the `sequences.yaml` in it. Raises `UserError`."""
    path = Path(path)
    if path.is_dir():
        path = path / FILE_NAME
    if not path.is_file():
        fix = f"give a {FILE_NAME} with `path`, `names` and `sequences`"
        raise UserError(f"does not exist{nearest_file(path)}", where=path, fix=fix)
    file = read_yaml(path)
    for key in file.values:
        if key not in _KEYS:
            what = f"has an unknown key {shorten(key)}{nearest(str(key), _KEYS)}"
            raise UserError(what, where=path, line=file.line(key), fix=f"use {', '.join(_KEYS)}")
    root = _root(file, path)
    names = _names(file)
    listed = _listed(_entries(file, root, path), root, names, file, path)
    return SequencesYaml(path=path, names=names, sequences=listed)


def write_sequences_yaml(
    path: str | Path, names: Sequence[str] | Mapping[int, str], sequences: Iterable[str], comment: str = ""
) -> Path:
    """For sequences in the folder of the file."""
    plain = list(names) if isinstance(names, Sequence) else dict(names)
    values = {"path": ".", "names": plain, "sequences": list(sequences)}
    text = dump_yaml(values, default_flow_style=None, width=120, allow_unicode=True)
    return write_output(path, (f"# {comment}\n" * bool(comment) + text).encode())


def _root(file: YamlFile, path: Path) -> Path:
    given = file.values.get("path", ".")
    if not isinstance(given, str) or not given or "\0" in given:
        raise UserError(
            f"path must be a folder, not {shorten(given)}", where=path, line=file.line("path"), fix="path: ."
        )
    own = path.absolute().parent
    root = Path(os.path.normpath(own / Path(given).expanduser()))
    if not root.is_dir():
        what = f"path: no such folder: {shorten(str(root))}{nearest_file(root)}"
        raise UserError(what, where=path, line=file.line("path"), fix="give it from the folder of this file")
    return root


def _names(file: YamlFile) -> dict[int, str]:
    given = file.values.get("names")
    if given is None:
        return {}
    numbered = dict(enumerate(given)) if isinstance(given, list) else given
    right = isinstance(numbered, dict) and numbered and all(_is_number(number) for number in numbered)
    if not right or not all(isinstance(name, str | int | float) for name in numbered.values()):
        what = f"names must be a list of classes, or a mapping from their numbers, not {shorten(given)}"
        fix = "names: [cat, dog], or names: {1: pedestrian}"
        raise UserError(what, where=file.where, line=file.line("names"), fix=fix)
    named = {number: file.as_name(name, "names", number) for number, name in numbered.items()}
    counts = Counter(named.values())
    for number, name in named.items():
        if counts[name] > 1:
            line = file.line("names", number)
            raise UserError(f"names has {shorten(name)} twice", where=file.where, line=line, fix="name each class once")
    return named


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _entries(file: YamlFile, root: Path, path: Path) -> list[str]:
    given = file.values.get("sequences")
    if given is None:
        found = sorted(one.parent.name for one in root.glob(f"*/{SEQINFO}"))
        if not found:
            what = f"names no sequences, and {shorten(str(root))} has no folders with a {SEQINFO}"
            raise UserError(what, where=path, fix=_EXAMPLE)
        return found
    if isinstance(given, str) and given.lower().endswith(".txt"):
        given = list(read_seqmap(root / given))
    entries: list[Any] = given if isinstance(given, list) else [given]
    names = [file.as_name(one, "sequences", place) if _is_name(one) else one for place, one in enumerate(entries)]
    known: set[str] = set()
    for place, name in enumerate(names):
        line = file.line("sequences", place)
        if not isinstance(name, str) or not name or "\0" in name:
            what = f"sequences must be names of folders, not {shorten(name)}"
            raise UserError(what, where=path, line=line, fix=_EXAMPLE)
        if name in known:
            raise UserError(f"names the sequence {shorten(name)} twice", where=path, line=line, fix="remove one")
        known.add(name)
    if not names:
        raise UserError("lists no sequences", where=path, line=file.line("sequences"), fix=_EXAMPLE)
    return names


def _is_name(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _listed(
    entries: Sequence[str], root: Path, names: Mapping[int, str], file: YamlFile, path: Path
) -> tuple[ListedSequence, ...]:
    missing = [(place, entry) for place, entry in enumerate(entries) if not (root / entry).is_dir()]
    if missing:
        shown = "".join(
            f"\n  {shorten(str(root / entry))}{nearest_file(root / entry)}" for _, entry in missing[:_SHOWN]
        )
        more = f"\n  … and {len(missing) - _SHOWN:,} more" if len(missing) > _SHOWN else ""
        what = f"{len(missing)} of {len(entries)} sequences are not there:{shown}{more}"
        line = file.line("sequences", missing[0][0])
        raise UserError(what, where=path, line=line, fix="correct `path` or `sequences`")
    listed = tuple(_sequence(root / entry, names) for entry in entries)
    first: dict[str, int] = {}
    for place, one in enumerate(listed):
        if (other := first.setdefault(one.name, place)) < place:
            what = f"{entries[other]} and {entries[place]} are both called {one.name}"
            line = file.line("sequences", place)
            raise UserError(what, where=path, line=line, fix=f"give them names of their own in {SEQINFO}")
    return listed


def _sequence(folder: Path, names: Mapping[int, str]) -> ListedSequence:
    info = read_seqinfo(folder / SEQINFO) if (folder / SEQINFO).is_file() else SeqInfo()
    name = info.name or folder.name
    images = Path(os.path.normpath(folder / info.images))
    videos = (folder.with_name(name + suffix) for suffix in _VIDEOS)
    return ListedSequence(
        name=name,
        folder=folder,
        info=info,
        source=next((place for place in (images, *videos) if place.exists()), None),
        truth=_if_there(folder / _TRUTH),
        detections=_if_there(folder / _DETECTIONS),
        classes=names,
    )


def _if_there(path: Path) -> Path | None:
    return path if path.is_file() else None
