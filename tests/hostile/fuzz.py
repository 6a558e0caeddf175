"""`make fuzz N=10000`: hostile inputs of all classes, each in a process of its own, with what they cost.

`python -m tests.hostile.fuzz --n 200 --seed 3 --only weights yaml` makes and tries inputs 0 to 199 of each class. One
that has not held is kept in `--keep`, and is made again by `--seed 3 --only weights --case 17`.
"""

import argparse
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from tests.hostile.generators.caches import caches
from tests.hostile.generators.data import coco, images, labels, yamls
from tests.hostile.generators.requests import requests
from tests.hostile.generators.run_folders import run_folders
from tests.hostile.generators.sequences import experiments, sequences, tars
from tests.hostile.generators.sound import Sound, make_sound, one_case
from tests.hostile.generators.states import states
from tests.hostile.generators.weights import safetensors, weights
from tests.hostile.harness import Case, Outcome, attempt
from tests.train.small_run import flags
from yolofast.cli import main as yolofast

Generator = Callable[[Random, Path, Sound], Case]
GENERATORS: dict[str, Generator] = {
    "weights": weights, "safetensors": safetensors, "resume": states, "yaml": yamls, "labels": labels, "coco": coco,
    "images": images, "runs": run_folders, "requests": requests, "caches": caches, "sequences": sequences,
    "experiments": experiments, "tars": tars,
}  # fmt: skip
SHARES = {
    "weights": 5,
    "safetensors": 2,
    "resume": 1,
    "yaml": 4,
    "labels": 2,
    "coco": 2,
    "images": 3,
    "runs": 4,
    "requests": 2,
    "caches": 1,
    "sequences": 3,
    "experiments": 2,
    "tars": 2,
}
_IMPORTING_S = 2.0
_TRIES = 3
"""Of an input that seems to be slow: on a busy machine a second is not always the same."""


def made(name: str, seed: int, number: int, folder: Path, sound: Sound) -> Case:
    return GENERATORS[name](Random(f"{seed} {name} {number}"), folder, sound)


def tried(
    name: str, seed: int, number: int, work: Path, sound: Sound, cost: Outcome
) -> tuple[Outcome, list[str], Case]:
    for turn in range(_TRIES):
        with one_case(work / f"{name}-{number}-{turn}") as folder:
            case = made(name, seed, number, folder, sound)
            outcome = attempt(case, folder)
            failures = outcome.failures(cost)
            if not failures or any(not failure.endswith(" s") for failure in failures):
                break
    return outcome, failures, case


def sound_commands(sound: Sound) -> dict[str, list[tuple[str, ...]]]:
    """What sound inputs of each class are given to: it brings in all modules, and says what they cost."""
    run, data, best = str(sound.run), str(sound.data), str(sound.run / "weights" / "best.pt")
    check, info = ("check", "--data", data), ("info", "--weights", best)
    explain = ("train", "--explain", "--cfg", "mini", "--weights", "", "--data", data, "--device", "cpu")
    yolox = (*explain[:3], "yolox-nano", *explain[4:], "--recipe", "yolox-s")
    predict = ("predict", *info[1:], "--source", str(sound.data.parent / "images" / "train"), "--img", "64")
    return {
        "weights": [info, ("strip", *info[1:], "--out", "y.pt"), ("reparam", *info[1:], "--out", "y.pt")],
        "safetensors": [info],
        "resume": [],
        "yaml": [check, explain, yolox, ("info", "--cfg", "yolov7-tiny")],
        "labels": [check, (*check, "--json")],
        "coco": [check],
        "images": [check, ("pack", "--data", data, "--img", "64", "--out", "store"), (*predict, "--device", "cpu")],
        "runs": [("report", run, "--output", "x.html"), ("compare", run, str(sound.other)), ("diagnose", run)],
        "requests": [],
        "caches": [],
        "sequences": [],
        "experiments": [("sweep", "batch-and-lr", "--dry-run", "--device", "cpu")],
        "tars": [check],
    }  # fmt: skip


def costs(sound: Sound, work: Path) -> dict[str, Outcome]:
    """Of sound inputs by class: the dearest of its commands."""
    found = {}
    for name, commands in sound_commands(sound).items():
        cases = [Case("sound", command) for command in commands]
        if name == "resume":
            copy = sound.copy_run(work / "sound-run")
            shutil.rmtree(copy / "weights")  # it starts again: the most that a sound resume costs
            cases = [Case("sound", ("train", "--resume", str(copy), "--epochs", "4", "--device", "cpu"))]
        outcomes = []
        for case in cases or [Case("nothing", call=lambda: 0)]:
            with one_case(work / "sound") as folder:
                outcomes.append(attempt(case, folder))
                assert outcomes[-1].code in (0, 1), outcomes[-1].said
        found[name] = max(outcomes, key=lambda outcome: outcome.seconds)
    return found


