"""What differs between runs and what was held equal: flags, hyper-parameters, environment.

An entry that only runs of one trainer state is listed apart: others write other files, and silence is no difference.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from yolofast.report.compare.compared_run import ComparedRun

SEED = "seed"
NAMES = frozenset((
    "name", "project", "save_dir", "exist_ok", "resume", "entity", "upload_dataset", "artifact_alias", "bucket",
    "local_rank", "global_rank", "bbox_interval", "save_period", "save", "plots", "verbose", "nosave", "explain",
    "print_stage_summary", "mode", "task", "until_epoch", "time_limit",
))  # fmt: skip
"""They change what a run is called or leaves behind, not what it learns."""
PACE = frozenset((
    "workers", "device", "cache", "loader", "gear", "persistent_workers", "worker_tensor", "fast_dataloader",
    "test_batch_size", "profile_every", "profile", "compile", "cpu", "cpu_cores", "memory_gib", "gpu", "gpus",
    "gpu_memory_gib", "platform",
))  # fmt: skip
"""They change how fast it learns it."""
ARGS, HYP, ENVIRONMENT = "flags", "hyper-parameters", "environment"
_KINDS = ("learning", "pace", "versions", "seed", "names")


@dataclass(frozen=True)
class Difference:
    where: str
    key: str
    values: tuple[Any, ...]
    """One per run; `UNSAID` where its files do not say it."""
    kind: str
    """What it matters for: one of `_KINDS`."""


class _Unsaid:
    def __repr__(self) -> str:
        return "–"


UNSAID = _Unsaid()


@dataclass(frozen=True)
class Differences:
    differ: tuple[Difference, ...]
    equal: tuple[Difference, ...]
    """`values` has one entry: that of all."""
    partly: tuple[Difference, ...]
    """Some runs state it and agree."""

    @property
    def that_matter(self) -> tuple[Difference, ...]:
        return tuple(one for one in self.differ if one.kind not in ("seed", "names"))


def find_differences(runs: Sequence[ComparedRun]) -> Differences:
    hyp = {"assigner", *(key for run in runs for key in run.hyp)}
    sides = (
        (ARGS, [{key: value for key, value in run.settings.items() if key not in hyp} for run in runs]),
        (HYP, [{key: value for key, value in run.settings.items() if key in hyp} for run in runs]),
        (ENVIRONMENT, [run.environment for run in runs]),
    )
    differ, equal, partly = [], [], []
    for where, files in sides:
        for key in sorted({key for values in files for key in values}):
            one = Difference(where, key, tuple(values.get(key, UNSAID) for values in files), kind_of(key, where))
            said = [value for value in one.values if value is not UNSAID]
            if not all(same(value, said[0]) for value in said) or _left_out(runs, files, key):
                differ.append(one)
            elif len(said) < len(one.values):
                partly.append(one)
            else:
                equal.append(Difference(where, key, (said[0],), one.kind))
    differ.sort(key=lambda one: _KINDS.index(one.kind))
    return Differences(tuple(differ), tuple(equal), tuple(partly))


def _left_out(runs: Sequence[ComparedRun], files: Sequence[Mapping[str, Any]], key: str) -> bool:
    """One run says it, another by the same trainer, with such a file, does not: there it was not a setting yet."""
    silent = {run.format for run, values in zip(runs, files, strict=True) if values and key not in values}
    return any(key in values and run.format in silent for run, values in zip(runs, files, strict=True))


def kind_of(key: str, where: str = ARGS) -> str:
    named = "names" if key in NAMES else "pace" if key in PACE else "seed" if key == SEED else ""
    return named or ("versions" if where == ENVIRONMENT else "learning")


def same(one: Any, other: Any) -> bool:
    """1 and 1.0 are the same; so are two nan."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other):
        return True
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
