"""Which lines of a log are of its last run: trainers go on writing into a log that is there already.

A run that begins with the first epoch again is another one, and nothing of the earlier is left. One that was resumed
goes on near where it stopped, and replaces only the epochs it repeats. Within an epoch a falling iteration tells both.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median

_NO_RUNS = "; if these are epochs of one run, a column `epoch` says so"


def last_run(
    epochs: Sequence[int], iterations: Sequence[float] = (), unit: str = "epoch"
) -> tuple[int, tuple[str, ...]]:
    """Its first line, and what has to be said of others.

    `epochs`: that of each line, in the order of the log; `iterations` count within an epoch or through all. Of a log
    without epochs its iterations are given in their place, with that `unit`: it is read from where they last started.
    """
    keys = list(zip(epochs, iterations or [0] * len(epochs), strict=True))
    falls = [place for place, (before, now) in enumerate(pairwise(keys), start=1) if now < before]
    starts = [0]
    for place in falls:
        if epochs[place] <= epochs[starts[-1]]:
            starts.append(place)
    first = starts[-1]
    remarks = []
    if first:
        remarks.append(
            f"the log holds {len(starts)} runs, and the last one is read: after {unit} {epochs[first - 1]} it begins "
            f"with {unit} {epochs[first]} again{_NO_RUNS if unit == 'iteration' else ''}"
        )
    if falls and falls[-1] > first:
        again, last = falls[-1], max(epochs[falls[-1] :])
        rest = f"; what comes after {unit} {last} is of before" if last < max(epochs[first:]) else ""
        remarks.append(
            f"the run went on with {unit} {epochs[again]} after {unit} {epochs[again - 1]}: of {unit}s it repeated the "
            f"last ones are read{rest}"
        )
    return first, tuple(remarks)


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
