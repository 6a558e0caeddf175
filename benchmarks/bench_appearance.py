"""Whether appearance helps BoT-SORT: HOTA and IDF1 with features of the detector's neck, over gates, on shapes-video.

Half of the sequences choose the gates, the other half, of another seed, are reported beside the run without appearance;
± is the standard error of the difference over sequences. `truth` tracks the true boxes with scores of 0.9, so that only
association is measured; `network` tracks what the detector finds. Before that: how well each map of the neck tells
objects apart a second later, as the chance that the same object is more alike than another one.

    python -m benchmarks.bench_appearance --weights runs/train/exp/weights/best.pt
"""

import argparse
import os
import platform
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from yolofast import score_tracks
from yolofast.detect.detector import DetectionFilter, ImageDetector
from yolofast.track.appearance import Floats, NeckFeatures
from yolofast.track.formats.sequence import Sequence as Boxes
from yolofast.track.formats.sequence import make_sequence
from yolofast.track.formats.sequences_yaml import ListedSequence, read_sequences_yaml
from yolofast.track.formats.shapes_video import ShapesVideo, make_shapes_video
from yolofast.track.trackers.table import build_tracker

FIGURES = ("HOTA", "AssA", "IDF1")
PROXIMITY = (0.5, 0.8, 0.95, 1.0)
APPEARANCE = (0.03, 0.06, 0.1, 0.15, 0.25)
USUAL = {"track_high_thresh": 0.4, "new_track_thresh": 0.5}
"""The detector of the demonstration is seldom sure."""
_BATCH = 30
_TRUE_SCORE = 0.9


@dataclass(frozen=True)
class Given:
    """The detections of a sequence, frame by frame: boxes, scores, labels, features."""

    truth: Boxes
    frames: dict[str, list[tuple[Floats, Floats, Any, Floats]]]
    """By where the boxes come from."""


def images_of(one: ListedSequence) -> list[Any]:
    assert one.source is not None
    return [cv2.imread(str(path)) for path in sorted(one.source.iterdir())]


def counted_truth(one: ListedSequence) -> Boxes:
    truth = one.read_truth()
    return truth.kept(truth.mark)


def given(one: ListedSequence, appearance: NeckFeatures) -> Given:
    truth, images = counted_truth(one), images_of(one)
    starts = truth.starts()
    frames: dict[str, list[Any]] = {"truth": [], "network": []}
    chosen = DetectionFilter(conf=0.01, iou=0.7, agnostic=True)
    for first in range(0, len(images), _BATCH):
        some = images[first : first + _BATCH]
        for found, features in appearance.detect(some, chosen):
            frames["network"].append((found.boxes.astype(float), found.scores.astype(float), found.labels, features))
        rows = [slice(starts[frame], starts[frame + 1]) for frame in range(first, first + len(some))]
        looks = appearance.features(some, [truth.box[row] for row in rows])
        frames["truth"] += [
            (truth.box[row], np.full(len(look), _TRUE_SCORE), truth.label[row], look)
            for row, look in zip(rows, looks, strict=True)
        ]
    return Given(truth, frames)


def scores(all_given: Sequence[Given], source: str, settings: dict[str, Any]) -> Floats:
    """[sequences + 1, figures + 1], the last row of all together; the last column counts switches."""
    truth, results = {}, {}
    for one in all_given:
        tracker = build_tracker("botsort", frame_rate=one.truth.frame_rate or 30.0, **{**USUAL, **settings})
        rows = [
            (frame, track, *box)
            for frame, (boxes, sure, labels, features) in enumerate(one.frames[source], 1)
            for track, box in _tracked(tracker.update(boxes, sure, labels, features=features))
        ]
        table = np.array(rows).reshape(-1, 6)
        name = one.truth.name
        truth[name] = one.truth
        results[name] = make_sequence(
            name, frame=table[:, 0], id=table[:, 1], box=table[:, 2:], length=one.truth.length
        )
    found = score_tracks(truth, results)
    every = [*found.sequences.values(), found.combined]
    return np.array([[*(100 * each[name] for name in FIGURES), each["IDSW"]] for each in every])


def _tracked(tracks: Any) -> Iterator[tuple[int, Floats]]:
    return zip(tracks.ids, tracks.boxes, strict=True)


