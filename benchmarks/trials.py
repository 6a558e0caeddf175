"""Training runs in processes that each train one after the other, and a file of what came out of them.

Programs, kernels and the device are loaded once per process; pixels are decoded once and lie in a file that every run
maps. What is captured belongs to one run. A trial is known by its settings, its seed and the names of its images: the
file can be taken to another machine, where what it has is not trained again. It grows by a line as soon as a trial is
complete, so whatever ends the study costs the trials that were under way and no other.
"""

import contextlib
import gc
import hashlib
import json
import math
import multiprocessing
import os
import sys
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any

import torch

from yolofast._version import __version__
from yolofast.config.flags import from_settings, resolve
from yolofast.config.hyp import with_set_values
from yolofast.config.train import TrainConfig
from yolofast.dataset.split import read_split
from yolofast.errors import LostDeviceError, UserError, in_one_line
from yolofast.runs.layout import MAP, TIME
from yolofast.runs.reader import RunFolder
from yolofast.train.session import train

_LEAST_SECONDS = 20
"""Left, with which a trial is still begun."""
_QUICK = {"plots": False, "nosave": True}
_MOST_TRIES = 2
Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Course:
    """Of one run, by epoch."""

    epochs: list[int]
    """As people count them."""
    seconds: list[float]
    """Of training, without evaluation."""
    maps: list[float]
    """NaN where it was not evaluated."""

    def to(self, target: float) -> tuple[int, float] | None:
        """Epochs and seconds until the target is reached; None if it never is."""
        reached = (n for n, value in enumerate(self.maps) if value >= target)
        place = next(reached, None)
        return None if place is None else (self.epochs[place], self.seconds[place])


@dataclass(frozen=True)
class DataSet:
    path: Path
    name: str
    """Of its images' names and classes, wherever they lie."""
    images: int
    """To train on."""

    @staticmethod
    def of(path: Path) -> "DataSet":
        splits = [read_split(path, split) for split in ("train", "val")]
        images = [[index.path(n).name for n in range(len(index))] for index in splits]
        words = json.dumps([*images, list(splits[0].names)])
        return DataSet(path, hashlib.sha256(words.encode()).hexdigest()[:12], len(splits[0]))


@dataclass(frozen=True)
class Trial:
    recipe: str
    seed: int
    settings: Settings
    data: DataSet

    @property
    def key(self) -> str:
        """A recipe that was edited is another one, with trials of its own, whatever it is called."""
        words = json.dumps([self.settings, self.data.name, self.seed], sort_keys=True)
        return hashlib.sha256(words.encode()).hexdigest()[:12]

    @property
    def epochs(self) -> int:
        if type(self.settings.get("epochs")) is not int:
            raise UserError(f"{self.recipe} says no epochs", fix="give them in the file, or by --set epochs=100")
        return from_settings(TrainConfig, with_set_values(self.settings)).epochs

    @property
    def folder(self) -> str:
        return f"{self.recipe.replace(' + ', '-with-').replace(' - ', '-without-')}-{self.seed}-{self.key[:6]}"


@dataclass
class TrialsFile:
    """Lines of JSON: `key`, `recipe`, `seed`, `settings`, the course, and where it was trained."""

    path: Path
    courses: dict[str, Course] = field(default_factory=dict)
    walls: dict[int, float] = field(default_factory=dict)
    """Longest time of a trial with so many epochs that this process has seen, in seconds."""

    def __post_init__(self) -> None:
        for line in self._lines():
            with contextlib.suppress(ValueError, KeyError, TypeError):  # the last one may have been cut off
                said = json.loads(line)
                maps = [math.nan if one is None else float(one) for one in said["maps"]]
                self.courses[said["key"]] = Course(said["epochs"], said["seconds"], maps)

    def _lines(self) -> list[str]:
        return self.path.read_text("utf-8").splitlines() if self.path.exists() else []

    def add(self, trial: Trial, course: Course, wall: float, at_once: int) -> None:
        """Whoever is killed afterwards has it."""
        self.courses[trial.key] = course
        self.walls[trial.epochs] = max(wall, self.walls.get(trial.epochs, 0.0))
        said = {
            "key": trial.key, "recipe": trial.recipe, "seed": trial.seed, "data": trial.data.name,
            "epochs": course.epochs, "seconds": [round(one, 3) for one in course.seconds],
            "maps": [None if math.isnan(one) else round(one, 6) for one in course.maps],
            "wall": round(wall, 1), "at_once": at_once, "device": device_name(), "yolofast": __version__,
            "torch": torch.__version__, "settings": dict(trial.settings),
        }  # fmt: skip
        self.path.parent.mkdir(parents=True, exist_ok=True)
        is_cut_off = self.path.exists() and self.path.read_bytes()[-1:] not in (b"", b"\n")
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n" * is_cut_off + json.dumps(said) + "\n")
            file.flush()
            os.fsync(file.fileno())


def device_name() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else f"{os.cpu_count()} cores"


def train_all(trials: Sequence[Trial], out: Path, file: TrialsFile, at_once: int, deadline: float) -> bool:
    """Those that are not in the file yet; whether all are now. `deadline` is by `time.time`."""
    waiting = deque(trial for trial in trials if trial.key not in file.courses)
    tries: Counter[str] = Counter()
    while waiting and _has_time(waiting[0], file, deadline):
        for trial in _in_one_pool(waiting, out, file, at_once, deadline):
            tries[trial.key] += 1  # its process, or one beside it, has died
            if tries[trial.key] < _MOST_TRIES:
                waiting.append(trial)
    return all(trial.key in file.courses for trial in trials)


