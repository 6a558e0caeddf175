"""How few epochs and seconds a recipe needs to a target mAP50-95: recipes, seeds, and single ingredients compared.

    python -m benchmarks.speedrun benchmarks/speedruns/yolov7-tiny.yaml mine.yaml --data voc320/data.yaml --out study \
        --target 0.16 --minutes 9
    python -m benchmarks.speedrun mine.yaml --ablate benchmarks/speedruns/ingredients.yaml --choose --data … --out …

A recipe is a plain file: settings of `yolofast train`, hyper-parameters among them. All recipes have the same seeds, so
they are compared in pairs. With `--ablate` each row of a file is added to the recipe, or taken away where it has it.

`--choose` holds back a fifth of the training images by the hashes of their names, and evaluates on those: what is
chosen with it has not seen the validation split, which is kept for one last comparison. Labels have to be text files.

Each of `--at-once` processes trains run after run: programs, kernels and the device are loaded once. What is captured
or stored belongs to one run. `--minutes` ends all at the end of an epoch; the same command continues, with exit code
75 as long as something is left. mAP is that of the last epoch, since the best one would be chosen by the same images;
seconds are those of training without evaluation, of runs that share the machine. Intervals are Student's, 95 %.
"""

import argparse
import contextlib
import gc
import hashlib
import json
import math
import multiprocessing
import os
import platform
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import scipy.stats
import torch

from yolofast._version import __version__
from yolofast.config.flags import from_settings, resolve
from yolofast.config.hyp import with_set_values
from yolofast.config.train import TrainConfig
from yolofast.config.yolox_recipe import typed_values
from yolofast.dataset.split import read_split
from yolofast.errors import UserError
from yolofast.exit_codes import EXIT_PAUSED, call
from yolofast.files.atomic_file import write_whole
from yolofast.files.yaml_file import dump_yaml, read_yaml
from yolofast.runs.layout import MAP, TIME
from yolofast.runs.reader import RunFolder
from yolofast.train.session import train

_HELD_BACK = 5
"""One image in so many."""
_LEAST_SECONDS = 20
"""Left, with which a run is still begun or continued."""
_HEAD = ("date", "recipe", "split", "target", "epochs", "seconds", "mAP50-95 %", "seeds", "hardware", "versions")
Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Job:
    recipe: str
    seed: int
    settings: Settings
    folder: Path
    deadline: float
    """By `time.time`."""


@dataclass(frozen=True)
class Course:
    """Of one run, by epoch."""

    epochs: list[int]
    """As people count them."""
    seconds: list[float]
    maps: list[float]

    def to(self, target: float) -> tuple[int, float] | None:
        """Epochs and seconds until the target is reached; None if it never is."""
        reached = (n for n, value in enumerate(self.maps) if value >= target)
        place = next(reached, None)
        return None if place is None else (self.epochs[place], self.seconds[place])


def recipe_of(path: Path) -> dict[str, Any]:
    return {str(key): value for key, value in read_yaml(path).values.items()}


def epochs_of(name: str, recipe: Settings) -> int:
    if type(recipe.get("epochs")) is not int:
        raise UserError(f"{name} says no epochs", fix="give them in the file, or by --set epochs=100")
    return from_settings(TrainConfig, with_set_values(recipe)).epochs


