"""How long a search of tracker settings takes: 448 settings on 5,792 frames, tracked and scored.

    python -m benchmarks.bench_tracksweep [--workers 2] [--objects 25] [--settings 448] [--frames 5792]

Sequences are made up, seven of them: objects that walk through the picture, cross and hide one another, with detections
of every quality: scores fall when objects are covered, some are missed, some for a while, some are seen twice, and
there are false ones. Every setting is one of the grid; none is skipped as equal to another.
Printed are the wall time, the processor time of all processes, settings a second, and the machine's load before.
"""

import argparse
import itertools
import os
import platform
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy

from yolofast.track.formats.detections import StoredDetections, make_detections
from yolofast.track.formats.sequence import Floats, Sequence, make_sequence
from yolofast.track.sweep.figures import figures_of
from yolofast.track.sweep.scene import Scene, make_scene
from yolofast.track.sweep.search import Search, cores, run_search
from yolofast.track.sweep.space import Trial
from yolofast.words import duration

_SEQUENCES, _WIDTH, _HEIGHT, _RATE = 7, 1920, 1080, 30.0
_STAY = 300
"""Frames an object is there, about."""


def made_up(name: str, frames: int, objects: int, seed: int) -> tuple[Sequence, StoredDetections]:
    random = np.random.default_rng(seed)
    count = max(1, round(objects * frames / _STAY))
    first = random.integers(-_STAY // 2, frames, count)
    frame, identity = np.arange(1, frames + 1), np.arange(1, count + 1)
    age = frame[:, None] - first
    there = (age >= 0) & (age < random.integers(_STAY // 2, 3 * _STAY // 2, count))
    height = random.uniform(80, 350, count)
    speed = random.normal(0, 4, (count, 2)) * (1, 0.15)
    start = random.uniform((0, 300), (_WIDTH, _HEIGHT), (count, 2))
    wave = 15 * np.sin(age / random.uniform(10, 40, count))
    x = start[:, 0] + age * speed[:, 0] + wave
    bottom = start[:, 1] + age * speed[:, 1]
    box = np.stack((x - 0.2 * height, bottom - height, x + 0.2 * height, bottom + 0 * x), axis=2)
    at, who = there.nonzero()
    boxes = box[at, who]
    truth = make_sequence(
        name, frame=frame[at], id=identity[who], box=boxes, label=np.ones(len(at)), length=frames, frame_rate=_RATE,
        width=_WIDTH, height=_HEIGHT,
    )  # fmt: skip
    return truth, _seen(name, truth, random)


def _seen(name: str, truth: Sequence, random: np.random.Generator) -> StoredDetections:
    """What a detector might make of it."""
    hidden = _covered(truth)
    usual = random.normal(0.7, 0.12, int(truth.id.max()) + 1)[truth.id]
    score = np.clip(random.normal(usual, 0.1) - 0.7 * hidden, 0.01, 0.99)
    bad_times = np.sin(truth.frame / 15 + 2 * truth.id) > 0.95
    kept = (random.random(len(truth)) < 0.97 - 0.5 * hidden) & ~bad_times
    twice = kept & (random.random(len(truth)) < 0.3)
    false = random.poisson(1.0, truth.length).cumsum()
    size = random.uniform(40, 300, int(false[-1]))
    centre = random.uniform((0, 0), (_WIDTH, _HEIGHT), (len(size), 2))
    half = np.stack((0.2 * size, 0.5 * size), axis=1)
    box = np.concatenate((truth.box[kept], truth.box[twice], np.concatenate((centre - half, centre + half), axis=1)))
    sides = np.tile(box[:, 2:] - box[:, :2], 2)
    found = np.concatenate((score[kept], 0.5 * score[twice], random.beta(1.2, 5, len(size))))
    frame = np.concatenate(
        (truth.frame[kept], truth.frame[twice], np.searchsorted(false, np.arange(len(size)), side="right") + 1)
    )
    return make_detections(
        name, frame=frame, box=box + random.normal(0, 0.02, box.shape) * sides, score=np.clip(found, 0.01, 1),
        label=np.zeros(len(frame)), length=truth.length, frame_rate=_RATE,
    )  # fmt: skip


def _covered(truth: Sequence) -> Floats:
    """The share of each box that one whose feet are lower, and so nearer, hides."""
    hidden = np.zeros(len(truth))
    starts = truth.starts()
    for low, high in itertools.pairwise(starts.tolist()):
        one, other = truth.box[low:high, None], truth.box[None, low:high]
        sides = np.minimum(one[..., 2:], other[..., 2:]) - np.maximum(one[..., :2], other[..., :2])
        shared = np.maximum(sides, 0).prod(-1) * (other[..., 3] > one[..., 3])
        own = (truth.box[low:high, 2:] - truth.box[low:high, :2]).prod(-1)
        hidden[low:high] = shared.max(1, initial=0) / own
    return hidden


def made_up_scenes(frames: int, objects: int) -> tuple[Scene, ...]:
    lengths = [part + 1 for part in _parts(frames - _SEQUENCES)]
    return tuple(
        make_scene(*made_up(f"SYN-{place + 1:02}", length, objects, place)) for place, length in enumerate(lengths)
    )


def _parts(frames: int) -> list[int]:
    """Of unequal lengths, as sequences are."""
    shares = np.arange(2, 2 + _SEQUENCES) / sum(range(2, 2 + _SEQUENCES))
    ends = np.round(np.cumsum(shares) * frames).astype(int)
    lengths: list[int] = np.diff(ends, prepend=0).tolist()
    return lengths


def settings(count: int) -> tuple[Trial, ...]:
    """Up to 448 of ByteTrack: 7 × 4 × 4 × 4, all of which can differ."""
    values = ((0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45), (0.4, 0.5, 0.6, 0.7), (0.6, 0.7, 0.8, 0.9), (15, 30, 45, 60))
    names = ("conf", "track_thresh", "match_thresh", "track_buffer")
    every = [dict(zip(names, chosen, strict=True)) for chosen in itertools.product(*values)]
    chosen = np.linspace(0, len(every) - 1, min(count, len(every))).round().astype(int)
    return tuple({"tracker": "bytetrack", **every[place]} for place in chosen.tolist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in (("workers", cores()), ("objects", 25), ("settings", 448), ("frames", 5792)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    scenes, trials = made_up_scenes(args.frames, args.objects), settings(args.settings)
    frames = sum(scene.truth.length for scene in scenes)
    boxes, candidates = (sum(map(len, some)) for some in zip(*((s.truth, s.candidates) for s in scenes), strict=True))
    print(f"{platform.processor() or platform.machine()}, {cores()} cores, load {load:.2f} before; python "
          f"{platform.python_version()}, numpy {np.__version__}, scipy {scipy.__version__}")  # fmt: skip
    print(f"{len(trials)} settings × {frames:,} frames; {boxes / frames:.1f} objects and {candidates / frames:.1f} "
          f"candidates a frame; {args.workers} workers")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        start, before = time.perf_counter(), os.times()
        found = run_search(Search(scenes, trials), Path(folder), args.workers)
        took, after = time.perf_counter() - start, os.times()
    used = sum(after[:4]) - sum(before[:4])
    each = 1e6 * used / (len(trials) * frames)
    print(f"{duration(took)}, {len(trials) / took:.2f} settings a second; "
          f"{duration(used)} of processor time, {each:.0f} µs for a setting and frame")  # fmt: skip
    scores = [figures_of(rows) for rows in found.rows]
    low, high = (pick(one["HOTA"] for one in scores) for pick in (min, max))
    print(f"{found.distinct} distinct; HOTA {100 * low:.2f} to {100 * high:.2f}")


if __name__ == "__main__":
    main()
