"""Which form a folder, a zip or a file has, by its content; and the command that makes a data set of it.

Only names and the first bytes of a few files are looked at, nearest to the top first, so a look takes milliseconds.
"""

import os
import re
import shlex
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from pathlib import Path

from yolofast.dataset.data_yaml import is_image_name
from yolofast.extensions import FORMATS
from yolofast.files.archive import Archive, is_archive
from yolofast.files.budget import open_regular
from yolofast.words import counted, own_command

_MOST_NAMES = 50_000
_MOST_IN_A_FOLDER = 5_000
"""A folder of a million images must not hide that of their labels."""
_MOST_FOLDERS = 1_000
_HEAD = 4096
_UNREAD = (
    ("Datumaro JSON", (".json",), r'"items"\s*:\s*\['),
    ("CreateML JSON", (".json",), r'"coordinates"\s*:\s*\{'),
    ("JSON of the VGG Image Annotator", (".json",), r'"shape_attributes"|"_via_settings"'),
    ("Roboflow's text for YOLOv3 and YOLOv4", ("_annotations.txt",), ""),
    ("TFRecord files", (".tfrecord", ".tfrecords"), ""),
)
"""Forms that are known by name: title, endings of its files, what is in the beginning of one."""
JUNK = re.compile(r"(^|/)(__MACOSX/|\._|\.)")
"""What macOS puts beside files that it packs, and what is hidden."""


@dataclass
class Evidence:
    """What is seen of a place: the names of its files, and how each begins."""

    place: Path
    names: list[str]
    """With `/` between folders; those nearest to the top first."""
    _read: Callable[[str, int], bytes]
    _heads: dict[tuple[str, int], str] = field(default_factory=dict)

    def ending(self, *endings: str) -> list[str]:
        return [name for name in self.names if name.lower().endswith(endings)]

    def data_yamls(self) -> list[str]:
        """Those that name splits, at the top or in the only folder that was packed."""
        near = [name for name in self.ending(".yaml", ".yml") if name.count("/") < 2]
        return [name for name in near if re.search(r"^train\s*:", self.head(name), re.MULTILINE)]

    def called(self, *names: str) -> list[str]:
        return [name for name in self.names if os.path.basename(name) in names]

    def head(self, name: str, size: int = _HEAD) -> str:
        if (name, size) not in self._heads:
            self._heads[name, size] = self._read(name, size).decode("utf-8", "replace")
        return self._heads[name, size]

    def rows(self, name: str) -> list[str]:
        """The first lines of a text, without the last one, which may be cut off."""
        text = self.head(name)
        lines = text.splitlines()
        return lines if len(text) < _HEAD else lines[:-1]

    def sequences(self) -> list[str]:
        return [name for name in self.names if re.search(r"(^|/)gt/gt\.txt$", name)]

    def images(self) -> int:
        return sum(is_image_name(name) for name in self.names)

    def counted(self, files: Sequence[str], noun: str) -> str:
        """`364 XML files in Annotations`."""
        folders = list(dict.fromkeys(os.path.dirname(name) for name in files))
        more = f" and {counted(len(folders) - 1, 'more folder')}" if len(folders) > 1 else ""
        where = f" in {folders[0]}{more}" if folders[0] else f" in {len(folders)} folders" if more else ""
        least = "at least " if len(files) >= _MOST_IN_A_FOLDER else ""
        return f"{least}{counted(len(files), noun)}{where}"


@contextmanager
def evidence_of(place: Path) -> Iterator[Evidence]:
    """Raises `UserError` for a zip that is none."""
    if is_archive(place):
        with Archive(place) as archive:
            names = sorted(archive.names, key=lambda name: (name.count("/"), name))
            yield Evidence(place, [name for name in names if not JUNK.search(name)], archive.head)
    elif place.is_dir():
        yield Evidence(place, _names_below(place), lambda name, size: _head_of(place / name, size))
    else:
        yield Evidence(place, [place.name], lambda name, size: _head_of(place, size))


