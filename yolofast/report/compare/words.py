"""Figures of a comparison as text, the same in the terminal and on the page."""

import math
from collections.abc import Sequence
from typing import Any

from yolofast.errors import shorten
from yolofast.report.compare.differences import UNSAID, Difference
from yolofast.report.compare.figures import ComparedRow, Spread
from yolofast.report.compare.money import AtTheSameTime
from yolofast.report.compare.overtaking import Overtaking
from yolofast.words import counted

UNKNOWN = "–"
_ONE_BY_ONE = 3
"""Overtakings of a pair that are all listed; of more only the last."""


def printable(text: str) -> str:
    """Names and settings come from files: nothing in them may steer a terminal."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def number(value: float | None, digits: int) -> str:
    return UNKNOWN if value is None or not math.isfinite(value) else f"{value:,.{digits}f}"


def spread(value: Spread | None, digits: int) -> str:
    return UNKNOWN if value is None else around(value.mean, value.std if value.n > 1 else None, digits)


def around(mean: float | None, std: float | None, digits: int) -> str:
    return number(mean, digits) + ("" if std is None else f" ± {number(std, digits)}")


def fine(value: float | None) -> str:
    """Hours and costs: short runs would all be 0.06 otherwise."""
    return number(value, 4 if value is not None and abs(value) < 1 else 2)


def change(row: ComparedRow, place: int) -> str:
    """In percent of the first; how many times as much, where that says more."""
    share = row.change(place)
    if share is None:
        return UNKNOWN
    times = 1 + share
    factor = f" ({times:.1f}×)" if times >= 2 else f" (1/{1 / times:.1f})" if 0 < times <= 0.5 else ""
    return f"{share:+.1%}{factor}"


def winner(row: ComparedRow, names: list[str]) -> str:
    return row.remark if row.winner is None else names[row.winner]


def setting(value: Any) -> str:
    if value is UNSAID:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value == "":
        return "unset"
    return printable(value) if isinstance(value, str) and len(value) <= 80 else shorten(value)


def difference(one: Difference, names: list[str]) -> str:
    """Each value with the runs that have it."""
    runs: dict[str, list[str]] = {}
    for name, value in zip(names, one.values, strict=True):
        runs.setdefault(setting(value), []).append(name)
    return ", ".join(f"{value} ({', '.join(having)})" for value, having in runs.items())


def overtaking(one: Overtaking) -> str:
    at = f"epoch {one.at:.0f}" if one.unit == "epoch" else f"after {one.at:.3g} hours"
    return f"{at}: {one.ahead} overtakes {one.behind}"


def overtakings(listed: Sequence[Overtaking]) -> list[str]:
    """Who overtakes whom, a text per pair and clock. Those who change places again and again are equally good."""
    pairs: dict[tuple[frozenset[str], str], list[Overtaking]] = {}
    for one in listed:
        pairs.setdefault((frozenset((one.ahead, one.behind)), one.unit), []).append(one)
    texts = []
    for some in pairs.values():
        text = "; ".join(overtaking(one) for one in some)
        if len(some) > _ONE_BY_ONE:
            text = f"{overtaking(some[-1])}, after changing places {len(some) - 1} times"
        texts.append(text + ", within chance at the end" * some[-1].by_chance)
    return texts


def same_time(one: AtTheSameTime) -> str:
    """What is extrapolated says so, and how far it can be trusted."""
    head = f"when {one.finished} was over, after {one.hours:.3g} h, {one.group}"
    if one.possible is None:
        return f"{head} had done {counted(one.epochs, 'epoch')} and reached mAP50-95 {number(one.reached, 4)}"
    head += f" was over, its best {number(one.reached, 4)}; at its pace it could have done {one.possible:,.0f} epochs"
    guess = one.guess
    if guess is None:
        return f"{head} (what they would have brought cannot be guessed from its course)"
    if one.schedule_over:
        head += ". Its learning rate was at its end, so it could not have continued: this is of a run planned as long"
    return (
        f"{head}. Extrapolated, not measured: {guess.value:.4f}, between {guess.low:.4f} and {guess.high:.4f} "
        f"({guess.family} curve over {guess.factor:.2f} times the epochs). From beginnings of this run alone, and "
        f"{guess.checked:.2f} times ahead, it was off by up to {guess.error:.4f}"
    )
