"""Samples of a motion model: histories and the box that follows, cut out of all tracks on the device.

All boxes of all tracks lie in one array, track after track. A sample is the place of its last box. So an epoch is a
permutation of numbers, and a batch a handful of gathers; no file is opened and nothing is collated.

As published, a sample is seven rows of a track, whatever frames are missing between them. Here a gap ends a run of
rows, unless the model is told the intervals. Augmentations change which boxes of the run the history is made of, and
where those are. Every draw is a function of seed, epoch and place, so a resumed run repeats its samples.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from yolofast.motion.trackssm import ROWS, TrackSSMShape, in_octaves

_NEEDED = ROWS + 1
"""Boxes before the one to be predicted: those of the history, and one more for the first change."""
_LONGEST_GAP = 2.0
"""Seconds; with true time, a run ends here."""
_WORST_MISSES = 2
"""In a row, of detections that are left out."""
_MASK, _PRIME, _MIX = 2**32 - 1, 2654435761, 0x45D9F3B


@dataclass(frozen=True, eq=False)
class PackedTracks:
    """R boxes of all tracks."""

    boxes: npt.NDArray[np.float32]
    """[R, 4] centre and size, normalised by the image's sides."""
    frames: npt.NDArray[np.int64]
    """[R]"""
    seconds: npt.NDArray[np.float32]
    """[R] since the first box of the track."""
    starts: npt.NDArray[np.int64]
    """[K + 1] boxes of track k are `starts[k] : starts[k + 1]`."""


@dataclass(frozen=True, kw_only=True)
class TrackAugmentation:
    """What makes true histories look like those of detectors. Zeros and 1 are off."""

    jitter: float = 0.0
    """Standard deviation of a box's centre and sides, as a share of its size."""
    dropout: float = 0.0
    """Probability that a box of the history was missed. A model without intervals then sees, as in a tracker, a box
    carried on from those before; one with them sees the next older box."""
    time_scale: float = 1.0
    """Up to so many times faster or slower; boxes in between are interpolated."""


