"""The folder a run writes to: its own, numbered so that nothing is overwritten.

With `--exist-ok` it may be that of an earlier run, whose files are removed first, so that the two never mix.
"""

import errno
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from yolofast.errors import UserError
from yolofast.files.atomic_file import name_beside, remove_abandoned, write_whole
from yolofast.files.lock import FolderLock
from yolofast.runs.layout import FILES

Hold = Callable[[Path], None]
"""Makes a folder this process's, or refuses one that another process trains."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_LEFT_BEHIND = (
    *(
        f"{FILES.weights}/{name}"
        for name in (FILES.previous, FILES.last, FILES.best, FILES.fresh, FILES.init, FILES.of_epoch)
    ),
    FILES.summary, FILES.results, FILES.yolov7_results, FILES.batches, FILES.phases, FILES.profile,
    FILES.report, FILES.evaluation, FILES.motion, FILES.samples, FILES.predictions_folder,
    FILES.labels, FILES.train_batch, FILES.val_batch_labels, FILES.val_batch_pred, FILES.predictions, FILES.curves,
    FILES.precision_recall_curve, FILES.f1_curve, FILES.precision_curve, FILES.recall_curve, FILES.confusion,
    FILES.loggers, "events.out.tfevents.*",
)  # fmt: skip


class RunLock(FolderLock):
    """Of the folder that a process trains in. What was unfinished when an earlier one was killed goes."""

    def __init__(self) -> None:
        super().__init__(FILES.lock)

    def take(self, folder: Path) -> None:
        super().take(folder)
        remove_abandoned(folder)


def new_run_folder(
    project: str | Path,
    name: str,
    exist_ok: bool = False,
    files: Mapping[str, bytes] | None = None,
    hold: Hold = lambda folder: None,
) -> Path:
    """Makes `project/name`, or `name2`, `name3` … if it exists. It has `files` from the moment it appears.

    `hold` gets the folder, one that was there before anything is written to it.
    """
    base = Path(project) / name
    if not name.strip() or base.name in ("", ".."):
        raise UserError(f"--name is {name!r}, which names no folder", fix="give a name such as exp")
    number = 1
    while True:
        folder = base if number == 1 else base.with_name(f"{base.name}{number}")
        try:
            _make(folder, exist_ok, files or {}, hold)
        except FileExistsError:
            number += 1
            continue
        except OSError as error:
            what = f"the run's folder cannot be made: {error.strerror}"
            cause = "make room" if error.errno in _NO_ROOM else "check the permissions"
            fix = f"{cause}, or name another folder with --project and --name"
            raise UserError(what, where=folder, fix=fix) from error
        return folder


def _make(folder: Path, exist_ok: bool, files: Mapping[str, bytes], hold: Hold) -> None:
    """Raises `FileExistsError` if it is there and may not be."""
    if not files or (exist_ok and folder.exists()):
        folder.mkdir(parents=True, exist_ok=exist_ok)
        hold(folder)
        _write(folder, files)
        return
    if os.path.lexists(folder):
        raise FileExistsError
    remove_abandoned(folder.parent, folder.name, folders=True)
    unfinished = name_beside(folder)
    unfinished.mkdir(parents=True)
    try:
        _write(unfinished, files)
        unfinished.rename(folder)
        hold(folder)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):  # another run was faster
            raise FileExistsError from error
        raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        write_whole(folder / name, content)


def forget_earlier_run(folder: Path) -> None:
    """Removes only what runs write. The new run's settings are in the folder by then, and checkpoints are removed
    first. A kill in between leaves either the earlier run as it was, or the new one, which can be started again."""
    for pattern in _LEFT_BEHIND:
        for path in folder.glob(pattern):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
