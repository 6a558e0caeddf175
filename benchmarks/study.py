"""Whole training runs side by side, three seeds each: what a choice is worth in mAP, and what it costs in time.

    python -m benchmarks.study assigners --data voc320/data.yaml --out study [--epochs 100] [--at-once 3]
    python -m benchmarks.study finetune --data voc320/data.yaml --out study --weights yolox_nano.pth [--epochs 30]

Each run is `yolofast train` with the flags printed above the table, in a process of its own, some of them at once: mAP
is not touched by that, `wall` and `img/s` are, so those speak only of runs that shared the machine in the same way.
mAP is that of the best epoch, as `best.pt` has it, mean ± standard deviation over the seeds.

`finetune` asks `yolofast diagnose` about the first seed of every variant and trains again with the settings it
proposes; `oscillation` is the standard deviation of the training loss around its course, in percent of its level.
"""

import argparse
import csv
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

_TINY = ("--cfg", "yolov7-tiny", "--weights", "", "--img", "320", "--batch-size", "64")
_NANO = ("--cfg", "yolox-nano", "--img", "320", "--batch-size", "8", "--set", "multi_scale=false")
"""A batch as small as those who fine-tune on little memory have, with the curves that they see."""
STUDIES: dict[str, dict[str, tuple[str, ...]]] = {
    "assigners": {
        "OTA, GPU pipeline": (*_TINY, "--assigner", "ota"),
        "anchor, GPU pipeline": (*_TINY, "--assigner", "anchor"),
        "OTA, CPU pipeline": (*_TINY, "--assigner", "ota", "--loader", "cpu"),
        "anchor, CPU pipeline": (*_TINY, "--assigner", "anchor", "--loader", "cpu"),
    },
    "finetune": {
        "head only": (*_NANO, "--freeze", "backbone", "neck"),
        "progressive": (*_NANO, "--plan", "yolox-progressive"),
        "everything": _NANO,
    },
}
_MAP50, _MAP = "metrics/mAP50(B)", "metrics/mAP50-95(B)"
_ADVISED = ", as advised"
_TERMS = ("box", "obj", "cls")
_SERIES: dict[str, Callable[[list[dict[str, str]]], list[float]]] = {
    "mAP50": lambda rows: [float(row[_MAP50]) for row in rows],
    "mAP50-95": lambda rows: [float(row[_MAP]) for row in rows],
    "training loss": lambda rows: [sum(float(row[f"train/{name}_loss"]) for name in _TERMS) for row in rows],
}


@dataclass(frozen=True)
class Finished:
    variant: str
    seed: int
    folder: Path
    wall: float
    rows: list[dict[str, str]]

    @property
    def best(self) -> dict[str, str]:
        return max(self.rows, key=lambda row: 0.1 * float(row[_MAP50]) + 0.9 * float(row[_MAP]))


def train(variant: str, seed: int, flags: tuple[str, ...], args: argparse.Namespace) -> Finished | None:
    name = f"{''.join(c if c.isalnum() else '-' for c in variant)}-{seed}"
    folder = args.out / name
    command = [
        sys.executable, "-m", "yolofast", "train", "--data", args.data, "--epochs", str(args.epochs),
        "--seed", str(seed), "--project", str(args.out), "--name", name, "--workers", str(args.workers),
        *flags, *args.flags,
    ]  # fmt: skip
    start = time.perf_counter()
    with (args.out / f"{name}.log").open("w") as log:
        code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
    wall = time.perf_counter() - start
    print(f"{variant}, seed {seed}: {'done' if code == 0 else f'exit code {code}'} after {wall:.0f} s", flush=True)
    if not (folder / "results.csv").exists():
        return None
    with (folder / "results.csv").open(newline="") as file:
        return Finished(variant, seed, folder, wall, [row for row in csv.DictReader(file) if row.get(_MAP)])


def diagnosed(run: Finished) -> dict[str, Any]:
    command = [sys.executable, "-m", "yolofast", "diagnose", str(run.folder), "--json"]
    found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    return found


def oscillation(found: dict[str, Any]) -> float:
    """In percent of the loss, around its course."""
    return 100 * found["fluctuation"]["std"] if found["fluctuation"] else float("nan")


def advised_flags(found: dict[str, Any]) -> tuple[str, ...]:
    """What `diagnose` proposes, as flags; those come after the run's own, and the last one counts."""
    return tuple(found["flags"])


def spread(values: list[float], digits: int) -> str:
    middle = statistics.mean(values)
    return f"{middle:.{digits}f} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else f"{middle:.{digits}f}"


def row_of(variant: str, runs: list[Finished], oscillations: list[float]) -> str:
    cells = [
        variant,
        spread([100 * float(run.best[_MAP50]) for run in runs], 2),
        spread([100 * float(run.best[_MAP]) for run in runs], 2),
        spread([float(run.best["epoch"]) + 1 for run in runs], 0),
        spread([run.wall for run in runs], 0),
        f"{statistics.median(float(row['img/s']) for run in runs for row in run.rows):,.0f}",
    ]
    if oscillations:
        cells.append(spread(oscillations, 1))
    return "| " + " | ".join(cells) + f" | {len(runs)} |"


