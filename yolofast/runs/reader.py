"""The reader of a run's folder, also of one that is half-finished or damaged.

Each file is read once, when it is first needed. One that exists and cannot be read is listed in `problems`, and the
rest is still shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from yolofast.errors import UserError, nearest_file
from yolofast.files.budget import read_bounded
from yolofast.files.known_numbers import known_number, parse_json
from yolofast.files.yaml_file import parse_yaml
from yolofast.runs.layout import (
    COUNTED_FROM,
    EPOCH,
    FILES,
    MAP,
    MAP50,
    MOTION_METRICS,
    best_place,
    fitness,
    motion_fitness,
)
from yolofast.runs.settings import FLAG_FILES, SETTINGS_FILES, tidy
from yolofast.runs.table import Columns, Floats, read_columns
from yolofast.runs.tracking import Agreement, TrackedRun, agreement, read_tracking

Ints = npt.NDArray[np.int64]

_MOST_BYTES = {".yaml": 8 * 2**20, ".json": 64 * 2**20}
_PER_CLASS = (FILES.evaluation, "per_class_ap.json", "per_class.json")
"""The latter two are common names for what `val --save-per-class-ap` writes."""
_ROUNDING = 1e-5
"""Of the scores in `results.csv`, relative to the best. Training compares more digits than it writes: of epochs that
are nearly equal there, any may be the one whose weights were saved."""


@dataclass(frozen=True)
class ClassScore:
    ap50: float
    ap: float


@dataclass(frozen=True)
class PhaseTime:
    name: str
    mean_ms: float
    std_ms: float
    share: float
    parallel: str = ""
    """Where it happens, if it runs in parallel to the step."""


@dataclass(frozen=True)
class StepProfile:
    phases: tuple[PhaseTime, ...]
    gear: str = ""
    gpu_busy: float | None = None
    """Share of the time."""


class RunFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[str] = []
        """Files that exist and cannot be read."""
        self._read: dict[str, Any] = {}

    @cached_property
    def results(self) -> Columns:
        """A row per epoch: `UserError` if there is none."""
        if not self.path.is_dir():
            what = f"there is no such folder{nearest_file(self.path)}"
            raise UserError(what, where=self.path, fix="name a run's folder: runs/train/exp")
        path = self.path / FILES.results
        if not path.is_file():
            fix = "name the folder of a run that has trained an epoch"
            raise UserError(f"has no {FILES.results}", where=self.path, fix=fix)
        return read_columns(path)

    @cached_property
    def batches(self) -> Columns | None:
        """A row per batch; older runs have none."""
        path = self.path / FILES.batches
        if not path.is_file():
            return None
        try:
            return read_columns(path)
        except UserError as error:
            self.problems.append(f"{path.name} {error.what}: it is left out")
            return None

    @property
    def args(self) -> Mapping[str, Any]:
        return self.entries(FILES.settings)

    @property
    def hyp(self) -> Mapping[str, Any]:
        return self.entries(FILES.hyp)

    @property
    def environment(self) -> Mapping[str, Any]:
        return self.entries(FILES.environment)

    @property
    def evaluation(self) -> Mapping[str, Any]:
        return self.entries(FILES.evaluation)

    @property
    def profile(self) -> Mapping[str, Any]:
        return self.entries(FILES.profile)

    @property
    def tracking(self) -> TrackedRun | None:
        """How well its checkpoints track; None if nobody has asked."""
        values = self.entries(FILES.tracking)
        found = read_tracking(values)
        if values and found is None:
            problem = f"{FILES.tracking} has no epochs that can be read"
            self.problems += [] if problem in self.problems else [problem]
        return found

    @property
    def samples(self) -> list[Mapping[str, Any]]:
        rows = self._content(f"{FILES.samples}/{FILES.samples_list}", list)
        return [row for row in rows if isinstance(row, dict)]

    @property
    def summary(self) -> Mapping[str, Any]:
        return self.summary_of(len(self.results))

    def summary_of(self, epochs: int) -> Mapping[str, Any]:
        """What the run writes at its end, its best epoch from 1; empty if that is of another number of epochs.

        A run that ended, was resumed for more epochs and then killed has the summary of its earlier end.
        """
        values = self.entries(FILES.summary)
        if values.get("epochs", epochs) != epochs:
            return {}
        if "best_epoch" not in values:
            return values
        return {**values, "best_epoch": epoch_of(values, "best_epoch"), COUNTED_FROM: 1}

    def read_all(self) -> "RunFolder":
        """So that `problems` is complete. Raises `UserError` only if the results are missing."""
        _ = self.results, self.samples, self.batches, self.args, self.hyp, self.environment, self.summary
        _ = self.evaluation, self.profile, self.tracking
        return self

    def tracking_and_map(self) -> Agreement | None:
        """Its tracked epochs beside their mAP."""
        tracked = self.tracking
        return None if tracked is None else agreement(tracked, self.epochs().tolist(), self.column(MAP.name).tolist())

    def settings(self) -> dict[str, Any]:
        """Hyper-parameters and flags, of whichever trainer, under the names its files have.

        Those that are not set are left out. Flags are above what a recipe says, but one that is off leaves its
        multi-scale training on.
        """
        values: dict[str, Any] = {}
        for name in SETTINGS_FILES:
            given = {str(key): value for key, value in self.entries(name).items() if value is not None}
            values |= given | ({"multi_scale": True} if values.get("multi_scale") else {})
        return values

    def tidy_flags(self) -> dict[str, Any]:
        """The run's flags, of whichever trainer, under our names."""
        return {key: value for name in FLAG_FILES for key, value in tidy(self.entries(name)).items()}

    def tidy_hyp(self) -> dict[str, Any]:
        return tidy(self.hyp)

    def epochs(self) -> Floats:
        """Their numbers from 1, as people count."""
        return self.results.numbers(EPOCH.name) + 1

    def column(self, name: str) -> Floats:
        """A value per epoch, NaN where it is not known."""
        results = self.results
        return results.numbers(name) if name in results else np.full(len(results), np.nan)

    def fitness(self) -> Floats:
        if MOTION_METRICS[0].name in self.results:
            return motion_fitness([self.column(one.name) for one in MOTION_METRICS])
        return fitness(self.column(MAP50.name), self.column(MAP.name))

    def best_row(self) -> int | None:
        """The epoch whose weights are `best.pt`; None if nothing was evaluated."""
        return best_place(self.fitness())

    def classes(self) -> dict[str, ClassScore]:
        """As `val --save-per-class-ap` writes them: `per_class: {id: {ap50, ap, name}}`."""
        for name in _PER_CLASS:
            if found := _classes(self.entries(name).get("per_class")):
                return found
        return {}

    def classes_epoch(self) -> int | None:
        """The epoch of those scores, from 1; None if unknown, as in a file that `val` has written."""
        return epoch_of(self.evaluation) if _classes(self.evaluation.get("per_class")) else None

    def validated(self) -> tuple[int | None, int | None]:
        """Images and boxes of the validation set, where the run has counted them."""
        images, rows = self.evaluation.get("images"), self.evaluation.get("per_class")
        counts = [row.get("boxes") for row in rows.values() if isinstance(row, dict)] if isinstance(rows, dict) else []
        boxes = sum(count for count in counts if isinstance(count, int))
        return images if isinstance(images, int) else None, boxes or None

    def step_profile(self) -> StepProfile | None:
        """Malformed entries are omitted."""
        values = self.profile
        rows = values.get("phases")
        phases = [_phase(row) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
        known = tuple(phase for phase in phases if phase is not None)
        if not known:
            if values:
                self.problems.append(f"{FILES.profile} has no phases")
            return None
        return StepProfile(known, str(values.get("gear") or ""), known_number(values.get("gpu_busy")))

    def entries(self, name: str) -> Mapping[str, Any]:
        """Of a file of JSON or YAML; empty where there is none, or none that can be read."""
        found: Mapping[str, Any] = self._content(name, dict)
        return found

    def _content(self, name: str, kind: type[Any]) -> Any:
        if name not in self._read:
            path = self.path / name
            self._read[name] = _read(path, kind, self.problems) if path.is_file() else kind()
        return self._read[name]


def parse_entries(name: str, content: bytes) -> tuple[Any, list[str]]:
    """The content of a file, and its numbers that are not finite; settings may be infinite.

    Raises ValueError or RecursionError for what is neither JSON nor YAML.
    """
    text = content.decode("utf-8")
    return (parse_yaml(text, None).values, []) if name.endswith(".yaml") else parse_json(text)


def _read(path: Path, kind: type[Any], problems: list[str]) -> Any:
    """The content, or an empty one."""
    try:
        if path.stat().st_size > _MOST_BYTES[path.suffix]:
            raise ValueError("it is too large")
        content, unknown = parse_entries(path.name, read_bounded(path, _MOST_BYTES[path.suffix]))
        if not isinstance(content, kind):
            raise ValueError(f"not a {kind.__name__}")
    except (OSError, ValueError, RecursionError) as error:
        why = error.what if isinstance(error, UserError) else str(error)
        problems.append(f"{path.name} cannot be read and is left out: {why[:200]}")
        return kind()
    if unknown:
        problems.append(f"{path.name} says {', '.join(unknown[:3])}, which cannot be measured and is left out")
    return content


def _classes(listed: Any) -> dict[str, ClassScore]:
    listed = dict(enumerate(listed)) if isinstance(listed, list) else listed
    scores: dict[str, ClassScore] = {}
    for key, row in listed.items() if isinstance(listed, dict) else ():
        if not isinstance(row, dict):
            continue
        ap50, ap = known_number(row.get("ap50")), known_number(row.get("ap"))
        if ap50 is not None and ap is not None:
            scores[str(row.get("name", key))] = ClassScore(ap50, ap)
    return scores


def _phase(row: Mapping[str, Any]) -> PhaseTime | None:
    mean, std, share = (known_number(row.get(key)) for key in ("mean_ms", "std_ms", "share"))
    if "name" not in row or mean is None:
        return None
    nan = float("nan")
    parallel = str(row.get("beside") or "")
    return PhaseTime(str(row["name"]), mean, nan if std is None else std, nan if share is None else share, parallel)


def epoch_of(values: Mapping[str, Any], key: str = "epoch") -> int | None:
    """The epoch that a file of JSON names, from 1; None if it names none, as in older folders.

    Files of earlier versions count from 0.
    """
    number, first = values.get(key), values.get(COUNTED_FROM, 0)
    if not all(isinstance(one, int) and not isinstance(one, bool) for one in (number, first)) or number < first:
        return None
    return int(number - first + 1)


def of_another_epoch(evaluated: int | None, epochs: Ints | Floats, fitness: Floats, *, nosave: bool) -> str:
    """The words after "this is"; empty if it is of the best epoch, or of an unknown one.

    `evaluation.json` and `samples/` are written when a run ends or is interrupted. A run that was then resumed, got
    better and was killed has them of an epoch that is no longer the best. `epochs` are numbered from 1.
    """
    best = best_place(fitness)
    if evaluated is None or best is None or epochs[best] == evaluated:
        return ""
    gap = fitness[best] - fitness[epochs == evaluated]
    if (gap <= _ROUNDING * fitness[best]).any():
        return ""
    as_requested = nosave and evaluated == epochs[-1]
    why = "--nosave keeps the last weights alone" if as_requested else "the run has not ended since (train --resume)"
    return f"of epoch {evaluated} and not of epoch {epochs[best]:.0f}, the best one in {FILES.results}: {why}"
