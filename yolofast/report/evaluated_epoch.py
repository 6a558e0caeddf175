"""Which epoch a detailed evaluation in a run's folder is of, and what has to be said where that is not the best one.

`evaluation.json` and `samples/` are written when a run ends or is interrupted. A run that then went on, got better and
was killed has them of an epoch that is the best no more.
"""

from collections.abc import Mapping
from typing import Any

from yolofast.report.history import Floats, Ints, best_place

_ROUNDING = 1e-5
"""Of the scores in `results.csv`, in parts of the best. Training compares more digits than it writes: of epochs that
are equal there, or nearly, any may be the one it kept; where they are equal indeed, so are their scores."""


def epoch_of(values: Mapping[str, Any]) -> int | None:
    """From 1, where the file counts from 0 as `results.csv` does; None if it does not say, as in older folders."""
    number = values.get("epoch")
    return number + 1 if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else None


def of_another_epoch(evaluated: int | None, epochs: Ints | Floats, fitness: Floats, *, nosave: bool) -> str:
    """The words that go on after "this is"; empty where it is of the best epoch, or nobody knows of which.

    `epochs` are numbered from 1, `fitness` is that of each.
    """
    best = best_place(fitness)
    if evaluated is None or best is None or epochs[best] == evaluated:
        return ""
    gap = fitness[best] - fitness[epochs == evaluated]
    if (gap <= _ROUNDING * fitness[best]).any():
        return ""
    as_asked = nosave and evaluated == epochs[-1]
    why = "--nosave keeps the last weights alone" if as_asked else "the run has not ended since (train --resume)"
    return f"of epoch {evaluated} and not of epoch {epochs[best]:.0f}, the best one in results.csv: {why}"
