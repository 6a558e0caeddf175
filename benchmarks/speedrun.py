"""How few epochs and seconds a recipe needs to a target mAP50-95: recipes, seeds, and single ingredients compared.

    python -m benchmarks.speedrun benchmarks/speedruns/yolov7-tiny.yaml mine.yaml --data voc320/data.yaml --out study \
        --target 0.16 --minutes 9
    python -m benchmarks.speedrun mine.yaml --ablate benchmarks/speedruns/ingredients.yaml --choose --data … --out …

A recipe is a plain file: settings of `yolofast train`, hyper-parameters among them. All recipes have the same seeds, so
they are compared in pairs. With `--ablate` each row of a file is added to the recipe, or taken away where it has it;
`--keep 0.5` gives another seed only to the better half of the rows so far. `--stack FILE` adds the rows one after the
other, the best one of those trials first, and keeps what is better by more than its standard error: what is left is
written as a recipe.

`--choose` holds back a fifth of the training images by the hashes of their names, and evaluates on those: what is
chosen with it has not seen the validation split, which is kept for one last comparison. Labels have to be text files.

Finished trials are lines of `--trials` (trials.py), and the same command continues; its exit code is 75 as long as
something is left. `--minutes` begins nothing that is not likely to end in time, and pauses what does not. `--dry-run`
says what all would take on one H200. mAP is that of the last epoch, since the best one would be chosen by the same
images; seconds are those of training without evaluation, of runs that share the machine. Intervals are Student's, 95 %.
"""

import argparse
import hashlib
import math
import platform
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import scipy.special
import torch

from benchmarks.trials import (
    Course,
    DataSet,
    Settings,
    Trial,
    TrialsFile,
    device_name,
    expected_minutes,
    expected_seconds,
    train_all,
)
from yolofast._version import __version__
from yolofast.config.flags import from_settings
from yolofast.config.hyp import with_set_values
from yolofast.config.train import TrainConfig
from yolofast.config.yolox_recipe import typed_values
from yolofast.dataset.split import read_split
from yolofast.errors import UserError
from yolofast.exit_codes import EXIT_PAUSED, call
from yolofast.files.atomic_file import write_whole
from yolofast.files.yaml_file import dump_yaml, read_yaml

_HELD_BACK = 5
"""One image in so many."""
_HEAD = ("date", "recipe", "split", "target", "epochs", "seconds", "mAP50-95 %", "seeds", "hardware", "versions")
Courses = dict[str, dict[int, Course]]
"""Of complete trials, by recipe and seed."""


def recipe_of(path: Path) -> dict[str, Any]:
    return {str(key): value for key, value in read_yaml(path).values.items()}


