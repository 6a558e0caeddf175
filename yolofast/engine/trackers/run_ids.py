"""Under which names the trackers know a run, kept in its folder, so that a resumed run goes on there."""

import json
import threading
from pathlib import Path

from yolofast.atomic_file import write_whole
from yolofast.engine.trackers.tracker import TrackedRun
from yolofast.runs.layout import FILES

_writing = threading.Lock()  # trackers start at the same time, each in its thread


def id_of_resumed(run: TrackedRun, tracker: str) -> str | None:
    """None for a new run, also in the folder of an old one."""
    return _ids(run.folder).get(tracker) if run.next_epoch else None


def keep_id(run: TrackedRun, tracker: str, identity: str) -> None:
    with _writing:
        ids = {**_ids(run.folder), tracker: identity}
        write_whole(run.folder / FILES.loggers, (json.dumps(ids, indent=2) + "\n").encode())


def _ids(folder: Path) -> dict[str, str]:
    try:
        ids = json.loads((folder / FILES.loggers).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # not there, or damaged: a record of its own is better than none
        return {}
    return ids if isinstance(ids, dict) else {}
