"""How long a training takes from being typed: to its first update, to full speed, to an epoch, to the prompt.

    python -m benchmarks.bench_start [--data DATA.yaml --epochs 30] [--new-machine] [--against GIT_REF]
    python -m benchmarks.bench_start --device cpu --img 64 --batch 8 --cfg mini --pictures 24

Without `--data` on built-in shapes; without evaluation or pictures. With `--against` the version of that commit runs in
turn with this one, so both meet the same machine. The first round of each is cold and told apart. With `--new-machine`
every start has empty caches: of kernels, and of the data set's index and pixels. What the disk and the driver
remember stays. Full speed is reached with the first step from which on 16 steps take, as a median, at most a tenth
longer than the last quarter of all steps. Where the time goes is what `yolofast profile --startup` says.
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

from benchmarks.versions import environment_of, in_turn, versions
from yolofast.dataset.shapes.made_once import make_shapes

_STEPS, _NEARLY = 16, 1.1
_CACHES = ("YOLOFAST_CACHE", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUDA_CACHE_PATH")
# The command, with a clock at the end of each turn. Only the first is waited for: the host is soon a few steps ahead.
_PROGRAM = """
import json, sys, time
from yolofast.cli import main
import torch
from yolofast.train import loop
own, ends, updates = loop.turn, [], []
def turn(*given, **named):
    made = own(*given, **named)
    if not updates and torch.cuda.is_available():
        torch.cuda.synchronize()
    ends.append(time.time())
    if made.kind.updates and not updates:
        updates.append(ends[-1])
    return made
loop.turn = turn
code = main(sys.argv[2:])
with open(sys.argv[1], "w") as file:
    json.dump({"ends": ends, "update": updates[0]}, file)
sys.exit(code)
"""


class Start(NamedTuple):
    """Seconds after the command was typed."""

    update: float
    full_speed: float
    epoch: float
    prompt: float


def full_speed(ends: Sequence[float]) -> float:
    """When it was reached, by the moments at which steps ended."""
    steps = [after - before for before, after in pairwise(ends)]
    if len(steps) < 2:
        return ends[-1]
    usual = statistics.median(steps[-max(len(steps) // 4, 1) :])
    fast = (place for place in range(len(steps)) if statistics.median(steps[place : place + _STEPS]) <= _NEARLY * usual)
    return ends[next(fast, len(steps) - 1)]


@dataclass(frozen=True)
class Starter:
    words: list[str]
    folder: Path
    store: Path
    """Of the data set's index and pixels."""
    new_machine: bool

    def start(self, code: Path) -> Start:
        result, environment = self.folder / "ends.json", environment_of(code)
        if self.new_machine:
            shutil.rmtree(self.store, ignore_errors=True)
            shutil.rmtree(self.folder / "caches", ignore_errors=True)
            environment |= {name: str(self.folder / "caches" / name.lower()) for name in _CACHES}
        typed, first = time.time(), 0.0
        command = [sys.executable, "-c", _PROGRAM, str(result), *self.words]
        with subprocess.Popen(command, env=environment, cwd=code, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if not first and line.split()[:1] and line.split()[0].startswith("1/"):
                    first = time.time() - typed
        prompt = time.time() - typed
        assert process.returncode == 0 and first, "the training failed; its message is above"
        found = json.loads(result.read_text())
        return Start(found["update"] - typed, full_speed(found["ends"]) - typed, first, prompt)


def rows(measured: dict[str, list[Start]], cold: str) -> list[str]:
    lines = ["| version | start | first update s | full speed s | first epoch s | prompt s |"]
    lines.append("|---|---|" + "--:|" * len(Start._fields))
    for version, (first, *later) in measured.items():
        for name, starts in ((cold, [first]), ("again, median", later)):
            if starts:
                cells = [f"{statistics.median(column):.1f}" for column in zip(*starts, strict=True)]
                lines.append(f"| {version} | {name} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", default="", help="a commit of this repository")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--new-machine", action="store_true", help="empty caches before every start")
    parser.add_argument("--data", default="", help="a data set's yaml; its .yolofast folder goes with --new-machine")
    parser.add_argument("--epochs", default="2")
    parser.add_argument("--cfg", default="yolov7-tiny")
    parser.add_argument("--img", default="320")
    parser.add_argument("--batch", default="64")
    parser.add_argument("--pictures", type=int, default=512)
    parser.add_argument("--device", default="")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        code = versions(asked.against, folder / "against")
        data = Path(asked.data).resolve() if asked.data else make_shapes(folder / "shapes", n=asked.pictures)
        words = [
            "train", "--data", str(data), "--cfg", asked.cfg, "--weights=", "--img", asked.img,
            "--batch-size", asked.batch, "--epochs", asked.epochs, "--notest", "--no-plots",
            "--project", str(folder / "runs"), *(["--device", asked.device] if asked.device else []),
        ]  # fmt: skip
        starter = Starter(words, folder, Path(data).parent / ".yolofast", asked.new_machine)
        measured = in_turn(list(code), asked.rounds, lambda version: starter.start(code[version]))
        print("\n".join(rows(measured, "new machine" if asked.new_machine else "cold")))


if __name__ == "__main__":
    main()
