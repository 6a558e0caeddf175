"""Which folders below RUNS are runs.

A run has results, or the settings and the environment that `train` writes before its first epoch. Links are not
followed, and a browser may request only what was found here: so nothing outside RUNS can be named.
"""

import os
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from yolofast.runs.layout import FILES, SWEEP_TRIALS
from yolofast.watch.watched_folder import WatchedFolder

DEEPEST = 6
MOST_FOLDERS = 20_000
MOST_RUNS = 2_000
_PARTS_OF_A_RUN = (FILES.weights, "labels", FILES.samples)
"""Folders that `train` and `val` make in one; elsewhere a run may have such a name."""


class FoundRun(NamedTuple):
    id: str
    """ASCII, whatever bytes the folder's name has."""
    name: str
    """For people; relative to RUNS."""
    folder: WatchedFolder


class FoundRuns(NamedTuple):
    runs: list[FoundRun]
    complete: bool
    """False if there are more folders, or runs, than are looked at."""
    sweeps: list[FoundRun]
    """Folders of sweeps; their trials are among the runs."""


def find_runs(root: Path) -> FoundRuns:
    """Breadth first, so that a limit cuts what lies deepest."""
    waiting, runs, sweeps = [WatchedFolder(root)], list[FoundRun](), list[FoundRun]()
    for visited, folder in enumerate(waiting):
        if visited == MOST_FOLDERS or len(runs) == MOST_RUNS:
            return FoundRuns(runs, False, sweeps)
        files, folders = ([name for name in names if name[0] != "."] for names in folder.entries())
        is_run = FILES.results in files or (FILES.settings in files and FILES.environment in files)
        if is_run or SWEEP_TRIALS in files:
            relative = os.fsencode(os.path.join(*folder.parts) if folder.parts else ".")
            shown = relative if folder.parts else os.fsencode(root.name)
            found = FoundRun(quote(relative, safe="/"), shown.decode("utf-8", "replace"), folder)
            (runs if is_run else sweeps).append(found)
        if len(folder.parts) < DEEPEST:
            parts = _PARTS_OF_A_RUN if is_run else ()
            waiting += [folder.below(name) for name in sorted(folders) if name not in parts]
    return FoundRuns(runs, True, sweeps)
