"""What is to be scored, in whatever form it is given: folders, files, arrays or sequences, paired by name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from yolofast.dataset.faults import Fault
from yolofast.errors import UserError, nearest, shorten
from yolofast.track.formats.faults import told
from yolofast.track.formats.folders import find_sequences
from yolofast.track.formats.mot import read_mot, sequence_of_rows
from yolofast.track.formats.mot_text import Kind
from yolofast.track.formats.sequence import Sequence
from yolofast.track.formats.video_json import is_video_json, read_video_json

_ONE = "sequence"
"""The name of what is given without one."""


@dataclass(frozen=True)
class Given:
    """Truth and results by name, and what was noticed while they were read."""

    pairs: dict[str, tuple[Sequence, Sequence]]
    remarks: list[str]


@dataclass(frozen=True)
class _Read:
    sequences: dict[str, Sequence]
    stated: dict[str, int] = field(default_factory=dict)
    """Lengths that somebody stated, so that frames beyond are faults."""
    others: tuple[str, ...] = ()
    """Names that are there and were not asked for."""


@dataclass(frozen=True)
class _Reader:
    kind: Kind
    lengths: Mapping[str, int] | int | None
    names: tuple[str, ...] | None
    """Asked for; None: all."""
    faults: list[Fault]
    skip_bad: bool
    own: str | None = None
    """What the only one is called: a single file of results belongs to a single truth, whatever its name."""
    truth: Path | None = None
    """JSON that has the images, for results that are a list alone."""

    def read(self, given: Any) -> _Read:
        if not isinstance(given, str | Path):
            return self._values(given)
        return self._json(Path(given)) if is_video_json(Path(given)) else self._files(Path(given))

    def _json(self, path: Path) -> _Read:
        found = read_video_json(path, self.kind, images_of=self.truth, faults=self.faults, skip_bad=self.skip_bad)
        wanted = tuple(found) if self.names is None else tuple(name for name in self.names if name in found)
        if self.kind == "truth":
            wanted = tuple(_known(self.names or wanted, found, path))
        read = {name: _value(name, found[name], self.kind, self._length(name, len(found) == 1)) for name in wanted}
        stated = {name: one.length for name, one in read.items()}
        return _Read(read, stated, tuple(name for name in found if name not in wanted))

    def _files(self, place: Path) -> _Read:
        """What nobody asks for is not read: it may be broken."""
        there = find_sequences(place, self.kind)
        if place.is_file() and self.own is not None:
            there = dict.fromkeys([self.own], *there.values())
        wanted = tuple(there) if self.names is None else self.names
        if self.kind == "results":
            wanted = tuple(name for name in wanted if name in there)
        single = place.is_file()
        lengths = {name: self._length(name, single) for name in there}
        lengths = {name: there[name].info.length if length is None else length for name, length in lengths.items()}
        stated = {name: length for name, length in lengths.items() if length is not None}
        read = {
            name: read_mot(
                there[name].path, self.kind, name=name, info=replace(there[name].info, length=stated.get(name)),
                faults=self.faults, skip_bad=self.skip_bad,
            )
            for name in _known(wanted, there, place)
        }  # fmt: skip
        return _Read(read, stated, tuple(name for name in there if name not in wanted))

    def _values(self, given: Any) -> _Read:
        single = not isinstance(given, Mapping)
        entries = {self.own or getattr(given, "name", _ONE): given} if single else dict(given)
        wanted = [name for name in entries if self.names is None or name in self.names]
        lengths = {name: self._length(name, single) for name in wanted}
        read = {str(name): _value(str(name), entries[name], self.kind, lengths[name]) for name in wanted}
        stated = {str(name): length for name, length in lengths.items() if length is not None}
        return _Read(read, stated, tuple(str(name) for name in entries if name not in wanted))

    def _length(self, name: Any, single: bool) -> int | None:
        alone = self.lengths if single and not isinstance(self.lengths, Mapping) else None
        length = self.lengths.get(name) if isinstance(self.lengths, Mapping) else alone
        if length is not None and (isinstance(length, bool) or int(length) != length or length < 0):
            raise UserError(f"the length of {name} is {shorten(length)}", fix="give the number of frames")
        return None if length is None else int(length)


def paired(
    truth: Any, results: Any, lengths: Mapping[str, int] | int | None, *, names: Iterable[str] | None, skip_bad: bool
) -> Given:
    """Raises `UserError` for a sequence without results: a file may be empty, but must be there."""
    faults: list[Fault] = []
    asked = None if names is None else tuple(names)
    true = _Reader("truth", lengths, asked, faults, skip_bad).read(truth)
    if not true.sequences:
        raise UserError("there is no truth to score against", fix="give at least one sequence")
    own = next(iter(true.sequences)) if len(true.sequences) == 1 else None
    document = Path(truth) if isinstance(truth, str | Path) and is_video_json(Path(truth)) else None
    found = _Reader("results", true.stated, tuple(true.sequences), faults, skip_bad, own, document).read(results)
    for name in true.sequences:
        if name not in found.sequences:
            where = results if isinstance(results, str | Path) else None
            what = f"no results of sequence {name}{nearest(name, found.others)}"
            raise UserError(what, where=where, fix="add them; if nothing was found, an empty file or array says so")
    remarks = list(told(faults))
    if found.others and asked is None:
        remarks.append(f"not scored, because there is no truth of them: {', '.join(sorted(found.others))}")
    return Given({name: (one, found.sequences[name]) for name, one in true.sequences.items()}, remarks)


def _known(wanted: Iterable[str], there: Mapping[str, object], place: Path) -> list[str]:
    for name in wanted:
        if name not in there:
            raise UserError(f"has no sequence {name}{nearest(name, there)}", where=place, fix="name one that is there")
    return list(wanted)


def _value(name: str, given: Any, kind: Kind, length: int | None) -> Sequence:
    if not isinstance(given, Sequence):
        return sequence_of_rows(name, given, kind, length)
    if length is not None and len(given) and given.frame[-1] > length:
        raise UserError(f"{name}: frame {given.frame[-1]}, but its length is {length}", fix="correct one of them")
    return given if length is None else replace(given, length=length, files=())
