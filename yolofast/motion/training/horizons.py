"""How well boxes are predicted some frames ahead: by a learned model, by Kalman's filter, by the simplest guesses.

Histories are taken from what was seen, answers compared with the truth. A history ends anywhere in a run of boxes
without gaps; a horizon counts where the run is that long. All methods answer the same questions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from yolofast.boxes import cxcywh_to_xyxy, iou
from yolofast.files.known_numbers import without_nan
from yolofast.motion.inference import CpuTrackSSM
from yolofast.motion.trackssm import ROWS, TrackSSM
from yolofast.motion.training.samples import PackedTracks, first_of_run, history_rows
from yolofast.track.trackers.motion.box_filters import KalmanSides
from yolofast.track.trackers.tracks import TrackerFrame

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
KALMAN, VELOCITY, STILL = "Kalman (BoT-SORT)", "constant velocity", "last box"
_NEEDED = ROWS + 1
_BATCH = 2048


@dataclass(frozen=True)
class Questions:
    """Q histories."""

    tracks: PackedTracks
    """What was seen."""
    truth: npt.NDArray[np.float32]
    """[R, 4] what was there."""
    last: Ints
    """[Q] the place of the last seen box of each."""
    ahead: Ints
    """[Q] how many boxes follow in its run."""


def questions(tracks: PackedTracks, most: int, seen: PackedTracks | None = None) -> Questions:
    """Evenly spread over all that can be asked."""
    first = first_of_run(tracks)
    ends = np.append(np.flatnonzero(np.diff(first)), len(first) - 1)
    end = ends[np.searchsorted(ends, np.arange(len(first)))]
    place = np.arange(len(first))
    possible = np.flatnonzero((place - first >= _NEEDED - 1) & (place < end))
    chosen = possible[np.linspace(0, len(possible) - 1, min(most, len(possible))).round().astype(np.int64)]
    return Questions(seen or tracks, tracks.boxes, chosen, (end - place)[chosen])


Answer = Callable[[Questions, int], Floats]
"""Boxes [horizons, Q, 4] for 1, 2, … frames ahead."""


@dataclass(frozen=True)
class HorizonFigures:
    """Of one method; lists are by horizon, 1 frame ahead first."""

    overlap: list[float]
    """Mean IoU; NaN where no run is so long."""
    offset: list[float]
    """Mean distance of the centres, in sizes (√area) of the true box."""


def judged(asked: Questions, methods: Mapping[str, Answer], horizon: int) -> dict[str, HorizonFigures]:
    return {name: _figures(asked, answer(asked, horizon)) for name, answer in methods.items()}


def counts(asked: Questions, horizon: int) -> list[int]:
    return [int((asked.ahead >= frames).sum()) for frames in range(1, horizon + 1)]


def _figures(asked: Questions, found: Floats) -> HorizonFigures:
    overlap, offset = [], []
    for frames, boxes in enumerate(found, 1):
        known = asked.ahead >= frames
        truth, guess = asked.truth[asked.last[known] + frames].astype(np.float64), boxes[known]
        guess = np.concatenate((guess[:, :2], np.maximum(guess[:, 2:], 0)), axis=1)
        shared = iou(*(cxcywh_to_xyxy(torch.from_numpy(one)) for one in (guess, truth))).numpy()
        apart = np.linalg.norm(guess[:, :2] - truth[:, :2], axis=1) / np.sqrt(truth[:, 2:].prod(1).clip(1e-12))
        overlap.append(float(shared.mean()) if known.any() else float("nan"))
        offset.append(float(apart.mean()) if known.any() else float("nan"))
    return HorizonFigures(overlap, offset)


def still(asked: Questions, horizon: int) -> Floats:
    return np.repeat(asked.tracks.boxes[asked.last][None].astype(np.float64), horizon, axis=0)


def constant_velocity(asked: Questions, horizon: int) -> Floats:
    """The last change again and again."""
    boxes = asked.tracks.boxes.astype(np.float64)
    steps = np.arange(1, horizon + 1)[:, None, None]
    return np.asarray(boxes[asked.last] + steps * (boxes[asked.last] - boxes[asked.last - 1]))


def kalman(asked: Questions, horizon: int) -> Floats:
    """As in BoT-SORT: all of a run up to there is filtered; from the second frame on the size stays as it is."""
    mean = _filtered(asked.tracks)[asked.last]
    found, box, velocity = [], mean[:, :4].copy(), mean[:, 4:].copy()
    for _ in range(horizon):
        box = box + velocity
        velocity[:, 2:] = 0.0
        found.append(box)
    return np.stack(found)


def _filtered(tracks: PackedTracks) -> Floats:
    """[R, 8] estimates after each box of a run; runs are filtered side by side, the longest first."""
    first = first_of_run(tracks)
    begins, lengths = np.unique(first, return_counts=True)
    order = np.argsort(-lengths, kind="stable")
    begins, lengths = begins[order], lengths[order]
    half = tracks.boxes[:, 2:].astype(np.float64) / 2
    corners = np.concatenate((tracks.boxes[:, :2] - half, tracks.boxes[:, :2] + half), axis=1)
    estimates, motion, nothing = np.zeros((len(first), 8)), KalmanSides(None), np.zeros(0)
    motion.born(corners[begins], 0)
    for row in range(int(lengths[0])):
        alive = int((lengths > row).sum())
        places = begins[:alive] + row
        if row:
            motion.take(np.arange(alive))
            clock = float(row)
            frame = TrackerFrame(
                corners[:0], nothing, nothing.astype(np.int64), False, None, None, 1.0, 1.0, clock, clock, None
            )
            motion.predict(frame, alive, None)
            motion.correct(np.arange(alive), corners[places])
        estimates[places] = motion.state_dict()["filters"][:2].reshape(8, -1).T
    return estimates


def learned(model: TrackSSM) -> Answer:
    """As in a tracker. A model without intervals continues from its own answers; one with them is asked directly."""
    ask = CpuTrackSSM(model) if next(model.parameters()).device.type == "cpu" else _on_gpu(model)

    def answer(asked: Questions, horizon: int) -> Floats:
        parts = [asked.last[start : start + _BATCH] for start in range(0, len(asked.last), _BATCH)]
        return np.concatenate([_answers(ask, model, asked.tracks, last, horizon) for last in parts], axis=1)

    return answer


def _answers(
    ask: Callable[[Tensor], Tensor], model: TrackSSM, tracks: PackedTracks, last: Ints, horizon: int
) -> Floats:
    places = last[:, None] + np.arange(1 - _NEEDED, 1)
    boxes_BK4, seconds_BK = torch.from_numpy(tracks.boxes[places]), torch.from_numpy(tracks.seconds[places])
    found = []
    for frames in range(1, horizon + 1):
        times_BK = None
        if model.shape.timed:
            later = tracks.seconds[np.minimum(last + frames, len(tracks.seconds) - 1)]
            times_BK = torch.cat((seconds_BK, torch.from_numpy(later)[:, None]), dim=1)
        box_B4 = ask(history_rows(boxes_BK4, times_BK))
        found.append(box_B4.double().numpy())
        if not model.shape.timed:
            boxes_BK4 = torch.cat((boxes_BK4[:, 1:], box_B4[:, None]), dim=1)
    return np.stack(found)


def _on_gpu(model: TrackSSM) -> Callable[[Tensor], Tensor]:
    device = next(model.parameters()).device

    @torch.no_grad()
    def ask(rows: Tensor) -> Tensor:
        found: Tensor = model(rows.to(device))[-1].cpu()
        return found

    return ask


def as_json(asked: Questions, found: Mapping[str, HorizonFigures], horizons: Sequence[int]) -> dict[str, Any]:
    """Lists are by frames ahead, 1 first."""
    return {
        "horizons": list(horizons),
        "histories": counts(asked, max(horizons)),
        "methods": {name: without_nan(asdict(one)) for name, one in found.items()},
    }


SIMPLE: Mapping[str, Answer] = {KALMAN: kalman, VELOCITY: constant_velocity, STILL: still}


def mean_overlaps(model: TrackSSM, asked: Questions, horizons: Sequence[int]) -> list[float]:
    """Of a model while it learns."""
    figures = judged(asked, {"": learned(model)}, max(horizons))[""]
    return [figures.overlap[frames - 1] for frames in horizons]