class Samples:
    """Of tracks; on the device after `to`."""

    def __init__(self, tracks: PackedTracks, shape: TrackSSMShape, *, ignore_gaps: bool = False) -> None:
        self.shape = shape
        first = first_of_run(tracks, ignore_gaps=ignore_gaps, timed=shape.timed)
        age = np.arange(len(first)) - first
        least = 1 if shape.padded_in_front else _NEEDED
        self.boxes, self.seconds = torch.from_numpy(tracks.boxes), torch.from_numpy(tracks.seconds)
        self.first = torch.from_numpy(first)
        self.places = torch.from_numpy(np.flatnonzero(age >= least))
        """[S] of the boxes that can be predicted."""

    def __len__(self) -> int:
        return len(self.places)

    def to(self, device: torch.device) -> "Samples":
        for name in ("boxes", "seconds", "first", "places"):
            setattr(self, name, getattr(self, name).to(device))
        return self

    def cut(
        self, places_B: Tensor, augmentation: TrackAugmentation, key: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Histories [B, T, 8 or 10] and the boxes that follow [B, 4]. `key` (a whole number, on the device) decides
        what is drawn."""
        draws = _Draws(key if key is not None else torch.zeros_like(places_B[0]), places_B)
        back_BK = self._steps_back(places_B, augmentation, draws)
        older_BK = torch.ceil(back_BK)
        low_BK = places_B[:, None] - older_BK.long()
        boxes_BK4, seconds_BK = self.boxes[low_BK], self.seconds[low_BK]
        if augmentation.time_scale > 1.0:
            part_BK = older_BK - back_BK
            next_BK = torch.minimum(low_BK + 1, places_B[:, None])
            boxes_BK4 = torch.lerp(boxes_BK4, self.boxes[next_BK], part_BK[..., None])
            seconds_BK = torch.lerp(seconds_BK, self.seconds[next_BK], part_BK)
        truth_B4 = self.boxes[places_B]
        if augmentation.jitter:
            boxes_BK4 = _jittered(boxes_BK4, back_BK, augmentation.jitter, draws)
        if augmentation.dropout and not self.shape.timed:
            boxes_BK4 = _carried_on(boxes_BK4, augmentation.dropout, draws)
        times_BK = torch.cat((seconds_BK, self.seconds[places_B][:, None]), dim=1) if self.shape.timed else None
        return history_rows(boxes_BK4, times_BK), truth_B4

    def _steps_back(self, places_B: Tensor, augmentation: TrackAugmentation, draws: "_Draws") -> Tensor:
        """[B, K] how far before the predicted box those of the history are, the oldest first, in boxes."""
        strides_BK = torch.ones(len(places_B), _NEEDED, device=places_B.device)
        if augmentation.dropout and self.shape.timed:
            missed_BK = strides_BK > 0
            for _ in range(_WORST_MISSES):
                missed_BK = missed_BK & (draws.uniform(_NEEDED) < augmentation.dropout)
                strides_BK = strides_BK + missed_BK
        if augmentation.time_scale > 1.0:
            octaves = (2 * draws.uniform(1) - 1) * math.log2(augmentation.time_scale)
            strides_BK = strides_BK * torch.exp2(octaves)
        back_BK = strides_BK.cumsum(dim=1).flip(1)
        age_B1 = (places_B - self.first[places_B])[:, None]
        if self.shape.padded_in_front:
            return torch.minimum(back_BK, age_B1)
        if augmentation.time_scale > 1.0 or augmentation.dropout:  # as far back as there are boxes
            back_BK = back_BK * (age_B1 / back_BK[:, :1]).clamp(max=1.0)
        return back_BK


def history_rows(boxes_BK4: Tensor, times_BK: Tensor | None) -> Tensor:
    """Rows of a history from K = T + 1 boxes and, for models with intervals, their times and that of the prediction."""
    columns = [boxes_BK4[:, 1:], boxes_BK4.diff(dim=1)]
    if times_BK is not None:
        intervals_BK = in_octaves(times_BK.diff(dim=1))
        columns += [intervals_BK[:, :-1, None], intervals_BK[:, -1:, None].expand(-1, ROWS, -1)]
    return torch.cat(columns, dim=-1)


class _Draws:
    """Numbers in [0, 1) for each sample, the same on every device."""

    def __init__(self, key: Tensor, places_B: Tensor) -> None:
        self._key, self._places_B, self._slot = key, places_B, 0

    def uniform(self, count: int) -> Tensor:
        """[B, count], others with every call."""
        slots = torch.arange(self._slot + 1, self._slot + count + 1, device=self._places_B.device)
        self._slot += count
        u = (self._places_B[:, None] + 1) * _PRIME + _mixed(self._key * _PRIME + slots * 40503)
        return _mixed(u).double().mul(2.0**-32).float().clamp(max=1 - 2**-24)

    def normal(self, count: int) -> Tensor:
        """[B, count], by Box and Muller."""
        radius = torch.sqrt(-2 * torch.log1p(-self.uniform(count)))
        return radius * torch.cos(2 * math.pi * self.uniform(count))


def _mixed(number: Tensor) -> Tensor:
    """A whole number of 32 bits, in which every bit of the given one matters."""
    u = number & _MASK
    for _ in range(2):
        u = ((u ^ (u >> 16)) * _MIX) & _MASK
    return u ^ (u >> 16)


def _jittered(boxes_BK4: Tensor, back_BK: Tensor, share: float, draws: _Draws) -> Tensor:
    """Copies of one box, which fill a short history, stay equal."""
    noise = draws.normal(boxes_BK4.shape[1] * 4).view_as(boxes_BK4) * share
    made = list(noise.unbind(1))
    for place in reversed(range(len(made) - 1)):
        made[place] = torch.where((back_BK[:, place] == back_BK[:, place + 1])[:, None], made[place + 1], made[place])
    noise, (centre, size) = torch.stack(made, dim=1), (boxes_BK4[..., :2], boxes_BK4[..., 2:])
    return torch.cat((centre + noise[..., :2] * size, size * torch.exp(noise[..., 2:])), dim=-1)


def _carried_on(boxes_BK4: Tensor, probability: float, draws: _Draws) -> Tensor:
    """Boxes that were missed are where the two before them point to."""
    missed_BK = draws.uniform(boxes_BK4.shape[1]) < probability
    made = list(boxes_BK4.unbind(1))
    for place in range(2, len(made)):
        made[place] = torch.where(missed_BK[:, place, None], 2 * made[place - 1] - made[place - 2], made[place])
    return torch.stack(made, dim=1)


def first_of_run(tracks: PackedTracks, *, ignore_gaps: bool = False, timed: bool = False) -> npt.NDArray[np.int64]:
    """[R] the place of the first box before which nothing is missing."""
    begins = np.zeros(len(tracks.frames), bool)
    begins[tracks.starts[:-1]] = True
    if not ignore_gaps:
        gap = np.diff(tracks.seconds) > _LONGEST_GAP if timed else np.diff(tracks.frames) != 1
        begins[1:] |= gap
    return np.maximum.accumulate(np.where(begins, np.arange(len(begins)), 0))
