"""How long a training takes from being typed: to its first update, to full speed, to an epoch, to the prompt.

    python -m benchmarks.bench_start --data DATA [--against GIT_REF] [--plans 0 3] [--timeline]
    python -m benchmarks.bench_start --device cpu --img 64 --batch 8 --cfg mini --pictures 24 --epochs 3 --rounds 2

`DATA` is a data set's yaml or its folder; without it, built-in shapes. All is as by default, but nothing is evaluated
before the last epoch. With `--against` the version of that commit runs in turn with this one, so both meet the same
machine. The first round of each is a new machine: every cache is empty, of kernels and of the data set's index and
pixels; what the disk and the driver remember stays. The rounds that follow find the caches warm. No round begins that
would end after `--budget` seconds. With `--plans` this version runs with cuDNN measuring at most so many algorithms for
a convolution, too; with 0 it measures none.

Full speed is reached with the first step from which on 16 steps take, as a median, at most a tenth longer than the last
quarter of all steps. Where the time goes is what `yolofast profile --startup` says, which `--timeline` calls.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from benchmarks.versions import THIS, environment_of, versions
from yolofast.dataset.shapes.made_once import make_shapes

_STEPS, _NEARLY = 16, 1.1
_CACHES = ("YOLOFAST_CACHE", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUDA_CACHE_PATH")
_PLANS = "BENCH_START_PLANS"
# The command, with a clock at the end of each turn; nothing is imported before the command does. Only the first update
# is waited for: the host is soon a few steps ahead.
_PROGRAM = f"""
import json, os, sys, time
from yolofast import cli, exit_codes
find, ends, updates = exit_codes.found, [], []
def found(where):
    command = find(where)
    import torch
    from yolofast.train import loop
    from yolofast.train.gears import gear_box
    own, plans = loop.turn, os.environ.get("{_PLANS}", "")
    if plans == "0":
        gear_box.GearBox._worth_tuning = lambda box, batch: False
    elif plans:
        torch.backends.cudnn.benchmark_limit = int(plans)
    def turn(*given, **named):
        made = own(*given, **named)
        if not updates and torch.cuda.is_available():
            torch.cuda.synchronize()
        ends.append(time.time())
        if made.kind.updates and not updates:
            updates.append(ends[-1])
        return made
    loop.turn, exit_codes.found = turn, find
    return command
exit_codes.found = found
code = cli.main(sys.argv[2:])
with open(sys.argv[1], "w") as file:
    json.dump({{"ends": ends, "update": updates[0]}}, file)