def _in_one_pool(waiting: deque[Trial], out: Path, file: TrialsFile, at_once: int, deadline: float) -> Iterator[Trial]:
    """Yields those that were under way when a process died; the pool is gone then."""
    running: dict[Future[tuple[Course | None, float, str]], Trial] = {}
    with ProcessPoolExecutor(at_once, multiprocessing.get_context("spawn"), _end_with_parent) as pool:
        while running or (waiting and _has_time(waiting[0], file, deadline)):
            while waiting and len(running) < at_once and _has_time(waiting[0], file, deadline):
                trial = waiting.popleft()
                running[pool.submit(run, trial, out / trial.folder, deadline)] = trial
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                trial = running.pop(done)
                try:
                    course, wall, error = done.result()
                except BrokenProcessPool:
                    yield from (trial, *running.values())
                    return
                if course is not None:
                    file.add(trial, course, wall, at_once)
                    said = f"mAP50-95 {100 * course.maps[-1]:.2f} %, {wall:.0f} s"
                print(f"{trial.recipe}, seed {trial.seed}: {error or said}", file=sys.stderr, flush=True)


def _has_time(trial: Trial, file: TrialsFile, deadline: float) -> bool:
    """Whether it is likely to end in time: on a machine that is given back, half a trial is worth nothing."""
    per_epoch = max((wall / epochs for epochs, wall in file.walls.items()), default=0.0)
    return deadline - time.time() > max(_LEAST_SECONDS, per_epoch * trial.epochs)


def run(trial: Trial, folder: Path, deadline: float) -> tuple[Course | None, float, str]:
    """In a process that may have trained others before: the course if it is complete, seconds, and what went wrong.

    What the run has to say stands in a file beside its folder.
    """
    began, left = time.time(), deadline - time.time()
    folder.parent.mkdir(parents=True, exist_ok=True)
    limit = {} if math.isinf(left) else {"time_limit": f"{max(left, 1):.0f}s"}
    own = {"data": str(trial.data.path), "seed": trial.seed, "project": str(folder.parent), "name": folder.name}
    error = ""
    with (
        folder.with_suffix(".log").open("a") as log,
        contextlib.redirect_stdout(log),
        contextlib.redirect_stderr(log),
    ):
        try:
            settings = with_set_values({**_QUICK, **trial.settings, **own, "resume": "auto", **limit})
            config = from_settings(TrainConfig, settings)
            given = {resolve(TrainConfig, key, value)[0] for key, value in settings.items()}
            train(config, {name: getattr(config, name) for name in given})
        except LostDeviceError:
            traceback.print_exc()
            log.flush()
            os._exit(1)  # no run of this process will reach the device again
        except UserError as fault:
            error = str(fault)
        except (RuntimeError, ArithmeticError, LookupError, ValueError, TypeError, AssertionError, OSError) as fault:
            # A defect: the other recipes are to be tried all the same.
            traceback.print_exc()
            error = in_one_line(fault)
        finally:
            gc.collect()
            torch.cuda.empty_cache()
    course = course_of(folder, trial.epochs)
    return course, time.time() - began, error or ("" if course else "paused")


def course_of(folder: Path, epochs: int) -> Course | None:
    """Of a run that is complete."""
    try:
        found = RunFolder(folder)
        numbers, seconds, maps = found.epochs(), found.column(TIME.name), found.column(MAP.name)
    except UserError:
        return None
    done = Course([int(n) for n in numbers], [float(s) for s in seconds], [float(m) for m in maps])
    return done if len(done.epochs) == epochs else None


def _end_with_parent() -> None:
    """A parent that is killed leaves nobody behind who would train on in its folders."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def look() -> None:
        wait_for([parent.sentinel])
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


_STEP_MS = {"yolov7-tiny": (2.8, 0.085), "yolov7": (2.8, 0.39), "yolox-nano": (2.8, 0.085), "yolox-s": (2.8, 0.18)}
"""Of a step on one H200: at any size, and for each image of 320 pixels. Of yolov7-tiny from batches of 64 and 384, of
yolov7 and yolox-s from 64 (`results/2026-11-18-train-h200.md`); yolox-nano is a guess."""
_BEGIN_SECONDS, _TRIAL_SECONDS, _EVALUATION_SECONDS = 40.0, 6.0, 0.5
"""Of processes that begin side by side on a new machine; of each trial (capturing, opening files, reporting); of an
evaluation. The host's, mostly."""


def expected_seconds(settings: Settings, images: int) -> tuple[float, float]:
    """Of a trial on one H200: for which the device is busy, and those beside. No more than a guide."""
    config = from_settings(TrainConfig, with_set_values(settings))
    always, each = _STEP_MS.get(config.cfg, _STEP_MS["yolov7-tiny"])
    size, sizes = config.train_size / 320, settings.get("sizes", [[0, 1]])
    ends = [start for start, _ in sizes[1:]] + [1]
    area = sum((end - start) * share**2 for (start, share), end in zip(sizes, ends, strict=True)) * size**2
    batch = min(config.batch_size, images)
    steps = config.epochs * math.ceil(images / batch)
    evaluations = 1 if config.notest else config.epochs
    return steps * (always + each * batch * area) / 1000, _TRIAL_SECONDS + evaluations * _EVALUATION_SECONDS


def expected_minutes(trials: Sequence[Trial], at_once: int) -> float:
    """Of all of them: what the device is busy with one after the other, what the host does side by side."""
    if not trials:
        return 0.0
    known = {trial.recipe: expected_seconds(trial.settings, trial.data.images) for trial in trials}
    busy = sum(known[trial.recipe][0] for trial in trials)
    beside = sum(known[trial.recipe][1] for trial in trials)
    return (_BEGIN_SECONDS + max(busy, (busy + beside) / at_once)) / 60