def variants(base: Settings, name: str, ingredients: Mapping[str, Settings]) -> dict[str, dict[str, Any]]:
    """The recipe, and for each ingredient the recipe with it, or without it where the recipe has all of its values."""
    found = {name: dict(base)}
    for ingredient, values in ingredients.items():
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


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean and half the width of its 95 % interval; of one value there is none."""
    middle = statistics.mean(values)
    if len(values) < 2:
        return middle, math.nan
    reach = float(scipy.special.stdtrit(len(values) - 1, 0.975))
    return middle, reach * statistics.stdev(values) / math.sqrt(len(values))


def shown(values: Sequence[float], digits: int = 1) -> str:
    if not values:
        return "–"
    middle, half = interval(values)
    return f"{middle:.{digits}f}" if math.isnan(half) else f"{middle:.{digits}f} ± {half:.{digits}f}"


def in_pairs(courses: Mapping[int, Course], first: Mapping[int, Course]) -> list[float]:
    """By seed: how far the last mAP50-95 is above that of the first, in points."""
    seeds = sorted(courses.keys() & first.keys())
    return [100 * (courses[seed].maps[-1] - first[seed].maps[-1]) for seed in seeds]


def row_of(courses: Mapping[int, Course], first: Mapping[int, Course], target: float) -> list[str]:
    """Epochs and seconds only where every seed has reached the target: a mean of the others would flatter."""
    reached = [found for one in courses.values() if (found := one.to(target)) is not None]
    all_of_them = len(reached) == len(courses)
    cells = [shown([float(found[n]) for found in reached]) if all_of_them else "–" for n in range(2)]
    final = shown([100 * one.maps[-1] for one in courses.values()], 2)
    pairs = "" if courses is first else shown(in_pairs(courses, first), 2)
    return [f"{len(reached)} of {len(courses)}", *cells, final, pairs]


def table(done: Mapping[str, Mapping[int, Course]], target: float) -> list[str]:
    head = ["recipe", f"reach {target:g}", "epochs", "seconds", "mAP50-95 %", "against the first, paired"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    first = next(iter(done.values()))
    return lines + [f"| {name} | {' | '.join(row_of(one, first, target))} |" for name, one in done.items() if one]


def record(path: Path, name: str, courses: Mapping[int, Course], split: str, target: float, at_once: int) -> None:
    """A line of the table of records."""
    _, epochs, seconds, final, _ = row_of(courses, courses, target)
    versions = f"yolofast {__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    hardware = device_name() + (f", {at_once} at once" if at_once > 1 else "")
    cells = [f"{datetime.now(UTC):%Y-%m-%d}", name, split, f"{target:g}", epochs, seconds, final, str(len(courses))]
    start = f"| {' | '.join(_HEAD)} |\n{'|---' * len(_HEAD)}|\n"
    before = path.read_text("utf-8") if path.exists() else start
    write_whole(path, f"{before}| {' | '.join([*cells, hardware, versions])} |\n".encode())


@dataclass
class Study:
    """Trains what is asked for, and knows what is complete."""

    data: DataSet
    file: TrialsFile
    out: Path
    seeds: int
    at_once: int
    deadline: float

    def trials(self, recipes: Mapping[str, Settings], seeds: Sequence[int] | None = None) -> list[Trial]:
        """Seed by seed: what is complete early can be compared."""
        every = range(self.seeds) if seeds is None else seeds
        return [Trial(name, seed, recipe, self.data) for seed in every for name, recipe in recipes.items()]

    def train(self, trials: Sequence[Trial]) -> bool:
        """Whether all are complete."""
        return train_all(trials, self.out, self.file, self.at_once, self.deadline)

    def courses(self, recipes: Mapping[str, Settings]) -> Courses:
        found: Courses = {name: {} for name in recipes}
        for trial in self.trials(recipes):
            if trial.key in self.file.courses:
                found[trial.recipe][trial.seed] = self.file.courses[trial.key]
        return found

    def gains(self, recipes: Mapping[str, Settings]) -> dict[str, float]:
        """Of those with trials, the first one apart: the mean of what they are above it, by seed."""
        first, *others = self.courses(recipes).items()
        pairs = {name: in_pairs(courses, first[1]) for name, courses in others}
        return {name: statistics.mean(values) for name, values in pairs.items() if values}


def screened(study: Study, recipes: Mapping[str, Settings], keep: float) -> bool:
    """One seed after the other, each only for the better ones so far; whether all are complete."""
    alive = dict(recipes)
    for seed in range(study.seeds):
        if not study.train(study.trials(alive, [seed])):
            return False
        gains = study.gains(alive)
        better = sorted(gains, key=lambda name: -gains[name])[: max(math.ceil(keep * len(gains)), 1)]
        alive = {name: values for name, values in alive.items() if name not in gains or name in better}
    return True


def stacked(
    study: Study, base: Settings, name: str, rows: Mapping[str, Settings]
) -> tuple[dict[str, dict[str, Any]], dict[str, Any] | None]:
    """The recipes tried, row by row on top of what was kept; and that which is left, None as long as it is not known.

    What sets a value that a kept row has set is left out: it would undo that, not add to it. So is what was no better
    alone, where there are trials of it.
    """
    gains = study.gains(variants(base, name, rows))
    order = sorted(rows, key=lambda row: -gains.get(f"{name} + {row}", -math.inf))  # without trials: as in the file
    best_name, best, tried, kept = name, dict(base), {name: dict(base)}, set[str]()
    for row in order:
        values = rows[row]
        if values.keys() & kept or values.items() <= best.items() or gains.get(f"{name} + {row}", 1.0) <= 0:
            continue
        longer = f"{best_name} + {row}"
        tried[longer] = {**best, **values}
        if not study.train(study.trials({best_name: best, longer: tried[longer]})):
            return tried, None
        courses = study.courses({best_name: best, longer: tried[longer]})
        differences = in_pairs(courses[longer], courses[best_name])
        error = statistics.stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else 0.0
        if statistics.mean(differences) > error:
            best_name, best, kept = longer, tried[longer], kept | values.keys()
    return tried, best


def asked(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", type=Path, nargs="+")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--target", type=float, required=True, help="mAP50-95, as a share: 0.16")
    parser.add_argument("--ablate", type=Path, help="a file of ingredients; with one recipe")
    parser.add_argument("--only", nargs="+", help="ingredients, of those in the file")
    parser.add_argument("--keep", type=float, default=1.0, help="share of the ingredients that get the next seed")
    parser.add_argument("--stack", type=Path, help="add ingredients one by one; the recipe that is left, a file")
    parser.add_argument("--choose", action="store_true", help="on a held-back part of the training images")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--at-once", type=int, default=1, help="processes")
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--trials", type=Path, help="file of finished trials (OUT/trials.jsonl)")
    parser.add_argument("--dry-run", action="store_true", help="train nothing, say how long it would take on one H200")
    parser.add_argument("--record", type=Path, help="add a line for each complete recipe to this table")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="of every run, above its recipe")
    args = parser.parse_args(words)
    if (args.ablate is not None and len(args.recipes) != 1) or (args.stack is not None and args.ablate is None):
        raise UserError("--ablate takes one recipe apart, and --stack its rows", fix="give one recipe, and both")
    return args


def rows_of(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Ingredients: settings that are added to the recipe."""
    rows = {} if args.ablate is None else recipe_of(args.ablate)
    if wrong := [name for name, values in rows.items() if not isinstance(values, dict)]:
        raise UserError(f"{wrong[0]} is {rows[wrong[0]]}", fix="give settings: {optimizer: muon, lr0: 0.004}")
    if unknown := set(args.only or ()) - rows.keys():
        raise UserError(f"--only {' '.join(sorted(unknown))}", where=args.ablate, fix=f"use {', '.join(rows)}")
    return {name: values for name, values in rows.items() if not args.only or name in args.only}


