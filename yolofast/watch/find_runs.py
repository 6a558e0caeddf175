"""Which folders below RUNS are runs.

A run has results, or the settings and the environment that `train` writes before its first epoch. Links are not
followed, and a browser may request only what was found here: so nothing outside RUNS can be named.
"""

import os
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from yolofast.runs.layout import FILES

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
    path: Path


class FoundRuns(NamedTuple):
    runs: list[FoundRun]
    complete: bool
    """False if there are more folders, or runs, than are looked at."""


def find_runs(root: Path) -> FoundRuns:
    """Breadth first, so that a limit cuts what lies deepest."""
    waiting, runs = [(root, 0)], list[FoundRun]()
    for visited, (folder, depth) in enumerate(waiting):
        if visited == MOST_FOLDERS or len(runs) == MOST_RUNS:
            return FoundRuns(runs, False)
        files, folders = _entries(folder)
        is_run = FILES.results in files or (FILES.settings in files and FILES.environment in files)
        if is_run:
            relative = os.fsencode(folder.relative_to(root))
            shown = os.fsencode(folder.name) if folder == root else relative
            runs.append(FoundRun(quote(relative, safe="/"), shown.decode("utf-8", "replace"), folder))
        if depth < DEEPEST:
            parts = _PARTS_OF_A_RUN if is_run else ()
            waiting += [(folder / name, depth + 1) for name in sorted(folders) if name not in parts]
    return FoundRuns(runs, True)


def _entries(folder: Path) -> tuple[set[str], list[str]]:
    """Names of its plain files and of its folders; none if it has gone or may not be read."""
    files, folders = set(), []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif entry.is_file(follow_symlinks=False):
                    files.add(entry.name)
    except OSError:
        pass
    return files, folders
