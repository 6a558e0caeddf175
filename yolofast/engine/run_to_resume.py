"""Which run `--resume` means, and whether it has been saved.

A run has its settings in its folder from the first moment on, and a checkpoint after its first epoch. One that was
killed before starts again from its settings, which comes to the same bits: nothing else went into it.
"""

from dataclasses import dataclass
from pathlib import Path

from yolofast.engine.checkpoints import LAST, PREVIOUS
from yolofast.errors import UserError, nearest_file
from yolofast.runs.layout import FILES

SETTINGS_FILE = FILES.settings
_FIX = "name a run's folder, or its last.pt: --resume RUN"


@dataclass(frozen=True)
class RunToResume:
    folder: Path
    checkpoint: Path | None
    """None: it starts again."""


def run_to_resume(resume: bool | str, project: str | Path) -> RunToResume:
    """`resume` is a checkpoint, a run's folder, or True for the run that was last written to."""
    if resume is True:
        return _saved_in(_latest_run(Path(project)))
    named = Path(str(resume))
    if named.is_file():
        return RunToResume(_as_typed(named.resolve().parent.parent), named)
    return _saved_in(_folder_meant(named.absolute()))


def _folder_meant(named: Path) -> Path:
    """A `last.pt` that is not there yet means its run."""
    inside = named if named.is_dir() else named.parent
    folder = inside.parent if inside.name == FILES.weights else inside
    if folder.is_dir() and (named.is_dir() or named.name == LAST):
        return folder
    raise UserError(f"there is no such file or folder{nearest_file(named)}", where=named, fix=_FIX)


def _saved_in(folder: Path) -> RunToResume:
    folder = _as_typed(folder.resolve())
    weights = folder / FILES.weights
    if (weights / LAST).exists() or (weights / PREVIOUS).exists():
        return RunToResume(folder, weights / LAST)
    if not (folder / SETTINGS_FILE).is_file():
        raise UserError(
            f"there is no run to resume: no {FILES.weights}/{LAST} and no {SETTINGS_FILE}", where=folder, fix=_FIX
        )
    return RunToResume(folder, None)


def _as_typed(folder: Path) -> Path:
    """From the current folder if it lies below."""
    here = Path.cwd()
    return folder.relative_to(here) if here in folder.parents else folder


def _latest_run(project: Path) -> Path:
    names = (SETTINGS_FILE, f"{FILES.weights}/{LAST}", f"{FILES.weights}/{PREVIOUS}")
    # Folders with a dot are those that runs are about to be made in.
    found = [path for name in names for path in project.glob(f"[!.]*/{name}")]
    if not found:
        raise UserError("there is no run to resume", where=project, fix=_FIX)
    newest = max(found, key=lambda path: path.stat().st_mtime_ns)
    return newest.parent if newest.name == SETTINGS_FILE else newest.parent.parent
