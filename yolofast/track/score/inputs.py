"""What is to be scored, in whatever form it is given: folders, files, arrays or sequences, paired by name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from yolofast.dataset.faults import Fault
from yolofast.errors import UserError, nearest, shorten
from yolofast.track.formats.faults import refuse_faults, told
from yolofast.track.formats.folders import find_sequences
from yolofast.track.formats.mot import read_mot, sequence_of_rows
from yolofast.track.formats.mot_text import Kind
from yolofast.track.formats.sequence import Sequence
from yolofast.track.formats.sequences_yaml import LISTS, read_sequences_yaml
from yolofast.track.formats.video_json import is_video_json, read_video_json

_ONE = "sequence"
"""The name of what is given without one."""


@dataclass(frozen=True)
class ScoreInputs:
    """Truth and results by name, and what was noticed while they were read."""

    pairs: dict[str, tuple[Sequence, Sequence]]
    places: dict[str, str]
    """Of the truth: files, or what arrays are called."""
    remarks: list[str]


@dataclass(frozen=True)
class _Read:
    sequences: dict[str, Sequence]
    stated: dict[str, int] = field(default_factory=dict)
    """Lengths that somebody stated, so that frames beyond are faults."""
    others: tuple[str, ...] = ()
    """Names that are there and were not asked for."""
    places: dict[str, str] = field(default_factory=dict)
    """Files, by name."""


@dataclass(frozen=True)
class _Reader:
    """Omits rows with faults and notes them: they are refused together when everything is read."""

    kind: Kind
    lengths: Mapping[str, int] | int | None
    names: tuple[str, ...] | None
    """Asked for; None: all."""
    faults: list[Fault]
    own: str | None = None
    """What the only one is called: a single file of results belongs to a single truth, whatever its name."""
    truth: Path | None = None
    """JSON that has the images, for results that are a list alone."""

    def read(self, given: Any) -> _Read:
        if not isinstance(given, str | Path):
            return self._values(given)
        if self.kind == "truth" and Path(given).suffix.lower() in LISTS:
            return self._list(Path(given))
        return self._json(Path(given)) if is_video_json(Path(given)) else self._files(Path(given))

    def _list(self, path: Path) -> _Read:
        listed = {one.name: one for one in read_sequences_yaml(path).sequences}
        wanted = _known(tuple(listed) if self.names is None else self.names, listed, path)
        read, stated = {}, {}
        for name in wanted:
            one, length = listed[name], self._length(name, len(wanted) == 1)
            info = one.info if length is None else replace(one.info, length=length)
            read[name] = replace(one, info=info).read_truth(self.faults, skip_bad=True)
            if info.length is not None:
                stated[name] = info.length
        others = tuple(name for name in listed if name not in wanted)
        return _Read(read, stated, others, {name: str(listed[name].truth) for name in wanted})

    def _json(self, path: Path) -> _Read:
        found = read_video_json(path, self.kind, images_of=self.truth, faults=self.faults, skip_bad=True)
        wanted = tuple(found) if self.names is None else tuple(name for name in self.names if name in found)
        if self.kind == "truth":
            wanted = tuple(_known(self.names or wanted, found, path))
        read = {name: self._value(name, found[name], self._length(name, len(wanted) == 1)) for name in wanted}
        stated = {name: one.length for name, one in read.items()}
        others = tuple(name for name in found if name not in wanted)
        return _Read(read, stated, others, dict.fromkeys(wanted, str(path)))

    def _files(self, place: Path) -> _Read:
        """What nobody asks for is not read: it may be broken."""
        there = find_sequences(place, self.kind)
        if place.is_file() and self.own is not None:
            there = dict.fromkeys([self.own], *there.values())
        wanted = tuple(there) if self.names is None else self.names
        if self.kind == "results":
            wanted = tuple(name for name in wanted if name in there)
        lengths = {name: self._length(name, len(wanted) == 1) for name in there}
        lengths = {name: there[name].info.length if length is None else length for name, length in lengths.items()}
        stated = {name: length for name, length in lengths.items() if length is not None}
        read = {
            name: read_mot(
                there[name].path, self.kind, name=name, info=replace(there[name].info, length=stated.get(name)),
                faults=self.faults, skip_bad=True,
            )
            for name in _known(wanted, there, place)
        }  # fmt: skip
        others = tuple(name for name in there if name not in wanted)
        return _Read(read, stated, others, {name: str(there[name].path) for name in read})

    def _values(self, given: Any) -> _Read:
        single = not isinstance(given, Mapping)
        entries = {self.own or getattr(given, "name", _ONE): given} if single else dict(given)
        if self.kind == "truth" and self.names is not None:
            _known(self.names, {str(name): None for name in entries}, None)
        wanted = [name for name in entries if self.names is None or str(name) in self.names]
        lengths = {name: self._length(name, len(wanted) == 1) for name in wanted}
        read = {str(name): self._value(str(name), entries[name], lengths[name]) for name in wanted}
        stated = {str(name): length for name, length in lengths.items() if length is not None}
        return _Read(read, stated, tuple(str(name) for name in entries if name not in wanted))

    def _length(self, name: Any, single: bool) -> int | None:
        alone = self.lengths if single and not isinstance(self.lengths, Mapping) else None
        length = self.lengths.get(name) if isinstance(self.lengths, Mapping) else alone
        right = isinstance(length, int | float | np.integer) and not isinstance(length, bool) and 0 <= length < 2**53
        if length is not None and not (right and length == int(length)):
            raise UserError(f"the length of {name} is {shorten(length)}", fix="give the number of frames")
        return None if length is None else int(length)

    def _value(self, name: str, given: Any, length: int | None) -> Sequence:
        if not isinstance(given, Sequence):
            return sequence_of_rows(name, given, self.kind, length, faults=self.faults, skip_bad=True)
        if length is not None and len(given) and given.frame[-1] > length:
            what = f"{self.kind} of {name}: frame {given.frame[-1]}, but its length is {length}"
            raise UserError(what, fix="correct one of them")
        return given if length is None else replace(given, length=length, files=())


def paired(
    truth: Any, results: Any, lengths: Mapping[str, int] | int | None, *, names: Iterable[str] | None, skip_bad: bool
) -> ScoreInputs:
    """Raises `UserError` for faults, all together, unless they are skipped; and for a sequence without results: a file
    may be empty, but must be there."""
    faults: list[Fault] = []
    asked = None if names is None else tuple(names)
    true = _Reader("truth", lengths, asked, faults).read(truth)
    if not true.sequences:
        raise UserError("there is no truth to score against", fix="give at least one sequence")
    _check_lengths(lengths, true)
    own = next(iter(true.sequences)) if len(true.sequences) == 1 else None
    document = Path(truth) if isinstance(truth, str | Path) and is_video_json(Path(truth)) else None
    found = _Reader("results", true.stated, tuple(true.sequences), faults, own, document).read(results)
    if not skip_bad:
        refuse_faults(faults, None)
    for name in true.sequences:
        if name not in found.sequences:
            where = results if isinstance(results, str | Path) else None
            what = f"no results of sequence {name}{nearest(name, found.others)}"
            raise UserError(what, where=where, fix="add them; if nothing was found, an empty file or array says so")
    remarks = list(told(faults))
    if found.others and asked is None:
        remarks.append(f"not scored, because there is no truth of them: {', '.join(sorted(found.others))}")
    pairs = {name: (one, found.sequences[name]) for name, one in true.sequences.items()}
    places = {name: true.places.get(name, f"truth, rows of {name}") for name in pairs}
    return ScoreInputs(pairs, places, remarks)


def _check_lengths(lengths: Mapping[str, int] | int | None, true: _Read) -> None:
    """A length that is of no sequence would be forgotten silently."""
    known = [*true.sequences, *true.others]
    if isinstance(lengths, Mapping):
        for name in lengths:
            if name not in known:
                what = f"lengths has {shorten(name)}, which is no sequence of the truth{nearest(str(name), known)}"
                raise UserError(what, fix=f"name one of {', '.join(known[:10])}")
    elif lengths is not None and len(true.sequences) > 1:
        what = f"lengths is {shorten(lengths)}, but there are {len(true.sequences)} sequences"
        raise UserError(what, fix="give a mapping of names to numbers of frames")


def _known(wanted: Iterable[str], there: Mapping[str, object], place: Path | None) -> list[str]:
    for name in wanted:
        if name not in there:
            what = f"{'truth ' if place is None else ''}has no sequence {name}{nearest(name, there)}"
            raise UserError(what, where=place, fix="name one that is there")
    return list(wanted)
