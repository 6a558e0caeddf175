"""Sequences on disk to learn motion from."""

from pathlib import Path

import numpy as np

from yolofast.track.formats.mot import write_mot, write_seqinfo
from yolofast.track.formats.sequence import make_sequence
from yolofast.track.formats.sequences_yaml import write_sequences_yaml


def write_motion_data(folder: Path, names=("A", "B"), *, length: int = 24, tracks: int = 2, **about) -> Path:
    """Boxes that move evenly, each track at a pace of its own; sequences differ."""
    for number, name in enumerate(names):
        frame = np.tile(np.arange(1, length + 1), tracks)
        track = np.repeat(np.arange(tracks), length)
        left = 50.0 + 40 * track + 10 * number + frame * (track + 1)
        box = np.stack((left, left, left + 30, left + 60), axis=1)
        known = {"width": 640, "height": 480, "frame_rate": 30.0, "label": np.ones(len(frame), int), **about}
        sequence = make_sequence(name, frame=frame, id=track + 1, box=box, length=length, **known)
        write_mot(folder / name / "gt" / "gt.txt", sequence, "truth")
        write_seqinfo(folder / name / "seqinfo.ini", sequence)
    return write_sequences_yaml(folder / "sequences.yaml", {1: "thing"}, names)
