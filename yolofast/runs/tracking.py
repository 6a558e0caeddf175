"""How well the checkpoints of a run track: `tracking.json` in its folder, and where that disagrees with mAP.

mAP asks whether objects are found in single images, tracking scores whether they keep their identities. The epoch that
is best by one need not be by the other: `disagreements` says which epochs these are, and what each choice costs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from yolofast.files.known_numbers import known_number
from yolofast.runs.layout import MAP
from yolofast.words import counted

SCORES = ("HOTA", "IDF1", "MOTA")
"""More is better; the first is asked first."""
COUNTS = ("IDSW", "FP", "FN")
_LEAST_FOR_ORDER = 3
_MADE_WITH = {
    "other sequences": ("sequences", "truth"),
    "other settings": ("searched", "retuned", "faithful", "detected_with"),
    "another benchmark": ("benchmark",),
}
"""Entries of `tracking.json`, by what is said where they differ."""


@dataclass(frozen=True)
class TrackedEpoch:
    epoch: int
    """From 1."""
    weights: str
    """The file's name."""
    scores: Mapping[str, float]
    """By the names of `SCORES` and `COUNTS`."""
    interval: tuple[float, float] | None = None
    """Of the score it was chosen by, 95 % over sequences."""
    behind: tuple[int, tuple[float, float]] | None = None
    """The best epoch of the same call, and by how much of that score this one is behind it, 95 % over sequences."""


@dataclass(frozen=True)
class TrackedRun:
    epochs: tuple[TrackedEpoch, ...]
    """In their order."""
    by: str
    sequences: int
    retuned: bool
    """Each epoch with its own best settings, instead of the same for all."""
    made_with: Mapping[str, str]
    """What scores depend on, by the words of `_MADE_WITH`: runs can be compared where all of it is equal."""

    def best(self, name: str) -> TrackedEpoch:
        """Of equals the first."""
        return max(self.epochs, key=lambda one: one.scores[name])


@dataclass(frozen=True)
class Disagreement:
    """mAP and a tracking score choose different epochs."""

    score: str
    by_map: int
    by_score: int
    lost: float
    """Of the score, with the epoch that mAP chooses."""
    map_lost: float
    """Of mAP, with the epoch that the score chooses."""
    interval: tuple[float, float] | None = None
    """Of `lost`, 95 % over sequences, where it is known."""

    def words(self) -> str:
        return (
            f"{self.score} chooses epoch {self.by_score}, mAP50-95 epoch {self.by_map}: that one has "
            f"{100 * self.lost:.2f} points less {self.score}{self._how_sure()}, the other {100 * self.map_lost:.2f} "
            "points less mAP50-95"
        )

    def _how_sure(self) -> str:
        if self.interval is None:
            return ""
        low, high = self.interval
        return f" (95 % over sequences: {100 * low:.2f} to {100 * high:.2f}{', so perhaps none' * (low <= 0)})"


@dataclass(frozen=True)
class Agreement:
    """Of one run: its tracked epochs beside their mAP."""

    tracked: TrackedRun
    maps: tuple[float, ...]
    """mAP50-95 of each tracked epoch; nan where it was not evaluated."""
    disagreements: tuple[Disagreement, ...]
    order: Mapping[str, float]
    """By score: how far the epochs' order is that of mAP, from -1 to 1 (Spearman); from three epochs on."""

    @property
    def by_map(self) -> TrackedEpoch | None:
        """The tracked epoch that mAP chooses; None where no mAP is known."""
        known = [place for place, value in enumerate(self.maps) if np.isfinite(value)]
        return self.tracked.epochs[max(known, key=lambda place: self.maps[place])] if known else None

    def words(self) -> list[str]:
        tracked = self.tracked
        count = counted(len(tracked.epochs), "epoch")
        how = "each with settings of its own" if tracked.retuned else "all with the same settings"
        sequences = counted(tracked.sequences, "sequence")
        best = tracked.best(tracked.by)
        who = f"best by {tracked.by} is epoch {best.epoch} ({best.weights}), "
        if len(tracked.epochs) == 1:
            how, who = "", f"epoch {best.epoch} ({best.weights}), "
        elif _equal([one.scores[tracked.by] for one in tracked.epochs]):
            who = f"no epoch is best by {tracked.by}, all have "
        figures = ", ".join(f"{name} {100 * best.scores[name]:.2f}" for name in SCORES if name in best.scores)
        lines = [f"{count} tracked on {sequences}{', ' * bool(how)}{how}: {who}{figures}"]
        return [*lines, *(one.words() for one in self.disagreements), *self._beside_map()]

    @property
    def agrees(self) -> bool:
        """Whether mAP and tracking scores choose, and choose the same."""
        return not self.disagreements and bool(self._choosing) and not _equal(self._known_maps)

    @property
    def _known_maps(self) -> list[float]:
        return [value for value in self.maps if np.isfinite(value)]

    @property
    def _choosing(self) -> list[str]:
        """Scores that differ between epochs whose mAP is known."""
        both = [one for one, value in zip(self.tracked.epochs, self.maps, strict=True) if np.isfinite(value)]
        return [name for name in SCORES if not _equal([one.scores[name] for one in both])]

    def _beside_map(self) -> list[str]:
        """What is to be said where they do not disagree."""
        known = self._known_maps
        if self.disagreements or not known:
            return []
        if len(known) == 1:
            return ["one epoch with mAP50-95 is tracked: there is nothing to choose between"]
        if self.agrees:
            silent = [name for name in SCORES if name not in self._choosing]
            same = f"mAP50-95 chooses the same epoch as {_listed(self._choosing)}"
            return [f"{same}; {_listed(silent)} cannot tell the epochs apart" if silent else same]
        if not self._choosing:
            return ["tracking scores are the same for all epochs: they choose none of them"]
        return ["mAP50-95 is the same for all epochs: it chooses none of them"]


