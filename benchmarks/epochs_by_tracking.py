"""Which epoch to ship, by mAP or by IDF1: YOLOX-nano fine-tuned on shapes-video, and what each choice is worth.

Three sets of moving shapes: one to learn from, one to choose an epoch on, one to report on. Every epoch is evaluated as
a detector and as a tracker on the second; the epochs that mAP50-95, IDF1 and HOTA choose there are compared on the
third. `best` is the highest figure any epoch has on the third: what no choice could have known. Everything goes through
commands of yolofast, which are printed.

    python -m benchmarks.epochs_by_tracking --weights yolox_nano.pth --out epochs [--seeds 0 1 2] [--epochs 10]

On two busy cores of a CPU a seed took twenty minutes.
"""

import argparse
import json
import shlex
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from yolofast.runs.layout import MAP
from yolofast.runs.reader import RunFolder
from yolofast.track.formats.sequences_yaml import read_sequences_yaml
from yolofast.track.formats.shapes_video import ShapesVideo, make_shapes_video
from yolofast.track.formats.video_json_write import write_video_json

SCORES = ("IDF1", "HOTA")
CHOOSERS = ("mAP50-95", *SCORES, "last epoch")
SETTINGS = ("track_thresh=0.4", "new_track_thresh=0.5")
"""Of ByteTrack, for a detector that has seen little and is seldom sure."""
LEARN, CHOOSE, REPORT = "learn", "choose", "report"


@dataclass(frozen=True)
class Tracked:
    """A run by epoch: mAP50-95 on the sequences to choose on, scores on both sets."""

    maps: dict[int, float]
    chosen_on: dict[int, dict[str, float]]
    reported_on: dict[int, dict[str, float]]

    def choice(self, by: str) -> int:
        """Of equals the first."""
        epochs = list(self.chosen_on)
        if by == "last epoch":
            return epochs[-1]
        return max(epochs, key=lambda epoch: self.maps[epoch] if by == "mAP50-95" else self.chosen_on[epoch][by])

    def best(self, score: str) -> float:
        return max(row[score] for row in self.reported_on.values())


def make_data(args: argparse.Namespace) -> None:
    """The frames to learn from are half a second apart, those to track a thirtieth of `--every`."""
    folder: Path = args.out
    rate = 30 / args.every
    many = ShapesVideo(sequences=args.learn, frames=16, fps=2, seed=100)
    make_shapes_video(folder / LEARN, many)
    for name, seed in ((CHOOSE, 101), (REPORT, 102)):
        some = ShapesVideo(sequences=args.sequences, frames=args.frames, fps=rate, seed=seed)
        make_shapes_video(folder / name, some)
    for name in (LEARN, CHOOSE):
        listed = read_sequences_yaml(folder / name / "sequences.yaml").sequences
        # What nobody has to find is not to be learnt either.
        truth = {one.name: (read := one.read_truth()).kept(read.mark) for one in listed}
        write_video_json(folder / name / "instances.json", truth, "truth", "coco-video")
    splits = f"train: {LEARN}/instances.json\nval: {CHOOSE}/instances.json\n"
    names = read_sequences_yaml(folder / LEARN / "sequences.yaml").names
    text = f"path: .\n{splits}nc: {len(names)}\nnames: [{', '.join(names.values())}]\n"
    (folder / "data.yaml").write_text(text, encoding="utf-8")


def run(command: list[str], folder: Path) -> None:
    print(f"yolofast {shlex.join(command)}", flush=True)
    with (folder / "log.txt").open("a") as log:
        subprocess.run([sys.executable, "-m", "yolofast", *command], cwd=folder, stdout=log, stderr=log, check=True)


def tracked(seed: int, args: argparse.Namespace) -> Tracked:
    folder, name = args.out, f"seed-{seed}"
    train = [
        "train", "--weights", str(args.weights.resolve()), "--data", "data.yaml", "--img", str(args.img),
        "--batch-size", "8", "--epochs", str(args.epochs), "--seed", str(seed), "--save-period", "1",
        "--set", "multi_scale=false", f"basic_lr_per_img={args.rate:g}", "--name", name, "--exist-ok", "--no-plots",
        "--device", args.device, "--workers", str(args.workers),
    ]  # fmt: skip
    run_folder = folder / "runs" / "train" / name
    if not (run_folder / "report.html").is_file():
        run(train, folder)
    scores = {}
    for data in (CHOOSE, REPORT):
        files = [f"runs/train/{name}/weights/epoch_{epoch:03d}.pt" for epoch in range(1, args.epochs + 1)]
        sweep = [
            "tracksweep", "--weights", *files, "--data", f"{data}/sequences.yaml", "--tracker", "bytetrack",
            "--set", *SETTINGS, "--by", "IDF1", "--output", f"runs/tracksweep/{name}-{data}", "--device", args.device,
            "--workers", "1",
        ]  # fmt: skip
        run(sweep, folder)
        rows = json.loads((run_folder / "tracking.json").read_text())["epochs"]
        scores[data] = {row["epoch"]: {score: 100 * row[score] for score in SCORES} for row in rows}
    found = RunFolder(run_folder)
    maps = dict(zip(found.epochs().tolist(), (100 * found.column(MAP.name)).tolist(), strict=True))
    return Tracked(maps, scores[CHOOSE], scores[REPORT])


def print_tables(runs: dict[int, Tracked]) -> None:
    print("\n| seed | chosen by | epoch | " + " | ".join(f"{score} | below the best" for score in SCORES) + " |")
    print("|" + "---|" * (3 + 2 * len(SCORES)))
    below: dict[tuple[str, str], list[float]] = {}
    for seed, one in runs.items():
        for by in CHOOSERS:
            epoch, cells = one.choice(by), []
            for score in SCORES:
                value = one.reported_on[epoch][score]
                below.setdefault((by, score), []).append(one.best(score) - value)
                cells.append(f"{value:.1f} | {one.best(score) - value:.1f}")
            print(f"| {seed} | {by} | {epoch} | {' | '.join(cells)} |")
    for by in CHOOSERS:
        means = [f"| {statistics.fmean(below[by, score]):.1f}" for score in SCORES]
        print(f"| mean | {by} | | {' | '.join(means)} |")
    print("\n| epoch | " + " | ".join(f"seed {seed}: mAP50-95, IDF1 | IDF1 on the others" for seed in runs) + " |")
    print("|" + "---|" * (1 + 2 * len(runs)))
    for epoch in next(iter(runs.values())).chosen_on:
        cells = [
            f"{one.maps[epoch]:.1f}, {one.chosen_on[epoch]['IDF1']:.1f} | {one.reported_on[epoch]['IDF1']:.1f}"
            for one in runs.values()
        ]
        print(f"| {epoch} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True, help="of YOLOX-nano, as published")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--learn", type=int, default=16, help="sequences of 16 frames to learn from")
    parser.add_argument("--sequences", type=int, default=8, help="to choose on, and to report on")
    parser.add_argument("--frames", type=int, default=40, help="of each")
    parser.add_argument("--every", type=int, default=2, help="every which frame of 30 a second is seen")
    parser.add_argument("--img", type=int, default=128)
    parser.add_argument("--rate", type=float, default=1e-4, help="basic_lr_per_img")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    make_data(args)
    print_tables({seed: tracked(seed, args) for seed in args.seeds})


if __name__ == "__main__":
    main()
