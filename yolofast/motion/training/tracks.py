"""The tracks of sequences as one array: what motion models learn from and are judged by.

As published, a box of the truth counts if it is marked and of class 1 (pedestrian). Here every marked box does, because
data sets number their classes as they like.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from yolofast.errors import UserError
from yolofast.motion.training.samples import PackedTracks
from yolofast.track.formats.mot import SEQINFO
from yolofast.track.formats.sequences_yaml import ListedSequence, SequencesYaml, read_sequences_yaml

_PEDESTRIAN = 1
_USUAL_RATE = 30.0
_PUBLISHED_DIGITS = 6
_HELD_OUT = 10
"""Every tenth sequence is held out, if nothing else is named to validate on."""


@dataclass(frozen=True)
class Split:
    train: PackedTracks
    val: PackedTracks
    about: str
    """In words."""


def read_split(data: str | Path, val: str | Path | None, *, faithful: bool) -> Split:
    train = read_sequences_yaml(data)
    alone = f"{_class_1(train)} alone counts, " if faithful else ""
    if val:
        others, about = read_sequences_yaml(val).sequences, f"{alone}validated on {val}"
        return Split(_packed(train.sequences, train, faithful), _packed(others, train, faithful), about)
    every = min(_HELD_OUT, len(train.sequences))
    # Sequences of a kind often follow one another, so those held out are spread over all.
    held = train.sequences[every - 1 :: every] if every > 1 else ()
    kept = tuple(one for one in train.sequences if one not in held)
    names = ", ".join(one.name for one in held[:3]) + (", …" if len(held) > 3 else "")
    about = f"{alone}validated on {names}, which {'is' if len(held) == 1 else 'are'} not learnt from"
    if not held:
        held, about = kept, f"{alone}validated on what is learnt from, as there is one sequence: name others with --val"
    return Split(_packed(kept, train, faithful), _packed(held, train, faithful), about)


def read_tracks(data: str | Path, *, faithful: bool) -> PackedTracks:
    listed = read_sequences_yaml(data)
    return _packed(listed.sequences, listed, faithful)


def _packed(sequences: Iterable[ListedSequence], listed: SequencesYaml, faithful: bool) -> PackedTracks:
    parts = [_of_sequence(one, faithful) for one in sequences]
    sizes = [part.starts[1:] - part.starts[:-1] for part in parts]
    starts = np.concatenate(([0], np.cumsum(np.concatenate(sizes) if sizes else [])))
    if len(starts) == 1:
        which = f"marked boxes of {_class_1(listed)}" if faithful else "marked boxes"
        fix = "omit --faithful: every class counts then" if faithful else "give sequences with gt/gt.txt"
        raise UserError(f"its sequences have no {which}", where=listed.path, fix=fix)
    boxes, frames, seconds = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("boxes", "frames", "seconds")
    )
    return PackedTracks(boxes, frames, seconds, starts.astype(np.int64))


def _class_1(listed: SequencesYaml) -> str:
    """By its name too: in data sets that number their classes otherwise it may be the truck."""
    name = listed.names.get(_PEDESTRIAN)
    return f"class {_PEDESTRIAN}" + (f" ({name})" if name else "")


def _of_sequence(listed: ListedSequence, faithful: bool) -> PackedTracks:
    width, height, rate = listed.info.width, listed.info.height, listed.info.frame_rate
    if not width or not height:
        fix = f"add imWidth and imHeight to its {SEQINFO}: boxes are learnt as shares of the image"
        raise UserError("the size of its images is not known", where=listed.folder, fix=fix)
    truth = listed.read_truth()
    truth = truth.kept(truth.mark & (truth.label == _PEDESTRIAN) if faithful else truth.mark)
    order = np.lexsort((truth.frame, truth.id))
    truth = truth.kept(order)
    size = truth.box[:, 2:] - truth.box[:, :2]
    boxes = np.concatenate((truth.box[:, :2] + size / 2, size), axis=1) / [width, height, width, height]
    begins = np.flatnonzero(np.diff(truth.id, prepend=np.nan) != 0) if len(truth) else np.zeros(0, np.int64)
    starts = np.append(begins, len(truth))
    clock = listed.times()
    seconds = truth.frame / (rate or _USUAL_RATE) if clock is None else clock[truth.frame - 1]
    first = np.repeat(seconds[begins], np.diff(starts))
    return PackedTracks(
        (boxes.round(_PUBLISHED_DIGITS) if faithful else boxes).astype(np.float32),
        truth.frame, (seconds - first).astype(np.float32), starts,
    )  # fmt: skip


def jittered(tracks: PackedTracks, share: float, seed: int) -> PackedTracks:
    """As a detector sees them: centres and sides off by a share of the size."""
    noise = np.random.default_rng(seed).normal(0, share, tracks.boxes.shape)
    centre, size = tracks.boxes[:, :2] + noise[:, :2] * tracks.boxes[:, 2:], tracks.boxes[:, 2:] * np.exp(noise[:, 2:])
    return replace(tracks, boxes=np.concatenate((centre, size), axis=1).astype(np.float32))