def measure(words: Sequence[str] | None = None) -> int:
    began, args = time.time(), asked(words)
    changes = typed_values(args.set, {}, "epochs=3")
    recipes = {path.stem: {**recipe_of(path), **changes} for path in args.recipes}
    rows, (first, base) = rows_of(args), next(iter(recipes.items()))
    every = {**recipes, **variants(base, first, rows)}
    args.out.mkdir(parents=True, exist_ok=True)
    data = DataSet.of(held_back(args.data, args.out / "choice") if args.choose else args.data)
    file = TrialsFile(args.trials or args.out / "trials.jsonl")
    study = Study(data, file, args.out, args.seeds, args.at_once, began + 60 * args.minutes)
    for trial in study.trials(every):  # before anything is trained: what would be refused later
        from_settings(TrainConfig, with_set_values(trial.settings))
        _ = trial.epochs
    if args.dry_run:
        return foretold(study, every, args.keep)
    if args.stack is not None:
        every, left = stacked(study, base, first, rows)
        is_complete = left is not None
        if left is not None:
            write_whole(args.stack, dump_yaml(left).encode())
    else:
        is_complete = screened(study, every, args.keep) if args.keep < 1 else study.train(study.trials(every))
    return report(args, study, every, is_complete)


def foretold(study: Study, recipes: Mapping[str, Settings], keep: float) -> int:
    print("| recipe | trials left | seconds of one H200, each | of the host |\n|---|--:|--:|--:|")
    planned, alive = [], list(recipes)
    for seed in range(study.seeds):
        planned += study.trials({name: recipes[name] for name in alive}, [seed])
        alive = alive[: 1 + max(math.ceil(keep * (len(alive) - 1)), 1)]  # for the better ones
    left = [trial for trial in planned if trial.key not in study.file.courses]
    for name in recipes:
        own = sum(trial.recipe == name for trial in left)
        busy, beside = expected_seconds(recipes[name], study.data.images)
        print(f"| {name} | {own} | {busy:.1f} | {beside:.1f} |")
    print(f"{len(left)} trials, {study.at_once} at once: about {expected_minutes(left, study.at_once):.0f} minutes")
    return 0


def report(args: argparse.Namespace, study: Study, recipes: Mapping[str, Settings], is_complete: bool) -> int:
    split, done = "held back" if args.choose else "val", study.courses(recipes)
    complete = sum(map(len, done.values()))
    where = f"{args.data}, {split}; {device_name()}, {args.at_once} at once"
    lines = [f"{where}; yolofast {__version__}, torch {torch.__version__}"]
    if complete:
        lines += ["", *table(done, args.target)]
    lines += ["", f"{complete} trials are complete" + ("" if is_complete else "; the same command continues")]
    print("\n".join(lines))
    write_whole(args.out / f"speedrun-{split.replace(' ', '-')}.md", "\n".join([*lines, ""]).encode())
    for name, runs in done.items():
        if args.record is not None and len(runs) == args.seeds:
            record(args.record, name, runs, split, args.target, args.at_once)
    return 0 if is_complete else EXIT_PAUSED


if __name__ == "__main__":
    sys.exit(call(measure))