def variants(base: Settings, name: str, ingredients: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The recipe, and for each ingredient the recipe with it, or without it where the recipe has all of its values."""
    found = {name: dict(base)}
    for ingredient, values in ingredients.items():
        if not isinstance(values, dict):
            raise UserError(f"{ingredient} is {values}", fix="give settings: {optimizer: muon, lr0: 0.004}")
        if values.items() <= base.items():
            found[f"{name} - {ingredient}"] = {key: value for key, value in base.items() if key not in values}
        else:
            found[f"{name} + {ingredient}"] = {**base, **values}
    return found


def held_back(data: Path, out: Path) -> Path:
    """A data set whose training split is most of that of `data`, and whose validation split is the rest of it."""
    index = read_split(data, "train")
    paths = [index.path(n) for n in range(len(index))]
    chosen = [int(hashlib.sha256(path.name.encode()).hexdigest(), 16) % _HELD_BACK == 0 for path in paths]
    if all(chosen) or not any(chosen):
        raise UserError(f"{len(paths)} images are too few to hold some back", where=data, fix="leave out --choose")
    out.mkdir(parents=True, exist_ok=True)
    for split, own in (("train", False), ("val", True)):
        lines = [str(path) for path, held in zip(paths, chosen, strict=True) if held is own]
        write_whole(out / f"{split}.txt", "".join(f"{line}\n" for line in lines).encode())
    names = {"train": "train.txt", "val": "val.txt", "nc": len(index.names), "names": list(index.names)}
    write_whole(out / "data.yaml", dump_yaml({"path": str(out.resolve()), **names}).encode())
    return out / "data.yaml"


def run(job: Job) -> str:
    """In a process that may have trained others before. What it has to say stands in a file beside its folder."""
    left = job.deadline - time.time()
    if left < _LEAST_SECONDS:
        return ""
    job.folder.parent.mkdir(parents=True, exist_ok=True)
    limit = {} if math.isinf(left) else {"time_limit": f"{left:.0f}s"}
    own = {"seed": job.seed, "project": str(job.folder.parent), "name": job.folder.name, "resume": "auto", **limit}
    quick = {"plots": False, "nosave": True}
    with (
        job.folder.with_suffix(".log").open("a") as log,
        contextlib.redirect_stdout(log),
        contextlib.redirect_stderr(log),
    ):
        try:
            settings = with_set_values({**quick, **job.settings, **own})
            config = from_settings(TrainConfig, settings)
            given = {resolve(TrainConfig, key, value)[0] for key, value in settings.items()}
            train(config, {name: getattr(config, name) for name in given})
        except UserError as error:
            return str(error)
        finally:
            gc.collect()
            torch.cuda.empty_cache()
    return ""


def course_of(folder: Path, epochs: int) -> Course | None:
    """Of a run that is complete."""
    try:
        run = RunFolder(folder)
        numbers, seconds, maps = run.epochs(), run.column(TIME.name), run.column(MAP.name)
    except UserError:
        return None
    done = Course([int(n) for n in numbers], [float(s) for s in seconds], [float(m) for m in maps])
    return done if len(done.epochs) == epochs else None


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean and half the width of its 95 % interval; of one value there is none."""
    middle = statistics.mean(values)
    if len(values) < 2:
        return middle, math.nan
    reach = float(scipy.stats.t.ppf(0.975, len(values) - 1))
    return middle, reach * statistics.stdev(values) / math.sqrt(len(values))


def shown(values: Sequence[float], digits: int = 1) -> str:
    if not values:
        return "–"
    middle, half = interval(values)
    return f"{middle:.{digits}f}" if math.isnan(half) else f"{middle:.{digits}f} ± {half:.{digits}f}"


def row_of(courses: Mapping[int, Course], first: Mapping[int, Course], target: float) -> list[str]:
    """Epochs and seconds only where every seed has reached the target: a mean of the others would flatter."""
    reached = [found for one in courses.values() if (found := one.to(target)) is not None]
    all_of_them = len(reached) == len(courses)
    cells = [shown([float(found[n]) for found in reached]) if all_of_them else "–" for n in range(2)]
    pairs = [100 * (courses[seed].maps[-1] - first[seed].maps[-1]) for seed in courses.keys() & first.keys()]
    final = shown([100 * one.maps[-1] for one in courses.values()], 2)
    return [f"{len(reached)} of {len(courses)}", *cells, final, "" if courses is first else shown(pairs, 2)]


def table(done: Mapping[str, Mapping[int, Course]], target: float) -> list[str]:
    head = ["recipe", f"reach {target:g}", "epochs", "seconds", "mAP50-95 %", "against the first, paired"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    first = next(iter(done.values()))
    return lines + [f"| {name} | {' | '.join(row_of(one, first, target))} |" for name, one in done.items() if one]


def record(path: Path, name: str, courses: Mapping[int, Course], split: str, target: float, at_once: int) -> None:
    """A line of the table of records."""
    if not torch.cuda.is_available():
        raise UserError("a record is made on a GPU", fix="leave out --record")
    _, epochs, seconds, final, _ = row_of(courses, courses, target)
    versions = f"yolofast {__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    hardware = torch.cuda.get_device_name() + (f", {at_once} at once" if at_once > 1 else "")
    cells = [f"{datetime.now(UTC):%Y-%m-%d}", name, split, f"{target:g}", epochs, seconds, final, str(len(courses))]
    start = f"| {' | '.join(_HEAD)} |\n{'|---' * len(_HEAD)}|\n"
    before = path.read_text("utf-8") if path.exists() else start
    write_whole(path, f"{before}| {' | '.join([*cells, hardware, versions])} |\n".encode())


def asked(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", type=Path, nargs="+")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--target", type=float, required=True, help="mAP50-95, as a share: 0.16")
    parser.add_argument("--ablate", type=Path, help="a file of ingredients; with one recipe")
    parser.add_argument("--only", nargs="+", help="ingredients, of those in the file")
    parser.add_argument("--choose", action="store_true", help="on a held-back part of the training images")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--at-once", type=int, default=1, help="processes")
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--record", type=Path, help="add a line for each complete recipe to this table")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="of every run, above its recipe")
    return parser.parse_args(words)


def recipes_of(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    if args.ablate is None:
        return {path.stem: recipe_of(path) for path in args.recipes}
    if len(args.recipes) != 1:
        raise UserError("--ablate takes one recipe apart", fix="give one")
    rows = recipe_of(args.ablate)
    if unknown := set(args.only or ()) - rows.keys():
        raise UserError(f"--only {' '.join(sorted(unknown))}", where=args.ablate, fix=f"use {', '.join(rows)}")
    rows = {name: values for name, values in rows.items() if not args.only or name in args.only}
    return variants(recipe_of(args.recipes[0]), args.recipes[0].stem, rows)


def measure(words: Sequence[str] | None = None) -> int:
    args, began = asked(words), time.time()
    if args.record is not None and not torch.cuda.is_available():
        raise UserError("a record is made on a GPU", fix="leave out --record")
    changes = typed_values(args.set, {}, "epochs=3")
    every = {name: {**recipe, **changes} for name, recipe in recipes_of(args).items()}
    data, split = args.data, "val"
    if args.choose:
        data, split = held_back(args.data, args.out / "choice"), "held back"
    deadline = began + 60 * args.minutes
    jobs = [  # seed by seed: what is complete early can be compared
        Job(name, seed, {**recipe, "data": str(data)}, args.out / _folder(name, seed, recipe, data), deadline)
        for seed in range(args.seeds)
        for name, recipe in every.items()
    ]
    epochs = {name: epochs_of(name, recipe) for name, recipe in every.items()}
    args.out.mkdir(parents=True, exist_ok=True)
    todo = [job for job in jobs if course_of(job.folder, epochs[job.recipe]) is None]
    with ProcessPoolExecutor(args.at_once, multiprocessing.get_context("spawn")) as pool:
        for job, error in zip(todo, pool.map(run, todo), strict=True):
            if error:
                print(f"{job.recipe}, seed {job.seed}: {error}", file=sys.stderr, flush=True)
    done: dict[str, dict[int, Course]] = {name: {} for name in every}
    for job in jobs:
        if (found := course_of(job.folder, epochs[job.recipe])) is not None:
            done[job.recipe][job.seed] = found
    return report(args, done, split, len(jobs))


def report(args: argparse.Namespace, done: Mapping[str, dict[int, Course]], split: str, jobs: int) -> int:
    complete = sum(map(len, done.values()))
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{os.cpu_count()} cores"
    where = f"{args.data}, {split}; {device}, {args.at_once} at once"
    lines = [f"{where}; yolofast {__version__}, torch {torch.__version__}"]
    lines += ["", *table(done, args.target), "", f"{complete} of {jobs} runs are complete"]
    print("\n".join(lines))
    write_whole(args.out / f"speedrun-{split.replace(' ', '-')}.md", "\n".join([*lines, ""]).encode())
    courses = {name: {seed: vars(one) for seed, one in runs.items()} for name, runs in done.items()}
    write_whole(args.out / f"speedrun-{split.replace(' ', '-')}.json", json.dumps(courses).encode())
    for name, runs in done.items():
        if args.record is not None and len(runs) == args.seeds:
            record(args.record, name, runs, split, args.target, args.at_once)
    if complete < jobs:
        print("the same command continues")
        return EXIT_PAUSED
    return 0


def _folder(name: str, seed: int, recipe: Settings, data: Path) -> str:
    """A recipe that was edited is another one, whose runs are its own."""
    words = json.dumps([recipe, str(data.resolve())], sort_keys=True)
    plain = name.replace(" + ", "-with-").replace(" - ", "-without-")
    return f"{plain}-{hashlib.sha256(words.encode()).hexdigest()[:6]}-{seed}"


if __name__ == "__main__":
    sys.exit(call(measure))