def draw(runs: list[Finished], path: Path) -> None:
    """The mean of the seeds with their range, runs that followed advice dashed; of those also single batches."""
    before = list(dict.fromkeys(run.variant.removesuffix(_ADVISED) for run in runs))
    followed = [variant for variant in before if any(run.variant == variant + _ADVISED for run in runs)]
    figure, axes = plt.subplots(1, 3 + bool(followed), figsize=(15 + 4 * bool(followed), 4.2), layout="constrained")
    for variant in dict.fromkeys(run.variant for run in runs):
        seeds = [run for run in runs if run.variant == variant]
        style = {
            "color": f"C{before.index(variant.removesuffix(_ADVISED))}",
            "ls": "--" if variant.endswith(_ADVISED) else "-",
        }
        for axis, title in zip(axes, ("mAP50", "mAP50-95", "training loss"), strict=False):
            _draw_seeds(axis, [_SERIES[title](run.rows) for run in seeds], variant, style)
            axis.set(title=title, xlabel="epoch")
    if followed:
        _draw_batches(axes[3], followed[-1], runs)
    for axis in axes:
        axis.grid(alpha=0.3)
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=80)


def _draw_seeds(axis: Any, series: list[list[float]], label: str, style: dict[str, Any]) -> None:
    by_epoch = list(zip(*series, strict=False))
    epochs = range(1, len(by_epoch) + 1)
    axis.plot(epochs, [statistics.mean(values) for values in by_epoch], label=label, **style)
    low, high = [min(values) for values in by_epoch], [max(values) for values in by_epoch]
    axis.fill_between(epochs, low, high, color=style["color"], alpha=0.12, lw=0)


def _draw_batches(axis: Any, variant: str, runs: list[Finished]) -> None:
    for suffix in ("", _ADVISED):
        run = next(run for run in runs if run.variant == variant + suffix)
        with (run.folder / "batches.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        per_epoch = sum(row["epoch"] == rows[0]["epoch"] for row in rows)
        epochs = [1 + number / per_epoch for number in range(len(rows))]
        losses = [float(row["total"]) for row in rows]
        axis.plot(epochs, losses, lw=0.4, label=variant + suffix)
    axis.set(title=f"loss of single batches, seed {run.seed}", xlabel="epoch", ylim=(0, 2 * statistics.median(losses)))
    axis.legend(frameon=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=list(STUDIES))
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--weights", help="finetune: the published YOLOX-nano")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--workers", type=int, default=5)
    parser.add_argument("--only", nargs="+", help="variants whose names contain one of these")
    parser.add_argument("--flags", nargs=argparse.REMAINDER, default=[], help="more flags for every run; comes last")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    variants = {
        name: (*flags, *(("--weights", args.weights) if args.weights else ()))
        for name, flags in STUDIES[args.study].items()
        if not args.only or any(part in name for part in args.only)
    }
    runs = trained(variants, args)
    if args.study == "finetune":
        runs += follow_advice(variants, runs, args)
    report(args, variants, runs)


def trained(variants: dict[str, tuple[str, ...]], args: argparse.Namespace) -> list[Finished]:
    # Seeds of a variant one after the other in the list: those that run at once are alike.
    jobs = [(name, seed, flags) for name, flags in variants.items() for seed in range(args.seeds)]
    with ThreadPoolExecutor(args.at_once) as pool:
        return [run for run in pool.map(lambda job: train(*job, args), jobs) if run]


def follow_advice(
    variants: dict[str, tuple[str, ...]], runs: list[Finished], args: argparse.Namespace
) -> list[Finished]:
    advised = {}
    for run in runs:
        if run.seed == 0:
            found = diagnosed(run)
            more = advised_flags(found)
            print(f"{run.variant}: {' '.join(more) or 'no change proposed'}; {'; '.join(found['advice'])}", flush=True)
            if more:
                advised[run.variant + _ADVISED] = (*variants[run.variant], *more)
    return trained(advised, args)


def report(args: argparse.Namespace, variants: dict[str, tuple[str, ...]], runs: list[Finished]) -> None:
    oscillates = args.study == "finetune"
    with ThreadPoolExecutor(args.at_once) as pool:
        around = list(pool.map(lambda run: oscillation(diagnosed(run)), runs)) if oscillates else []
    head = ["variant", "mAP50 %", "mAP50-95 %", "best epoch", "wall s", "img/s in training"]
    head += ["oscillation %"] * oscillates + ["seeds"]
    lines = [f"- {name}: `{' '.join(flags)}`" for name, flags in variants.items()]
    lines += ["", "| " + " | ".join(head) + " |", "|---|" + "--:|" * (len(head) - 1)]
    for variant in dict.fromkeys(run.variant for run in runs):
        chosen = [n for n, run in enumerate(runs) if run.variant == variant]
        lines.append(row_of(variant, [runs[n] for n in chosen], [around[n] for n in chosen] if oscillates else []))
    print("\n".join(lines), flush=True)
    (args.out / f"{args.study}.md").write_text("\n".join(lines) + "\n")
    draw(runs, args.out / f"{args.study}.png")


if __name__ == "__main__":
    main()
