"""Whether runs agree in something, and who has which value of it. Those whose files do not say it are not asked."""

from collections.abc import Callable, Sequence
from typing import Any

from yolofast.report.compare.differences import same
from yolofast.report.compare.run import Run

UNKNOWN = "unknown"
_SILENCE = (None, "", UNKNOWN)


def differ(runs: Sequence[Run], value: Callable[[Run], Any]) -> bool:
    """Among those that say it."""
    said = [one for one in map(value, runs) if one not in _SILENCE]
    return any(not same(one, said[0]) for one in said)


def by_value(runs: Sequence[Run], value: Callable[[Run], Any]) -> str:
    """Each value with the runs that have it, like `words.difference`: of many runs most have the same."""
    having: list[tuple[Any, list[str]]] = []
    for run in runs:
        said = value(run)
        if said in _SILENCE:
            continue
        names = next((names for other, names in having if same(said, other)), None)
        if names is None:
            having.append((said, [run.name]))
        else:
            names.append(run.name)
    return ", ".join(f"{said} ({', '.join(names)})" for said, names in having)