def read_tracking(values: Mapping[str, Any]) -> TrackedRun | None:
    """From the content of `tracking.json`; entries that are malformed are omitted, None if none is left."""
    rows = values.get("epochs")
    found = [_epoch(row) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    epochs = sorted((one for one in found if one is not None), key=lambda one: one.epoch)
    if not epochs:
        return None
    by, sequences = values.get("by"), values.get("sequences")
    return TrackedRun(
        tuple(epochs),
        by if by in SCORES else SCORES[0],
        len(sequences) if isinstance(sequences, list) else 0,
        bool(values.get("retuned")),
        {words: repr([values.get(key) for key in keys]) for words, keys in _MADE_WITH.items()},
    )


def _epoch(row: Mapping[str, Any]) -> TrackedEpoch | None:
    epoch = row.get("epoch")
    scores = {name: known_number(row.get(name)) for name in (*SCORES, *COUNTS)}
    if not isinstance(epoch, int) or isinstance(epoch, bool) or any(scores[name] is None for name in SCORES):
        return None
    return TrackedEpoch(
        epoch,
        str(row.get("weights", "")),
        {name: value for name, value in scores.items() if value is not None},
        _interval(row.get("interval")),
        _behind(row.get("behind")),
    )


def _interval(given: Any) -> tuple[float, float] | None:
    ends = [known_number(one) for one in given] if isinstance(given, list) and len(given) == 2 else [None]
    low, high = ends[0], ends[-1]
    return None if low is None or high is None else (low, high)


def _behind(given: Any) -> tuple[int, tuple[float, float]] | None:
    if not isinstance(given, dict) or not isinstance(given.get("epoch"), int):
        return None
    interval = _interval(given.get("interval"))
    return None if interval is None else (given["epoch"], interval)


def agreement(tracked: TrackedRun, epochs: Sequence[float], maps: Sequence[float]) -> Agreement:
    """`epochs` of the results, from 1, and their mAP50-95."""
    known = {int(one): float(value) for one, value in zip(epochs, maps, strict=True) if np.isfinite(one)}
    beside = tuple(known.get(one.epoch, float("nan")) for one in tracked.epochs)
    both = [place for place, value in enumerate(beside) if np.isfinite(value)]
    found, order = [], {}
    if both:
        map_chooses = not _equal([beside[place] for place in both])
        top = max(both, key=lambda place: beside[place])
        for name in SCORES:
            values = [tracked.epochs[place].scores[name] for place in both]
            best = both[int(np.argmax(values))]
            lost = tracked.epochs[best].scores[name] - tracked.epochs[top].scores[name]
            if map_chooses and best != top and lost > 0:
                numbers, behind = (tracked.epochs[top].epoch, tracked.epochs[best].epoch), tracked.epochs[top].behind
                known_pair = behind is not None and name == tracked.by and behind[0] == numbers[1]
                interval = behind[1] if behind is not None and known_pair else None
                found.append(Disagreement(name, *numbers, lost, beside[top] - beside[best], interval))
            if len(both) >= _LEAST_FOR_ORDER:
                order[name] = _spearman(values, [beside[place] for place in both])
    return Agreement(tracked, beside, tuple(found), order)


def tracked_differently(runs: Mapping[str, Agreement]) -> str | None:
    """A warning where runs beside each other were not tracked alike."""
    every = [one.tracked.made_with for one in runs.values()]
    differing = [words for words in _MADE_WITH if len({one[words] for one in every}) > 1]
    if not differing:
        return None
    return f"the runs were tracked with {_listed(differing)}: a score of one is no measure for another"


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _equal(values: Sequence[float]) -> bool:
    return len(set(values)) <= 1


def _spearman(one: Sequence[float], other: Sequence[float]) -> float:
    ranks = [_ranks(np.array(values)) for values in (one, other)]
    spread = [rank.std() for rank in ranks]
    if min(spread) == 0:
        return 0.0
    product = ((ranks[0] - ranks[0].mean()) * (ranks[1] - ranks[1].mean())).mean()
    return float(product / (spread[0] * spread[1]))


def _ranks(values: Any) -> Any:
    """Equal values share their mean rank."""
    below = (values[:, None] > values).sum(1)
    return below + ((values[:, None] == values).sum(1) - 1) / 2


def as_values(found: Agreement) -> dict[str, Any]:
    """Epochs count from 1; `lost` is of the score, with the epoch that mAP chooses."""
    tracked = found.tracked
    return {
        "by": tracked.by,
        "sequences": tracked.sequences,
        "retuned": tracked.retuned,
        "epochs": [
            {"epoch": one.epoch, "weights": one.weights, MAP.title: value, **one.scores, "interval": one.interval}
            for one, value in zip(tracked.epochs, found.maps, strict=True)
        ],
        "best": {score: tracked.best(score).epoch for score in SCORES},
        "disagreements": [asdict(one) for one in found.disagreements],
        "rank_correlation_with_map": dict(found.order),
    }
