"""Readings stored between runs, and used again only while nothing they were read from has changed.

Labels are compared by the hash of their text, images by size and modification time. So a label edited within a clock
tick and to the same length is noticed, and no image has to be read. The price is reading all label texts at every
start. A cache that is missing, damaged or old is rewritten silently.
"""

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from yolofast.dataset.faults import Fault, FaultKind
from yolofast.dataset.image_facts import KnownImage, file_stamps
from yolofast.dataset.reading import Reading
from yolofast.files.atomic_file import write_whole
from yolofast.files.cache_folder import BESIDE, may_be_written, user_cache_folder
from yolofast.image_index import ImageIndex
from yolofast.resources import ROOT

_ARRAYS = (
    "files", "sizes", "starts", "labels", "boxes", "points", "point_starts", "crowd", "image_ids", "category_ids",
)  # fmt: skip
_DAMAGED = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, AttributeError)


def cache_files(data_yaml: Path, split: str, settings: str) -> list[Path]:
    """Where a split's reading may lie, best first; one file per way of reading it, replaced when the data changes."""
    identity = hashlib.blake2b(f"{data_yaml.resolve()}\n{settings}".encode("utf-8", "surrogateescape"), digest_size=6)
    name = f"{data_yaml.stem}-{split}-{identity.hexdigest()}.index.npz"
    return [folder / name for folder in _folders(data_yaml)]


def _folders(data_yaml: Path) -> Iterator[Path]:
    """Next to the data yaml, or in the user's cache if nothing can or should be written there."""
    parent = data_yaml.absolute().parent
    if may_be_written(parent) and not data_yaml.resolve().is_relative_to(ROOT.resolve()):
        yield parent / BESIDE
    yield user_cache_folder() / "index"


def load_reading(files: list[Path], key: str) -> Reading | None:
    """The stored reading whose labels have this key and whose images are unchanged, if there is one."""
    for reading in _stored(files):
        if reading.key == key and np.array_equal(file_stamps(_paths(reading.index)), reading.stamps):
            return reading
    return None


def known_images(files: list[Path]) -> dict[str, KnownImage]:
    """What the stored readings say of single images, whatever has become of the labels since."""
    for reading in _stored(files):
        # A fault of the image itself stands in the image; others stand in its labels.
        faults = {fault.image: fault for fault in reading.faults if fault.image == fault.where}
        rows = zip(_paths(reading.index), reading.stamps.tolist(), reading.index.sizes.tolist(), strict=True)
        return {
            path: KnownImage((stamp[0], stamp[1]), (size[0], size[1]), faults.get(path))
            for path, stamp, size in rows
            if stamp[0] >= 0
        }
    return {}


def _stored(files: list[Path]) -> Iterator[Reading]:
    for file in files:
        try:
            yield _decode(file.read_bytes())
        except _DAMAGED:
            continue


def store_reading(files: list[Path], reading: Reading) -> None:
    """Into the first place that can be written; nowhere if none can."""
    content = _encode(reading)
    for file in files:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, content)
        except OSError:
            continue
        return


def _paths(index: ImageIndex) -> list[str]:
    return [os.fsdecode(file) for file in index.files.tolist()]


def _encode(reading: Reading) -> bytes:
    index = reading.index
    about = {
        "key": reading.key,
        "names": index.names,
        "annotations": None if index.annotations is None else str(index.annotations),
        "faults": [asdict(fault) for fault in reading.faults],
    }
    arrays = {name: getattr(index, name) for name in _ARRAYS}
    buffer = io.BytesIO()
    np.savez(buffer, about=np.frombuffer(json.dumps(about).encode(), np.uint8), stamps=reading.stamps, **arrays)
    return buffer.getvalue()


def _decode(content: bytes) -> Reading:
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        arrays: dict[str, npt.NDArray[Any]] = {name: stored[name] for name in (*_ARRAYS, "stamps", "about")}
    about = json.loads(arrays.pop("about").tobytes())
    stamps = arrays.pop("stamps")
    annotations = None if about["annotations"] is None else Path(about["annotations"])
    index = ImageIndex(names=tuple(about["names"]), annotations=annotations, **arrays)
    faults = [Fault(**{**fault, "kind": FaultKind(fault["kind"])}) for fault in about["faults"]]
    return Reading(index, faults, stamps, about["key"])
