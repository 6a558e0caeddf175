"""Which kind of run to take for what: the figure that counts there, who has the best of it, and how sure that is.

Nothing is measured here. A figure without a winner (not comparable, equal, within chance) decides nothing, and where
accuracies are equal within chance, the time decides.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from yolofast.report.compare import words
from yolofast.report.compare.compared_run import MAP, MAP50
from yolofast.report.compare.figures import HOURS, WEIGHTS, ComparedRow
from yolofast.report.compare.money import AtTheSameTime
from yolofast.runs.layout import PRECISION, RECALL

MEMORY = "GPU memory, GiB"
_WORTH = 0.05
"""Of time, memory and files: a smaller difference is no reason."""
_BY_FIGURE = {
    "the best boxes": (MAP, MAP50),
    "as few missed objects as possible": (RECALL.title,),
    "as few false boxes as possible": (PRECISION.title,),
    "the least training time": (HOURS,),
    "a smaller GPU": (MEMORY,),
    "a smaller file": (WEIGHTS,),
}
"""What for -> the figure that decides, or the one that is there."""
_ACCURACIES = (MAP, MAP50, RECALL.title, PRECISION.title)


@dataclass(frozen=True)
class UseAdvice:
    use: str
    take: str
    """The kind of run."""
    why: str

    def __str__(self) -> str:
        return f"for {self.use}: {self.take} ({self.why})"


def advise(
    names: Sequence[str], summary: Sequence[ComparedRow], at_the_same_time: Sequence[AtTheSameTime]
) -> list[UseAdvice]:
    """For kinds of run, by their names in the order of the figures; empty where nothing decides."""
    rows = {row.name: row for row in summary}
    return [*_by_figures(names, rows), *_in_short(rows, names, at_the_same_time), *_by_time(names, rows)]


def _by_figures(names: Sequence[str], rows: dict[str, ComparedRow]) -> Iterator[UseAdvice]:
    for use, figures in _BY_FIGURE.items():
        row = next((rows[name] for name in figures if name in rows), None)
        if row is None or row.winner is None or (row.name in (HOURS, MEMORY, WEIGHTS) and _is_close(row)):
            continue
        pace = _time_of(row.winner, names, rows) if row.name in (MAP, MAP50) else ""
        yield UseAdvice(use, names[row.winner], f"{_figures(row, names)}{pace}{_doubt(row)}")


def _is_close(row: ComparedRow) -> bool:
    known = [value.mean for value in row.values if value is not None]
    return max(known) - min(known) < _WORTH * max(known)


def _figures(row: ComparedRow, names: Sequence[str]) -> str:
    """The winner's, against those of the others."""
    assert row.winner is not None
    digits = row.digits if row.name != HOURS else 3
    others = [
        f"{words.spread(value, digits)} of {names[place]}"
        for place, value in enumerate(row.values)
        if place != row.winner and value is not None
    ]
    return f"{row.name} {words.spread(row.values[row.winner], digits)} against {', '.join(others)}"


def _time_of(place: int, names: Sequence[str], rows: dict[str, ComparedRow]) -> str:
    """What being the most accurate costs, beside the quickest; nothing where hours cannot be compared."""
    hours = rows.get(HOURS)
    own = None if hours is None else hours.values[place]
    if hours is None or hours.winner is None or hours.winner == place or own is None:
        return ""
    least = hours.values[hours.winner]
    return (
        "" if least is None or not least.mean else f"; {own.mean / least.mean:.1f}× the hours of {names[hours.winner]}"
    )


def _doubt(row: ComparedRow) -> str:
    """Seeds move accuracies; times and sizes are as measured."""
    single = [value for value in row.values if value is not None and value.n == 1]
    return "; not proven, as long as each is one run" if single and row.name in _ACCURACIES else ""


def _in_short(
    rows: dict[str, ComparedRow], names: Sequence[str], found: Sequence[AtTheSameTime]
) -> Iterator[UseAdvice]:
    """Who is ahead when the quicker one ends: what counts where many things are tried."""
    accuracy = rows.get(MAP)
    if accuracy is None or (accuracy.winner is None and accuracy.remark):  # not to be compared, or equal
        return
    for one in found:
        ended = accuracy.values[names.index(one.finished)]
        if one.possible is not None or ended is None or not math.isfinite(one.reached):
            continue
        ahead = one.finished if ended.mean >= one.reached else one.group
        why = f"by then {one.finished} has {MAP} {ended.mean:.4f}, {one.group} {one.reached:.4f}"
        yield UseAdvice(f"trials of at most {one.hours:.3g} h", ahead, f"{why}{_doubt(accuracy)}")


def _by_time(names: Sequence[str], rows: dict[str, ComparedRow]) -> Iterator[UseAdvice]:
    """Where accuracies do not differ beyond chance, the quicker kind is as good."""
    accuracy, hours = rows.get(MAP) or rows.get(MAP50), rows.get(HOURS)
    if accuracy is None or hours is None or hours.winner is None or "within chance" not in accuracy.remark:
        return
    why = f"{accuracy.name} does not differ beyond chance, and it takes the least time"
    yield UseAdvice("everything else", names[hours.winner], why)