sys.exit(code)
"""


class Start(NamedTuple):
    """Seconds after the command was typed, and the milliseconds of a step in the end."""

    update: float
    full_speed: float
    epoch: float
    prompt: float
    step: float


def usual_step(ends: Sequence[float]) -> float:
    """Seconds, by the moments at which steps ended: the median of the last quarter."""
    steps = [after - before for before, after in pairwise(ends)]
    return statistics.median(steps[-max(len(steps) // 4, 1) :]) if steps else 0.0


def full_speed(ends: Sequence[float]) -> float:
    """When it was reached."""
    steps = [after - before for before, after in pairwise(ends)]
    if len(steps) < 2:
        return ends[-1]
    most = _NEARLY * usual_step(ends)
    fast = (place for place in range(len(steps)) if statistics.median(steps[place : place + _STEPS]) <= most)
    return ends[next(fast, len(steps) - 1)]


class Version(NamedTuple):
    code: Path
    plans: str
    """How many algorithms cuDNN measures; empty for as many as the version has it measure."""


@dataclass(frozen=True)
class Starter:
    words: list[str]
    folder: Path
    store: Path
    """Of the data set's index and pixels."""

    def start(self, version: Version, caches: Path) -> Start:
        result = self.folder / "ends.json"
        environment = environment_of(version.code) | {_PLANS: version.plans}
        environment |= {name: str(caches / name.lower()) for name in _CACHES}
        typed, first = time.time(), 0.0
        command = [sys.executable, "-c", _PROGRAM, str(result), *self.words]
        with subprocess.Popen(command, env=environment, cwd=version.code, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if not first and line.split()[:1] and line.split()[0].startswith("1/"):
                    first = time.time() - typed
        prompt = time.time() - typed
        assert process.returncode == 0 and first, "the training failed; its message is above"
        found = json.loads(result.read_text())
        ends = found["ends"]
        return Start(found["update"] - typed, full_speed(ends) - typed, first, prompt, 1000 * usual_step(ends))

    def forget_the_store(self) -> None:
        shutil.rmtree(self.store, ignore_errors=True)


def measure(starter: Starter, tried: dict[str, Version], rounds: int, budget: float) -> dict[str, list[Start]]:
    """Of each version the first start has empty caches, the others have what it left; versions run in turn."""
    begun, longest = time.monotonic(), 0.0
    found: dict[str, list[Start]] = {name: [] for name in tried}
    for number in range(rounds):
        for name in list(tried)[:: -1 if number % 2 else 1]:
            if number and time.monotonic() - begun + longest > budget:
                print(f"no time is left for round {number + 1} of {name}", flush=True)
                continue
            if not number:
                starter.forget_the_store()
            since = time.monotonic()
            found[name].append(starter.start(tried[name], starter.folder / f"caches of {name}"))
            longest = max(longest, time.monotonic() - since)
            print(f"{name}, round {number + 1}: {', '.join(f'{value:.1f}' for value in found[name][-1])}", flush=True)
    return found


def rows(measured: dict[str, list[Start]]) -> list[str]:
    lines = ["| version | start | first update s | full speed s | first epoch s | prompt s | step ms |"]
    lines.append("|---|---|" + "--:|" * len(Start._fields))
    for version, (first, *later) in measured.items():
        for name, starts in (("new machine", [first]), ("warm, median", later)):
            if starts:
                cells = [f"{statistics.median(column):.1f}" for column in zip(*starts, strict=True)]
                lines.append(f"| {version} | {name} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", default="", help="a commit of this repository, or a folder with a package in it")
    parser.add_argument("--plans", nargs="*", default=[], help="algorithms for cuDNN to measure, for more versions")
    parser.add_argument("--rounds", type=int, default=4, help="of each version; the first is a new machine")
    parser.add_argument("--budget", type=float, default=420.0, help="seconds")
    parser.add_argument("--timeline", action="store_true", help="also what `yolofast profile --startup` says")
    parser.add_argument("--data", default="", help="a data set's yaml or folder; its .yolofast folder is removed")
    parser.add_argument("--epochs", default="30")
    parser.add_argument("--cfg", default="yolov7-tiny")
    parser.add_argument("--img", default="320")
    parser.add_argument("--batch", default="64")
    parser.add_argument("--pictures", type=int, default=2048)
    parser.add_argument("--device", default="")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = Path(asked.data).resolve() if asked.data else make_shapes(folder / "shapes", n=asked.pictures)
        data = data / "data.yaml" if Path(data).is_dir() else Path(data)
        words = [
            "--data", str(data), "--cfg", asked.cfg, "--weights=", "--img", asked.img, "--batch-size", asked.batch,
            *(["--device", asked.device] if asked.device else []),
        ]  # fmt: skip
        train = ["train", *words, "--epochs", asked.epochs, "--notest", "--project", str(folder / "runs")]
        tried = {one: Version(code, "") for one, code in versions(asked.against, folder / "against").items()}
        tried |= {f"{THIS}, {plans} plans": Version(tried[THIS].code, plans) for plans in asked.plans}
        starter = Starter(train, folder, data.parent / ".yolofast")
        print("\n".join(rows(measure(starter, tried, asked.rounds, asked.budget))), flush=True)
        if asked.timeline:
            caches = folder / f"caches of {THIS}"
            environment = environment_of(tried[THIS].code) | {name: str(caches / name.lower()) for name in _CACHES}
            command = [sys.executable, "-m", "yolofast", "profile", "--startup", *words]
            subprocess.run(command, env=environment, cwd=folder, check=True)


if __name__ == "__main__":
    main()
