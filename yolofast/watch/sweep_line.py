"""One line per sweep for the list: how many of its trials have ended, and how good the best is.

A sweep's folder lists its trials, whose folders are runs in it. Its page and summary are written anew after each trial.
"""

from typing import Any

from yolofast.runs.layout import SWEEP_PAGE, SWEEP_SUMMARY, SWEEP_TRIALS
from yolofast.runs.reader import parse_entries
from yolofast.watch.find_runs import FoundRun
from yolofast.watch.watched_folder import Stamp, WatchedFolder

_MOST_BYTES = 2**24
_LOOKED_AT = (SWEEP_TRIALS, SWEEP_SUMMARY, SWEEP_PAGE)


class SweepLine:
    def __init__(self, found: FoundRun) -> None:
        self.folder = found.folder
        self._found = found
        self._stamps: dict[str, Stamp | None] | None = None
        self._values: dict[str, Any] = {}

    def line(self) -> dict[str, Any]:
        stamps = self.folder.stamps(_LOOKED_AT)
        if stamps != self._stamps:
            self._values, self._stamps = self._read(stamps), stamps
        return self._values

    def _read(self, stamps: dict[str, Stamp | None]) -> dict[str, Any]:
        trials = _listed(self.folder, SWEEP_SUMMARY) or _listed(self.folder, SWEEP_TRIALS)
        states = [one.get("state") for one in trials]
        best = trials[0].get("best") if trials else None  # the best comes first
        return {
            "id": self._found.id,
            "name": self._found.name,
            "trials": len(trials),
            "complete": states.count("complete"),
            "failed": states.count("failed"),
            "best": best if isinstance(best, int | float) else None,
            "page": stamps[SWEEP_PAGE] is not None,
            "updated": max((one.seconds for one in stamps.values() if one is not None), default=0.0),
        }


def _listed(folder: WatchedFolder, name: str) -> list[dict[str, Any]]:
    """Of a file that anybody may have written; none if it is no list of trials."""
    try:
        trials = parse_entries(name, (folder / name).read(_MOST_BYTES) or b"")[0]["trials"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    return [one for one in trials if isinstance(one, dict)] if isinstance(trials, list) else []
