"""Which runs are continued: they pause at certain epochs, and only the better ones are promoted to the next.

A run that is not promoted stays as it paused, and can be resumed to the same weights at any time: nothing is killed.
ASHA (arXiv 1810.05934) continues the best 1/factor of those that have come so far, whenever there is room for a run.
"""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from yolofast.errors import UserError, nearest, shorten

KINDS = {"asha": {"grace": 1, "factor": 3}, "median": {"grace": 3, "every": 0}}
"""And the usual values."""
_FEWEST = 3
"""Runs that a median is taken of."""


@dataclass(frozen=True)
class Stopping:
    kind: str
    rungs: tuple[int, ...]
    """Epochs at which runs pause, before their end."""
    factor: int = 3

    def next(self, epochs: int) -> int | None:
        """The epoch at which a run pauses that has so many; None: it runs to its end."""
        return next((rung for rung in self.rungs if rung > epochs), None)

    def promoted(self, values: Mapping[str, float], *, all_there: bool) -> set[str]:
        """Of runs that have come to one rung, by how good they are there (more is better).

        `all_there`: no other will come. Then at least one is continued.
        """
        order = sorted(values, key=lambda name: -values[name])
        if self.kind == "median":
            if len(order) < _FEWEST:
                return set(order)
            middle = statistics.median(values.values())
            return {name for name in order if values[name] >= middle}
        return set(order[: max(len(order) // self.factor, int(all_there))])


def read_stopping(given: Any, epochs: int) -> Stopping | None:
    """Of `stop: {asha: {grace: 3, factor: 3}}`."""
    if given is None:
        return None
    given = {given: {}} if isinstance(given, str) else given
    fix = f"give one of {', '.join(f'stop: {{{kind}: {values}}}' for kind, values in KINDS.items())}".replace("'", "")
    if not isinstance(given, dict) or len(given) != 1:
        raise UserError(f"stop is {shorten(given)}", fix=fix)
    kind, own = next(iter(given.items()))
    if kind not in KINDS or not isinstance(own or {}, dict) or (own or {}).keys() - KINDS[kind].keys():
        raise UserError(f"stop is {shorten(given)}{nearest(str(kind), KINDS)}", fix=fix)
    values = KINDS[kind] | (own or {})
    least = {"grace": 1, "factor": 2, "every": 0}
    for key, value in values.items():
        if type(value) is not int or not least[key] <= value <= 10_000:
            raise UserError(
                f"stop.{kind}.{key} is {shorten(value)}", fix=f"give a whole number of at least {least[key]}"
            )
    grace = values["grace"]
    if kind == "median":
        step = values["every"] or max(1, math.ceil((epochs - grace) / 4))
        return Stopping(kind, tuple(range(grace, epochs, step)))
    rungs = [grace]
    while rungs[-1] * values["factor"] < epochs:
        rungs.append(rungs[-1] * values["factor"])
    return Stopping(kind, tuple(rung for rung in rungs if rung < epochs), values["factor"])
