"""How long a training takes from being typed to its first update, and what with (`yolofast profile --startup`).

The real command is started in a process of its own, which ends after the first update. There the functions of `STAGES`
are wrapped when the command has been imported. So a training that nobody measures has nothing of it, not even a mark.
The time of a stage that another one is part of counts for the inner one.

This module runs before the command's imports, which it times: it imports none of them itself.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

from yolofast.errors import UserError

PYTHON, IMPORTS, BATCH, UPDATE, REST = "Python and flags", "imports", "first batch", "first update", "everything else"
_TRAIN = "yolofast.commands.train:run"
_RUN, _SESSION, _GEARS = "yolofast.train.run", "yolofast.train.session", "yolofast.train.gears"
STAGES = (
    ("reading the data set", _RUN, "read_data"),
    ("building the network", _RUN, "prepare_model"),
    ("fitting anchors", _RUN, "fit_anchors"),
    ("optimizer and loss", _RUN, "prepare_step"),
    ("opening the store", "yolofast.train.data", "open_images_together"),
    ("opening the store", "yolofast.train.evaluation", "open_images_together"),
    ("preparing batches", _RUN, "prepare_batches"),
    ("preparing batches", _RUN, "validation_of"),
    ("making the run's folder", _SESSION, "_folder_with_settings"),
    ("choosing a gear", _SESSION, "gear_of"),
    ("records and loggers", _SESSION, "_ready_trainer"),
    ("drawing the labels", "yolofast.train.run_pictures:RunPictures", "labels"),
    ("compiling kernels", f"{_GEARS}.gear_box", "compile_kernels_together"),
    ("compiling and capturing", f"{_GEARS}.gears", "_Captured"),
    ("compiling and capturing", f"{_GEARS}.gear_box", "compiled_loss_of"),
)
"""What is timed: its name, and the function by the module that calls it, or by its class."""
_STARTS = 2
"""The first one may meet caches that are cold."""


@dataclass(frozen=True)
class StartStage:
    name: str
    begin: float
    """Seconds after the command was typed; the first time, if it comes several times."""
    seconds: float


@dataclass(frozen=True)
class StartUp:
    stages: tuple[StartStage, ...]
    seconds: float
    """Until the first update was done."""

    def of(self, name: str) -> float:
        return sum(stage.seconds for stage in self.stages if stage.name == name)


def measure_starts(words: Sequence[str]) -> tuple[StartUp, ...]:
    """Of `yolofast train` with the words that `yolofast profile` was called with; one after the other.

    Nothing is left behind. Where the training fails, this process ends with its exit code: it has said why.
    """
    with tempfile.TemporaryDirectory(prefix="yolofast-startup-") as folder:
        return tuple(_started(words, Path(folder) / str(number)) for number in range(_STARTS))


def _started(words: Sequence[str], folder: Path) -> StartUp:
    folder.mkdir()
    result = folder / "start.json"
    command = [sys.executable, "-m", __name__, repr(time.time()), str(folder), *words]
    ended = subprocess.run(command, stdout=subprocess.DEVNULL)
    if not result.exists() and ended.returncode:
        raise SystemExit(ended.returncode)
    if not result.exists():
        what = "the command ended before a first update"
        raise UserError(what, fix="omit what does not train, such as --explain or DIAGNOSE_COMPILE")
    found = json.loads(result.read_text())
    return StartUp(tuple(StartStage(**stage) for stage in found["stages"]), found["seconds"])


def startup_rows(starts: Sequence[StartUp]) -> Iterator[tuple[str, ...]]:
    """Name, when it began in the first start, and the seconds it took in each."""
    for stage in starts[0].stages:
        yield stage.name, f"{stage.begin:.2f}", *(f"{start.of(stage.name):.2f}" for start in starts)
    yield "until the first update", "", *(f"{start.seconds:.2f}" for start in starts)


def startup_line(starts: Sequence[StartUp]) -> str:
    """What takes longest once caches are warm."""
    last = starts[-1]
    longest = max(last.stages, key=lambda stage: stage.seconds)
    share = longest.seconds / last.seconds
    return f"longest: {longest.name}, {longest.seconds:.2f} of {last.seconds:.2f} s ({share:.0%})"


def startup_json(starts: Sequence[StartUp]) -> dict[str, Any]:
    return {"starts": [asdict(start) for start in starts]}


class _Timeline:
    """Where the time since `typed` went: always to the innermost stage."""

    def __init__(self, typed: float) -> None:
        self._typed, self._last = typed, typed
        self._seconds: dict[str, float] = {}
        self._begins: dict[str, float] = {}
        self._within = [PYTHON]
        self._begins[PYTHON] = 0.0

    def _count(self) -> None:
        now, name = time.time(), self._within[-1]
        self._seconds[name] = self._seconds.get(name, 0.0) + now - self._last
        self._last = now

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self._count()
        self._begins.setdefault(name, self._last - self._typed)
        self._within.append(name)
        try:
            yield
        finally:
            self._count()
            self._within.pop()

    def flags_are_read(self) -> None:
        self._count()
        self._within[0] = REST
        self._begins[REST] = self._last - self._typed

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def inside(*arguments: Any, **named: Any) -> Any:
            with self.stage(name):
                return function(*arguments, **named)

        return inside

    def found(self) -> StartUp:
        self._count()
        names = sorted(self._seconds, key=lambda name: (name == REST, self._begins[name]))
        return StartUp(
            tuple(StartStage(name, self._begins[name], self._seconds[name]) for name in names), self._last - self._typed
        )


class _FirstUpdateDone(SystemExit):
    """Everything is let go of on the way out, and nothing more is said or written."""


def _place(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name) if name else import_module(module)


def _watch(timeline: _Timeline, result: Path) -> None:
    """Wraps what is timed; the training is over after its first update."""
    for name, where, function in STAGES:
        place = _place(where)
        setattr(place, function, timeline.timed(name, getattr(place, function)))
    import torch

    loop, session = import_module("yolofast.train.loop"), import_module("yolofast.train.session")
    session.choose_loggers = lambda request: ()  # type: ignore[attr-defined]  # others are not told of a trial
    turn = loop.turn

    def first_turn(run: Any, fetch: Callable[[], Any], *more: Any, **named: Any) -> Any:
        with timeline.stage(UPDATE):
            made = turn(run, timeline.timed(BATCH, fetch), *more, **named)
            if torch.cuda.is_available():
                torch.cuda.synchronize()
        if made.kind.updates:
            result.write_text(json.dumps(asdict(timeline.found())))
            raise _FirstUpdateDone(0)
        return made

    loop.turn = first_turn  # type: ignore[attr-defined]


def _train(typed: float, folder: Path, words: Sequence[str]) -> int:
    timeline = _Timeline(typed)
    cli: Any = import_module("yolofast.cli")
    exit_codes: Any = import_module("yolofast.exit_codes")
    from yolofast.files.threads import still_reading_ahead

    parse, find = cli.parse, exit_codes.found

    def parsed(argv: Sequence[str]) -> Any:
        args = parse(argv)
        args.run, args.project = _TRAIN, str(folder / "runs")
        timeline.flags_are_read()
        return args

    def found(where: str) -> Any:
        with timeline.stage(IMPORTS):
            command = find(where)
        _watch(timeline, folder / "start.json")
        return command

    cli.parse, exit_codes.found = parsed, found
    try:
        code: int = cli.main(words)
    except _FirstUpdateDone:
        code = exit_codes.EXIT_OK
    if still_reading_ahead():
        exit_codes.end_at_once(code)
    return code


if __name__ == "__main__":
    sys.exit(_train(float(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
