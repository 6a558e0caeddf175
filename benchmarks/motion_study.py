"""Where a learned motion model helps a tracker and where it does not: Kalman filters and TrackSSM on made-up boxes.

Trackers see what `box_scenes` detects in four kinds of scenes at 30, 12 and 2 frames a second, and in TUD's sequences
if their truth is given. TrackSSM is trained by `yolofast motion train` on other scenes of the same kinds, once for each
seed; the seed also chooses the scenes that are tracked. Scores are means over seeds with their standard deviation.

    python -m benchmarks.motion_study --out study [--seeds 0 1 2] [--clips 3] [--tud gt] [--device 0]

- BoT-SORT is told the camera's motion as it was; a real one estimates it from images, to about a tenth of a pixel.
- One TrackSSM for all kinds and rates. The first, as published, sees boxes alone; the second is told the time between
  them, learns from short histories, and from boxes that are off and missing as a detector's are.
- OC-SORT repairs its filter's state after a gap. TrackSSM has none: there the history is put on the straight line.
- `ms` is the time of an update, detections and scores excluded, on the device that is named.
"""

import argparse
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.box_scenes import KINDS, Clip, make_clip, noisy_clip, write_clips
from yolofast import build_tracker, score_tracks
from yolofast.track.formats.mot import read_mot
from yolofast.track.formats.sequence import make_sequence

RATES = (30.0, 12.0, 2.0)
FIGURES = ("HOTA", "IDF1", "MOTA", "IDSW")
KALMAN = "Kalman"
LEARNED: dict[str, tuple[str, ...]] = {
    "TrackSSM": ("--blocks", "2"),
    "TrackSSM, repaired": ("--blocks", "2", "--true-time", "--true-padding", "--jitter", "0.03", "--dropout", "0.1"),
}
"""By name, the flags of `motion train`: what is learnt from true boxes alone, and what knows of time and detectors."""
TRACKERS = ("botsort", "bytetrack", "ocsort")
TUD = {"TUD-Campus": (640, 480), "TUD-Stadtmitte": (640, 480)}
_TUD_RATE = 25.0
_TRAINING_SEEDS = 1000
"""Far from those of the scenes that are tracked."""


@dataclass(frozen=True)
class Result:
    scores: dict[str, float]
    """In percent; switches as they are."""
    ms: float


def tracked(clip: Clip, tracker: str, settings: dict[str, Any]) -> tuple[Any, float]:
    """The tracks of a clip, and the seconds of its updates."""
    made = build_tracker(tracker, frame_rate=clip.truth.frame_rate or 30.0, **settings)
    size = (clip.truth.width or 1, clip.truth.height or 1)
    rows, spent = [], 0.0
    for frame, ((boxes, scores), warp) in enumerate(zip(clip.detections, clip.warps, strict=True), 1):
        more: dict[str, Any] = {"size": size}
        if tracker == "botsort" and warp is not None:
            more["warp"] = warp
        began = time.perf_counter()
        found = made.update(boxes, scores, **more)
        spent += time.perf_counter() - began
        rows += [(frame, name, *box) for name, box in zip(found.ids, found.boxes, strict=True)]
    table = np.array(rows).reshape(-1, 6)
    name = clip.truth.name
    return make_sequence(name, frame=table[:, 0], id=table[:, 1], box=table[:, 2:], length=clip.truth.length), spent


def result(clips: Sequence[Clip], tracker: str, settings: dict[str, Any]) -> Result:
    results, spent = {}, 0.0
    for clip in clips:
        results[clip.truth.name], seconds = tracked(clip, tracker, settings)
        spent += seconds
    found = score_tracks({clip.truth.name: clip.truth for clip in clips}, results).combined
    scores = {name: found[name] if name == "IDSW" else 100 * found[name] for name in FIGURES}
    return Result(scores, 1e3 * spent / sum(clip.truth.length for clip in clips))


def training_data(seed: int, args: argparse.Namespace) -> Path:
    """Other scenes of all kinds, at all rates."""
    clips = [
        make_clip(kind, rate, _TRAINING_SEEDS + seed, number, args.seconds)
        for kind in KINDS
        for rate in RATES
        for number in range(args.learn)
    ]
    return write_clips(args.out / f"seed-{seed}" / "scenes", clips)


