"""Memory of every tracker over a long stream, each tracker in a process of its own, on one thread.

`OMP_NUM_THREADS=1 python -m benchmarks.track_memory`: a million frames for ByteTrack, 100,000 for each of the others,
some ten minutes on one core. Objects come and go: each lives for 25 frames on average and is then replaced by another
one elsewhere, so that a million frames show some 160,000. A row of figures is printed after every twentieth of the
frames, and how far it is every ten seconds.
"""

import argparse
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Iterator

import numpy as np
import psutil

from yolofast import build_tracker
from yolofast.track.trackers.table import TRACKERS
from yolofast.words import clock, duration

OBJECTS, LIFE, SIDE, CLASSES = 4, 25, 1000.0, 4
_CHECKPOINTS, _SAY_EVERY = 20, 10.0
_AT_ONCE = 1000
"""Frames whose random numbers are drawn together."""


def stream(frames: int, seed: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Boxes, scores and labels of each frame; one object in twenty is missed, one in ten has a low score."""
    rng = np.random.default_rng(seed)
    centres, speeds = rng.random((OBJECTS, 2)) * SIDE, rng.normal(0, 3, (OBJECTS, 2))
    sizes, labels = rng.random((OBJECTS, 2)) * 60 + 40, rng.integers(0, CLASSES, OBJECTS)
    for start in range(0, frames, _AT_ONCE):
        count = min(_AT_ONCE, frames - start)
        noise, chance = rng.normal(0, 1, (count, OBJECTS, 4)), rng.random((count, 3, OBJECTS))
        scores = np.where(chance[:, 0] < 0.1, 0.3, 0.9)
        for frame in range(count):
            centres += speeds
            for dead in (chance[frame, 1] < 1 / LIFE).nonzero()[0]:
                centres[dead], speeds[dead] = rng.random(2) * SIDE, rng.normal(0, 3, 2)
                labels[dead] = rng.integers(CLASSES)
            there = chance[frame, 2] > 0.05
            boxes = np.concatenate((centres - sizes / 2, centres + sizes / 2), axis=1) + noise[frame]
            yield boxes[there], scores[frame, there], labels[there]


def run(name: str, frames: int) -> None:
    tracker = build_tracker(name, **({"cmc_method": "none"} if name == "botsort" else {}))
    process, every = psutil.Process(), max(frames // _CHECKPOINTS, 1)
    begun = said = last = time.perf_counter()
    settled = resident = 0.0
    for number, (boxes, scores, labels) in enumerate(stream(frames), 1):
        tracker.update(boxes, scores, labels)
        if number % _AT_ONCE == 0 and time.perf_counter() - said > _SAY_EVERY:
            said = time.perf_counter()
            left = (frames - number) * (said - begun) / number
            now = process.memory_info().rss / 2**20
            print(f"{name}: {number:,} of {frames:,} frames, {now:.2f} MiB, {clock(left)} left", file=sys.stderr)
        if number % every == 0:
            resident = process.memory_info().rss / 2**20
            settled = settled or resident
            rate, last = every / (time.perf_counter() - last), time.perf_counter()
            seen, living = tracker.next_id - 1, len(tracker.state.ids)
            print(f"| {name} | {number:,} | {seen:,} | {living} | {resident:.2f} | {rate:,.0f} |", flush=True)
    took = duration(time.perf_counter() - begun)
    print(f"| {name} | {took} in all | | | {resident - settled:+.2f} since the first row | |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=1_000_000, help="of the first tracker")
    parser.add_argument("--others", type=int, help="frames of the others, default: a tenth")
    parser.add_argument("--trackers", nargs="+", default=list(TRACKERS), choices=list(TRACKERS))
    args = parser.parse_args()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    print(f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}, load {load:.2f} before")
    print("| tracker | frames | identities so far | tracks kept | resident MiB | frames/s |\n|---|---|---|---|---|---|")
    sys.stdout.flush()
    for place, name in enumerate(args.trackers):
        frames = args.frames if place == 0 else args.others or max(args.frames // 10, 1)
        process = multiprocessing.get_context("spawn").Process(target=run, args=(name, frames))
        process.start()
        process.join()
        if process.exitcode:
            sys.exit(f"{name} ended with {process.exitcode}")


if __name__ == "__main__":
    main()
