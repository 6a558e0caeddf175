"""What of a sequence is scored: marks of the truth, and the rules of a benchmark.

`none` and `mot15`: boxes of the truth whose mark is not 0, all results. `mot17` and `mot20`: only pedestrians count;
results that match a distractor (a person on a vehicle, a static person, a reflection …) are dropped, so neither finding
nor missing those costs anything.
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from yolofast.errors import UserError, nearest, shorten
from yolofast.track.formats.sequence import Ints, Sequence
from yolofast.track.score.pairs import EPS, Pairs, overlapping

Benchmark = Literal["none", "mot15", "mot17", "mot20"]
BENCHMARKS: tuple[str, ...] = get_args(Benchmark)
_PEDESTRIAN = 1
_DISTRACTORS = {"mot17": (2, 7, 8, 12), "mot20": (2, 6, 7, 8, 12)}
_MATCH = 0.5 - EPS


@dataclass(frozen=True, eq=False)
class Prepared:
    """Truth and results of one sequence, with identities numbered from 0, and which boxes overlap."""

    truth: Sequence
    results: Sequence
    pairs: Pairs
    truth_id: Ints
    result_id: Ints
    """[n] of each box, its place among the ids."""
    truth_ids: Ints
    result_ids: Ints
    """What the files call them."""

    @property
    def truth_counts(self) -> Ints:
        """Boxes of each identity."""
        return np.bincount(self.truth_id, minlength=len(self.truth_ids))

    @property
    def result_counts(self) -> Ints:
        return np.bincount(self.result_id, minlength=len(self.result_ids))


def prepare(truth: Sequence, results: Sequence, benchmark: str = "none", *, label: int | None = None) -> Prepared:
    """`label`: only boxes of that class, on both sides."""
    check_benchmark(benchmark)
    length = max(truth.length, results.length)
    truth, results = replace(truth, length=length, files=()), replace(results, length=length, files=())
    if label is not None:
        truth, results = (one.kept(one.label == label) for one in (truth, results))
    if benchmark in _DISTRACTORS:
        truth, results = _without_distractors(truth, results, benchmark)
    else:
        truth = truth.kept(truth.mark)
    truth_ids, truth_id = np.unique(truth.id, return_inverse=True)
    result_ids, result_id = np.unique(results.id, return_inverse=True)
    return Prepared(truth, results, overlapping(truth, results), truth_id, result_id, truth_ids, result_ids)


def check_benchmark(benchmark: str) -> None:
    if benchmark not in BENCHMARKS:
        what = f"benchmark is {shorten(benchmark)}{nearest(str(benchmark), BENCHMARKS)}"
        raise UserError(what, fix=f"give one of {', '.join(BENCHMARKS)}")


def why_uncounted(truth: Sequence, benchmark: str) -> str | None:
    """Why nothing of this truth counts, though it has boxes."""
    marked = truth.label[truth.mark]
    if benchmark not in _DISTRACTORS or not len(marked) or (marked == _PEDESTRIAN).any():
        return None
    labels = [str(label) for label in np.unique(marked).tolist() if label >= 0]
    have = f"its classes (column 8) are {', '.join(labels[:10])}" if labels else "it has no classes (column 8)"
    fix = "score with --benchmark none, benchmark='none' in Python, or write the classes"
    return f"{have}, and {benchmark} counts class 1, pedestrians: none of its {len(marked):,} boxes counts; {fix}"


def _without_distractors(truth: Sequence, results: Sequence, benchmark: str) -> tuple[Sequence, Sequence]:
    if len(results) and results.label.max() > _PEDESTRIAN:
        what = f"{results.name}: results of class {results.label.max()}, but {benchmark} is about pedestrians, class 1"
        raise UserError(what, fix="leave results of other classes out, or score with benchmark none and classes")
    pairs = overlapping(truth, results).at_least(_MATCH)
    matched = pairs.assigned(lambda _, own: pairs.overlap[own])
    distracted = matched & np.isin(truth.label[pairs.truth], _DISTRACTORS[benchmark])
    kept = np.ones(len(results), np.bool_)
    kept[pairs.result[distracted]] = False
    return truth.kept(truth.mark & (truth.label == _PEDESTRIAN)), results.kept(kept)
