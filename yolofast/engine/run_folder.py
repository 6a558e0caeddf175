"""Where a run leaves what it makes: a folder of its own, numbered so that nothing is overwritten."""

from pathlib import Path

from yolofast.engine.checkpoints import LAST, PREVIOUS
from yolofast.errors import UserError


def new_run_folder(project: str | Path, name: str, exist_ok: bool = False) -> Path:
    """`project/name`, or `name2`, `name3` … if it exists; made."""
    base = Path(project) / name
    if not name.strip() or base.name in ("", ".."):
        raise UserError(f"--name is {name!r}, which names no folder", fix="give a name such as exp")
    number = 1
    while True:
        folder = base if number == 1 else base.with_name(f"{base.name}{number}")
        try:
            folder.mkdir(parents=True, exist_ok=exist_ok)
        except FileExistsError:
            number += 1
            continue
        except OSError as error:
            what = f"the run's folder cannot be made: {error.strerror}"
            raise UserError(what, where=folder, fix="name another with --project and --name") from error
        return folder


def latest_checkpoint(project: str | Path) -> Path:
    """The `last.pt` that was written most recently below the project, for `--resume` without a name."""
    found = [path for path in Path(project).glob("*/weights/last*.pt") if path.name in (LAST, PREVIOUS)]
    if not found:
        fix = "name its last.pt: --resume RUN/weights/last.pt"
        raise UserError("there is no run to resume", where=project, fix=fix)
    newest = max(found, key=lambda path: path.stat().st_mtime_ns)
    return newest.with_name(LAST)