def trained(seed: int, name: str, args: argparse.Namespace) -> Path:
    """Weights of a model that has learnt from those scenes."""
    project, run = args.out / f"seed-{seed}", name.replace(", ", "-")
    best: Path = project / run / "weights" / "best.pt"
    if best.is_file():
        return best
    command = [
        "motion", "train", "--data", str(training_data(seed, args)), "--epochs", str(args.epochs), "--seed", str(seed),
        "--project", str(project), "--name", run, "--exist-ok", "--device", args.device, *LEARNED[name], *args.train,
    ]  # fmt: skip
    print(f"yolofast {shlex.join(command)}", flush=True)
    with (project / f"{run}.log").open("w") as log:
        subprocess.run([sys.executable, "-m", "yolofast", *command], stdout=log, stderr=log, check=True)
    return best


def scenes(seed: int, args: argparse.Namespace) -> Iterator[tuple[str, list[Clip]]]:
    for kind in KINDS:
        for rate in RATES:
            yield f"{kind}, {rate:g} Hz", [make_clip(kind, rate, seed, n, args.seconds) for n in range(args.clips)]
    if args.tud is not None:
        truth = [(read_mot(args.tud / f"{name}.txt", "truth"), size) for name, size in TUD.items()]
        yield "TUD, 25 Hz", [noisy_clip(one, _TUD_RATE, *size, seed) for one, size in truth]


def print_tables(found: dict[str, dict[tuple[str, str], list[Result]]], frames: dict[str, int]) -> None:
    print(f"\n| scene | frames | tracker | motion | {' | '.join(FIGURES)} | ms |")
    print("|---|--:|---|---|--:|--:|--:|--:|--:|")
    for scene, ways in found.items():
        for (tracker, motion), results in ways.items():
            cells = [_spread([one.scores[name] for one in results]) for name in FIGURES]
            cells.append(f"{statistics.fmean(one.ms for one in results):.2f}")
            print(f"| {scene} | {frames[scene]} | {tracker} | {motion} | {' | '.join(cells)} |")
    print("\nLess what the same tracker has with Kalman, of the same seeds:\n")
    print(f"| scene | tracker | motion | {' | '.join(FIGURES)} |\n|---|---|---|--:|--:|--:|--:|")
    for scene, ways in found.items():
        for (tracker, motion), results in ways.items():
            if motion != KALMAN:
                pairs = list(zip(results, ways[tracker, KALMAN], strict=True))
                cells = [_spread([a.scores[name] - b.scores[name] for a, b in pairs], "+") for name in FIGURES]
                print(f"| {scene} | {tracker} | {motion} | {' | '.join(cells)} |")


def _spread(values: Sequence[float], sign: str = "") -> str:
    mean = f"{statistics.fmean(values):{sign}.1f}"
    return f"{mean} ± {statistics.stdev(values):.1f}" if len(values) > 1 else mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--clips", type=int, default=3, help="of each kind and rate")
    parser.add_argument("--seconds", type=float, default=20.0, help="of a clip")
    parser.add_argument("--learn", type=int, default=10, help="clips of each kind and rate to learn from")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--train", nargs=argparse.REMAINDER, default=[], help="last: further flags of `motion train`")
    parser.add_argument("--kalman", action="store_true", help="nothing is learnt")
    parser.add_argument("--tud", type=Path, help="folder with TUD-Campus.txt and TUD-Stadtmitte.txt, the truth")
    parser.add_argument("--device", default="cpu", help="of TrackSSM")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[tuple[str, str], list[Result]]] = {}
    frames: dict[str, int] = {}
    for seed in args.seeds:
        weights = {} if args.kalman else {name: trained(seed, name, args) for name in LEARNED}
        ways: list[tuple[str, str, dict[str, Any]]] = [(tracker, KALMAN, {}) for tracker in TRACKERS]
        for name, file in weights.items():
            settings = {"motion": "trackssm", "motion_weights": str(file), "motion_device": args.device}
            ways += [(tracker, name, settings) for tracker in TRACKERS]
        for scene, clips in scenes(seed, args):
            frames[scene] = sum(clip.truth.length for clip in clips)
            for tracker, motion, settings in sorted(ways, key=lambda way: way[0]):
                found.setdefault(scene, {}).setdefault((tracker, motion), []).append(result(clips, tracker, settings))
            print(f"seed {seed}: {scene}", file=sys.stderr)
    where = platform.processor() or platform.machine() if args.device == "cpu" else torch.cuda.get_device_name()
    print(f"\nseeds {', '.join(map(str, args.seeds))}; torch {torch.__version__}, numpy {np.__version__}, {where}")
    print_tables(found, frames)


if __name__ == "__main__":
    main()
