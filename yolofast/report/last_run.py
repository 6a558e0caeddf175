"""Which lines of a log are of its last run: trainers go on writing into a log that is there already.

A run that begins with the first epoch again is another one, and nothing of the earlier is left. One that was resumed
goes on near where it stopped, and replaces only the epochs it repeats. Within an epoch a falling iteration tells both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median


@dataclass(frozen=True)
class LastRun:
    first: int
    """Its first line."""
    remarks: tuple[str, ...] = ()


def last_run(epochs: Sequence[int], iterations: Sequence[float] = (), unit: str = "epoch") -> LastRun:
    """`epochs`: that of each line, in the order of the log; `iterations` count within an epoch or through all.

    Of a log without epochs its iterations are given in their place, with that `unit`.
    """
    keys = list(zip(epochs, iterations or [0] * len(epochs), strict=True))
    falls = [place for place, (before, now) in enumerate(pairwise(keys), start=1) if now < before]
    starts = [0]
    for place in falls:
        if epochs[place] <= epochs[starts[-1]]:
            starts.append(place)
    first = starts[-1]
    resumed = [place for place in falls if place > first]
    return LastRun(
        first,
        (*of_earlier_runs(epochs, starts, unit), *_of_resumes(epochs[first:], [p - first for p in resumed], unit)),
    )


def of_incomplete_epoch(totals: Mapping[tuple[int, int], int]) -> list[str]:
    """Epoch and iteration of the lines that were read -> of how many, by the line itself: the last epoch is incomplete
    if others of as many had room for another line. That may be the iterations of an epoch, or of the whole run."""
    total = totals[max(totals)]
    lines = sorted(line for line in totals if totals[line] == total)
    between = [now[1] - before[1] for before, now in pairwise(lines) if now[0] == before[0]]
    (epoch, end), furthest = lines[-1], max(iteration for _, iteration in lines)
    if not between or end + median(between) > furthest:
        return []
    return [f"epoch {epoch} is incomplete: it ends with iteration {end:,}, where others went on to {furthest:,}"]


def of_earlier_runs(epochs: Sequence[int], starts: list[int], unit: str) -> list[str]:
    """`starts` are the lines with which runs begin."""
    if len(starts) == 1:
        return []
    first = starts[-1]
    return [
        f"the log holds {len(starts)} runs, and the last one is read: after {unit} {epochs[first - 1]} it begins with "
        f"{unit} {epochs[first]} again"
    ]


def _of_resumes(epochs: Sequence[int], resumed: list[int], unit: str) -> list[str]:
    if not resumed:
        return []
    reached, last = max(epochs), max(epochs[resumed[-1] :])
    rest = f"; what comes after {unit} {last} is of before" if last < reached else ""
    again = f"went on with {unit} {epochs[resumed[-1]]} after {unit} {epochs[resumed[-1] - 1]}"
    return [f"the run {again}: of {unit}s it repeated the last ones are read{rest}"]