def separation(listed: Sequence[ListedSequence], detector: ImageDetector) -> None:
    levels = detector.predictor.models[0].layout.strides
    print("\n| stride | a second later | of the same class |\n|---|---|---|")
    for level, stride in enumerate(sorted(levels)):
        appearance = NeckFeatures(detector, level)
        pairs = [pair for one in listed for pair in _similarities(one, appearance)]
        same = np.concatenate([alike[equal] for alike, equal, _ in pairs])
        other = np.concatenate([alike[~equal] for alike, equal, _ in pairs])
        alike_class = np.concatenate([alike[~equal & kind] for alike, equal, kind in pairs])
        print(f"| {stride} | {_chance(same, other):.3f} | {_chance(same, alike_class):.3f} |")


def _similarities(one: ListedSequence, appearance: NeckFeatures) -> list[tuple[Any, Any, Any]]:
    truth = counted_truth(one)
    rate, starts = round(truth.frame_rate or 30), truth.starts()
    images = images_of(one)
    frames = range(0, len(images), max(rate // 5, 1))
    rows = {frame: slice(starts[frame], starts[frame + 1]) for frame in frames}
    looks = dict(
        zip(frames, appearance.features([images[f] for f in frames], [truth.box[rows[f]] for f in frames]), strict=True)
    )
    return [
        (
            looks[f] @ looks[f + rate].T,
            truth.id[rows[f]][:, None] == truth.id[rows[f + rate]],
            truth.label[rows[f]][:, None] == truth.label[rows[f + rate]],
        )
        for f in frames
        if f + rate in looks
    ]


def _chance(same: Floats, other: Floats) -> float:
    """That one of the first is larger than one of the second."""
    return float(np.searchsorted(np.sort(other), same).mean() / len(other))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--size", type=int, default=None)
    parser.add_argument("--sequences", type=int, default=16)
    parser.add_argument("--frames", type=int, default=300)
    args = parser.parse_args()
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, python {platform.python_version()}"
    )
    detector = ImageDetector(args.weights, size=args.size, device="cpu")
    appearance = NeckFeatures(detector)
    with tempfile.TemporaryDirectory() as folder:
        sets = []
        for seed in (1, 2):
            request = ShapesVideo(sequences=args.sequences, frames=args.frames, seed=seed)
            listed = read_sequences_yaml(make_shapes_video(Path(folder, str(seed)), request)).sequences
            if seed == 1:
                separation(listed[:6], detector)
            sets.append([given(one, appearance) for one in listed])
    for source, buffer in product(("truth", "network"), (30, 90)):
        report(sets[0], sets[1], source, {"track_buffer": buffer})


def report(choosing: Sequence[Given], held_out: Sequence[Given], source: str, base: dict[str, Any]) -> None:
    print(f"\n{source}, track_buffer {base['track_buffer']}: HOTA on the sequences that choose")
    print(
        "| proximity | "
        + " | ".join(f"{limit:g}" for limit in APPEARANCE)
        + " |\n|---"
        + "|---" * len(APPEARANCE)
        + "|"
    )
    found = {}
    for near in PROXIMITY:
        for alike in APPEARANCE:
            gates = {**base, "with_reid": True, "proximity_thresh": near, "appearance_thresh": alike}
            found[near, alike] = scores(choosing, source, gates)[-1, 0]
        print(f"| {near:g} | " + " | ".join(f"{found[near, alike]:.1f}" for alike in APPEARANCE) + " |")
    print(f"without appearance {scores(choosing, source, base)[-1, 0]:.1f}\n")
    near, alike = max(found, key=found.__getitem__)
    print(f"| held-out sequences | {' | '.join(FIGURES)} | IDSW |\n|---|---|---|---|---|")
    plain = scores(held_out, source, base)
    print(f"| without | {_row(plain[-1])} |")
    for title, gates in (("published gates", (0.5, 0.25)), (f"best: {near:g}, {alike:g}", (near, alike))):
        chosen = {**base, "with_reid": True, "proximity_thresh": gates[0], "appearance_thresh": gates[1]}
        with_it = scores(held_out, source, chosen)
        print(f"| {title} | {_row(with_it[-1])} |")
        gained = (with_it - plain)[:-1, :3]
        error = gained.std(0, ddof=1) / len(gained) ** 0.5
        print(f"| gained | {' | '.join(f'{m:+.1f} ± {e:.1f}' for m, e in zip(gained.mean(0), error, strict=True))} | |")


def _row(figures: Floats) -> str:
    return " | ".join([*(f"{figure:.1f}" for figure in figures[:3]), f"{figures[3]:.0f}"])


if __name__ == "__main__":
    main()
