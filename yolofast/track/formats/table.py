"""The formats of sequences: how each is known, read and written. `extensions.FORMATS` names them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from yolofast.dataset.faults import Fault
from yolofast.errors import UserError
from yolofast.track.formats.faults import refuse_faults
from yolofast.track.formats.folders import read_sequences
from yolofast.track.formats.mot import SEQINFO, write_mot, write_seqinfo
from yolofast.track.formats.mot_text import Kind
from yolofast.track.formats.sequence import Sequence, check_name
from yolofast.track.formats.sequences_yaml import LISTS, read_sequences_yaml
from yolofast.track.formats.video_json import has_tracks, is_video_json, read_video_json
from yolofast.track.formats.video_json_write import write_video_json

Sequences = dict[str, Sequence]


@dataclass(frozen=True)
class Format:
    read: Callable[[Path, Kind, list[Fault], bool], Sequences]
    """Place, what it holds, faults to add to, and whether rows with faults are omitted."""
    write: Callable[[Path, Mapping[str, Sequence], Kind], object]
    ending: str
    """Of the file; empty for a folder."""


def _read_mot(place: Path, kind: Kind, faults: list[Fault], skip_bad: bool) -> Sequences:
    if place.suffix.lower() in LISTS:
        return _read_list(place, kind, faults, skip_bad)
    return read_sequences(place, kind, faults=faults, skip_bad=skip_bad)


def _read_list(place: Path, kind: Kind, faults: list[Fault], skip_bad: bool) -> Sequences:
    """With the names of their classes."""
    if kind != "truth":
        raise UserError(f"lists sequences with their truth, not {kind}", where=place, fix=f"give the folder of {kind}")
    read = {one.name: one.read_truth(faults, skip_bad=True) for one in read_sequences_yaml(place).sequences}
    if not skip_bad:
        refuse_faults(faults, str(place))
    return read


def _read_json(place: Path, kind: Kind, faults: list[Fault], skip_bad: bool) -> Sequences:
    return read_video_json(place, kind, faults=faults, skip_bad=skip_bad)


def _write_mot(place: Path, sequences: Mapping[str, Sequence], kind: Kind) -> None:
    """Truth and detections in a folder for each sequence, with `seqinfo.ini`; results flat, as benchmarks ask for."""
    inside = {"truth": "gt/gt.txt", "detections": "det/det.txt"}
    folders = {folder_name(name): sequence for name, sequence in sequences.items()}
    if len(folders) < len(sequences):
        raise UserError("two sequences would have one folder", fix="give them names that differ in more than / and -")
    for name, sequence in folders.items():
        if kind == "results":
            write_mot(place / f"{name}.txt", sequence, kind)
        else:
            write_mot(place / name / inside[kind], sequence, kind)
            write_seqinfo(place / name / SEQINFO, replace(sequence, name=name))


def folder_name(name: str) -> str:
    """TAO's `train/YFCC100M/v_1` becomes `train-YFCC100M-v_1`; a name that leads elsewhere is refused."""
    return check_name(name).replace("/", "-")


def _write_json(style: str, place: Path, sequences: Mapping[str, Sequence], kind: Kind) -> None:
    write_video_json(place, sequences, kind, style)  # type: ignore[arg-type]


MOT = Format(_read_mot, _write_mot, "")
COCO_VIDEO = Format(_read_json, partial(_write_json, "coco-video"), ".json")
TAO = Format(_read_json, partial(_write_json, "tao"), ".json")


def format_of(place: Path) -> str:
    if not is_video_json(place):
        return "mot"
    return "tao" if has_tracks(place) else "coco-video"
