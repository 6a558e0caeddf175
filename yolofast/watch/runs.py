"""All runs below a folder, as the page requests them. One lock: requests of many tabs read every file once.

Of a run's folder a browser may have the report and pictures, by their plain names, of a sweep's its page, and nothing
else.
"""

import os
import re
import threading
import time
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from yolofast.runs.layout import FILES, SWEEP_PAGE
from yolofast.watch.find_runs import FoundRun, find_runs
from yolofast.watch.overview import Overview
from yolofast.watch.run_curves import BatchCurve, EpochRows
from yolofast.watch.settings_files import SettingsFiles
from yolofast.watch.sweep_line import SweepLine
from yolofast.watch.watched_folder import WatchedFolder

_TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg"}
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_. -]{0,98}", re.ASCII)
_MAX_BYTES, _MAX_REPORT = 64 * 2**20, 16 * 2**20
"""Of a picture, and of a report, which is written anew with up to six bytes for each. Ours have one or two MiB."""
_MOST_PICTURES = 60
_FRESH = 0.5
_SHARE_OF_TIME = 0.1
"""On a slow disk the list is made less often, so that reading takes a tenth of the time at most."""


class Runs:
    def __init__(self, root: Path) -> None:
        """The folder need not be there yet."""
        self.root = root.absolute()
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}
        self._sweeps: dict[str, SweepLine] = {}
        self._list: dict[str, Any] = {}
        self._list_until = 0.0

    def list(self) -> dict[str, Any]:
        with self._lock:
            return self._fresh_list()

    def detail(self, run_id: str, generation: str, since: int, batches: int) -> dict[str, Any] | None:
        """What is new to a page with `since` rows of that generation and so many batches; None for an unknown id."""
        with self._lock:
            run = self._find(run_id)
            if run is None:
                return None
            return {"id": run_id, "pictures": pictures(run.folder), **run.news(generation, since, batches)}

    def file(self, run_id: str, name: str) -> "RunFile | None":
        with self._lock:
            run = self._find(run_id)
            sweep = self._sweeps.get(run_id) if name == SWEEP_PAGE else None
        found = sweep if sweep is not None and sweep.folder.is_there() else run
        return None if found is None else read_run_file(found.folder, name)

    def _find(self, run_id: str) -> "_Run | None":
        """Among those that were found; a page that outlived its server asks before there is a list."""
        if run_id not in self._runs:
            self._fresh_list()
        run = self._runs.get(run_id)  # its folder may have become a link since it was found
        return run if run is not None and run.folder.is_there() else None

    def _fresh_list(self) -> dict[str, Any]:
        began = time.monotonic()
        if began >= self._list_until:
            self._list = self._look()
            ended = time.monotonic()
            self._list_until = ended + max(_FRESH, (ended - began) / _SHARE_OF_TIME)
        return self._list

    def _look(self) -> dict[str, Any]:
        found = find_runs(self.root)
        self._runs = {run.id: self._runs.get(run.id) or _Run(run) for run in found.runs}
        lines = [self._runs[run.id].overview.line() for run in found.runs]
        self._sweeps = {one.id: self._sweeps.get(one.id) or SweepLine(one) for one in found.sweeps}
        return {
            "root": str(self.root).encode("utf-8", "replace").decode(),
            "complete": found.complete,
            "runs": lines,
            "sweeps": [one.line() for one in self._sweeps.values()],
        }


class _Run:
    def __init__(self, found: FoundRun) -> None:
        self.folder, self.overview = found.folder, Overview(found)

    @cached_property
    def _shown(self) -> tuple[EpochRows, BatchCurve, SettingsFiles]:
        """What a page that shows this run needs in addition to its line in the list."""
        return EpochRows(self.folder), BatchCurve(self.folder), SettingsFiles(self.folder)

    def news(self, generation: str, since: int, batches: int) -> dict[str, Any]:
        rows, curve, settings = self._shown
        rows.refresh()
        more = curve.refresh()
        first, count = since if generation == rows.generation else 0, curve.loss.count
        return {
            "generation": rows.generation,
            "since": first,
            "columns": rows.columns,
            "rows": rows.rows[first:],
            "batches": {"count": count, **({} if count == batches else curve.loss.points())},
            "more": more,
            **settings.read(),
        }


class RunFile(NamedTuple):
    content: bytes
    content_type: str


def read_run_file(folder: WatchedFolder, name: str) -> RunFile | None:
    """None for names that are not allowed, links, and missing files."""
    kind = content_type(name)
    most = _MAX_REPORT if name == FILES.report else _MAX_BYTES
    content = None if kind is None else (folder / name).read(most)
    return None if kind is None or content is None else RunFile(content, kind)


def content_type(name: str) -> str | None:
    """None if a browser may not have a file of that name."""
    if name in (FILES.report, SWEEP_PAGE):
        return "text/html; charset=utf-8"
    return _TYPES.get(os.path.splitext(name)[1].lower()) if _NAME.fullmatch(name) else None


def pictures(folder: WatchedFolder) -> list[str]:
    files, _ = folder.entries()
    return sorted(name for name in files if name not in (FILES.report, SWEEP_PAGE) and content_type(name))[
        :_MOST_PICTURES
    ]