def prepared(work: Path) -> Sound:
    """A data set and a run, made here; whatever commands import is then there for all cases."""
    os.environ["YOLOFAST_CACHE"] = str(work / "cache")
    with _silence():
        return _prepared(work)


def borrowed(trained: Path, work: Path) -> Sound:
    """What tests share: its run is copied, its images are only read."""
    os.environ["YOLOFAST_CACHE"] = str(work / "cache")
    run = Path(shutil.copytree(trained / "runs" / "run", work / "runs" / "run"))
    return make_sound(trained / "shapes" / "data.yaml", run, work / "sound-files")


def roughly(work: Path) -> Outcome:
    """What any input may cost before it counts: that of a process, and the modules that nobody has imported yet."""
    with one_case(work / "nothing") as folder:
        nothing = attempt(Case("nothing", call=lambda: 0), folder)
    return replace(nothing, seconds=_IMPORTING_S)


@contextmanager
def _silence() -> Iterator[None]:
    sys.stdout.flush()
    before, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(before, 1)
        os.close(nowhere)


def _prepared(work: Path) -> Sound:
    assert yolofast(["train", *flags(work, plots=True, images=12, epochs=2, name="run")]) == 0
    sound = make_sound(work / "shapes" / "data.yaml", work / "runs" / "run", work / "sound-files")
    here = os.getcwd()
    for name, commands in sound_commands(sound).items():
        for number, command in enumerate(commands):
            with one_case(work / f"first-{name}-{number}") as folder:
                os.chdir(folder)
                yolofast(list(command))
                os.chdir(here)
    return sound


def main() -> int:
    options = _options()
    work = Path(tempfile.mkdtemp(prefix="yolofast-fuzz-"))
    try:
        if options.trained is not None:
            sound = borrowed(options.trained, work)
            cost = dict.fromkeys(GENERATORS, roughly(work))
        else:
            sound = prepared(work)
            cost = costs(sound, work)
        print(f"seed {options.seed}; a sound input of a class takes, in seconds and MB: " + ", ".join(
            f"{name} {one.seconds:.1f} {one.megabytes:.0f}" for name, one in cost.items()))  # fmt: skip
        print(f"{'class':12} {'tried':>7} {'held':>7} {'failed':>7} {'refused':>8} {'most s':>7} {'most MB':>8}")
        broken = sum(_class(name, count, options, work, sound, cost[name]) for name, count in _counts(options).items())
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return 1 if broken else 0


def _class(name: str, count: int, options: argparse.Namespace, work: Path, sound: Sound, cost: Outcome) -> int:
    """How many have not held; seconds and bytes are those beyond a sound input."""
    failed = refused = 0
    seconds = megabytes = 0.0
    numbers = range(count) if options.case is None else [options.case]
    for number in numbers:
        try:
            outcome, failures, case = tried(name, options.seed, number, work, sound, cost)
        except Exception:  # noqa: BLE001 - thousands of others wait: told, counted, and the run continues
            failed += 1
            print(f"  {name} {number}: could not be made or tried:", file=sys.stderr)
            traceback.print_exc()
            continue
        refused += outcome.code == 2
        seconds, megabytes = (
            max(seconds, outcome.seconds - cost.seconds),
            max(megabytes, outcome.megabytes - cost.megabytes),
        )
        if failures:
            failed += 1
            _keep(
                options.keep / f"{name}-{options.seed}-{number}",
                name,
                options.seed,
                number,
                sound,
                outcome,
                failures,
                case,
            )
        if options.case is not None:
            print(case, outcome.said[-3000:], sep="\n")
    total = len(numbers)
    print(
        f"{name:12} {total:7,} {total - failed:7,} {failed:7,} {refused:8,} {seconds:7.1f} {megabytes:8.0f}", flush=True
    )
    return failed


def _keep(
    target: Path, name: str, seed: int, number: int, sound: Sound, outcome: Outcome, failures: list[str], case: Case
) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    made(name, seed, number, target, sound)
    (target / "outcome.txt").write_text(f"{failures}\n{case}\n{outcome.code}\n{outcome.said}", "utf-8", "replace")
    print(f"  {name} {number}: {', '.join(failures)}: {case.kind}; kept in {target}", file=sys.stderr, flush=True)


def _counts(options: argparse.Namespace) -> dict[str, int]:
    """Classes whose readers do more get more of them."""
    names = options.only or list(GENERATORS)
    whole = sum(SHARES[name] for name in names)
    return {name: max(1, round(options.n * SHARES[name] / whole)) for name in names}


def _options() -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1000, help="inputs in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=GENERATORS, help="these classes alone")
    parser.add_argument("--case", type=int, help="this one alone, with what was said")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"), help="folder for inputs that have not held")
    parser.add_argument("--trained", type=Path, help="a folder with shapes/ and runs/run: nothing is prepared")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