def _names_below(folder: Path) -> list[str]:
    """The first of them, level by level; links to folders are followed one step, so none of them leads in a ring."""
    names: list[str] = []
    waiting, folders = deque([("", 0)]), 0
    while waiting and len(names) < _MOST_NAMES and folders < _MOST_FOLDERS:
        inside, links = waiting.popleft()
        folders += 1
        with suppress(OSError), os.scandir(folder / inside) as entries:
            for entry in sorted(islice(entries, _MOST_IN_A_FOLDER), key=lambda one: one.name):
                name = f"{inside}/{entry.name}" if inside else entry.name
                if entry.name.startswith("."):
                    continue
                if not entry.is_dir():
                    names.append(name)
                elif (linked := links + entry.is_symlink()) < 2:
                    waiting.append((name, linked))
    return names


def _head_of(path: Path, size: int) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read(size)
    except OSError:
        return b""


@dataclass(frozen=True)
class Recognised:
    format: str
    title: str
    seen: str
    """What it was known by: `364 XML files in Annotations`."""
    command: str
    """That makes a data set of it."""


def recognise(place: str | Path) -> Recognised | None:
    """The form of a folder, a zip or a file; None if it is none that is known."""
    place = Path(place)
    with evidence_of(place) as evidence:
        for name, entry in FORMATS.items():
            if entry.holds == "images":
                seen = import_module(entry.code).recognise(evidence)
                if seen:
                    return Recognised(name, entry.title, seen, _command(place, name))
        if seen := _nuscenes(evidence):
            out = shlex.quote(f"{_stem(place)}-2d")
            command = f"{own_command()} convert --from nuscenes --root {shlex.quote(str(place))} --out {out}"
            return Recognised("nuscenes", FORMATS["nuscenes"].title, seen, command)
        if (sequences := evidence.sequences()) and place.is_dir() and not _not_read(evidence):
            seen = evidence.counted(sequences, "sequence") if len(sequences) > 1 else sequences[0]
            return Recognised("mot", FORMATS["mot"].title, seen, _commands_of_sequences(place))
    return None


def recognise_unread(place: str | Path) -> str | None:
    """What else a place is known to be, which nothing here reads."""
    with evidence_of(Path(place)) as evidence:
        return _not_read(evidence)


def _not_read(evidence: Evidence) -> str | None:
    if evidence.sequences():
        if evidence.called("labels.txt"):
            return "a MOT export of CVAT"
        return None if evidence.place.is_dir() else "packed sequences of MOTChallenge"
    for title, endings, pattern in _UNREAD:
        if any(re.search(pattern, evidence.head(name)) for name in evidence.ending(*endings)[:5]):
            return title
    return None


def images_in(place: Path) -> int | None:
    """How many images are there; None if there is no file at all."""
    with evidence_of(place) as evidence:
        return evidence.images() if evidence.names else None


def _commands_of_sequences(place: Path) -> str:
    """Their tracks, then what is seen in their frames."""
    own, given, tracks = own_command(), shlex.quote(str(place)), shlex.quote(f"{_stem(place)}.json")
    out = shlex.quote(f"{_stem(place)}-yolo")
    first = f"{own} convert {given} --from mot --to coco-video --out {tracks}"
    return f"{first} && {own} convert {tracks} --from coco --to yolo --out {out} --images {given}"


def _command(place: Path, format_: str) -> str:
    out = f"{_stem(place)}-yolo"
    return f"{own_command()} convert {shlex.quote(str(place))} --from {format_} --to yolo --out {shlex.quote(out)}"


def _stem(place: Path) -> str:
    name = place.resolve().name
    return place.stem if place.is_file() else name


def _nuscenes(evidence: Evidence) -> str | None:
    tables = [name for name in evidence.names if re.fullmatch(r"v1\.0-\w+/sample_data\.json", name)]
    return tables[0] if tables else None
