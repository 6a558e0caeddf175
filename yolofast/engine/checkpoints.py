"""The checkpoints of a run: the last two states, so that one is always whole, and the best weights."""

import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch

from yolofast.checkpoint.save import save_checkpoint
from yolofast.errors import UserError

LAST, PREVIOUS, BEST = "last.pt", "last.previous.pt", "best.pt"


class Checkpoints:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def save_last(self, content: dict[str, Any]) -> Path:
        """Written beside; then the old one steps back and the new one takes its name: a kill leaves one of them."""
        fresh = save_checkpoint(self.folder / "last.new.pt", content)
        last = self.folder / LAST
        if last.exists():
            last.replace(self.folder / PREVIOUS)
        return fresh.replace(last)

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()

    def save_named(self, name: str, content: dict[str, Any]) -> Path:
        return save_checkpoint(self.folder / name, content)


def read_state(last: Path) -> tuple[dict[str, Any], str | None]:
    """The state to resume from, and a warning if it is not that of `last` itself."""
    problems = []
    if last.name != LAST and not last.exists():
        raise UserError("there is no such file", where=last, fix=f"name a run's {LAST}")
    for path in (last, last.with_name(PREVIOUS)) if last.name == LAST else (last,):
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # noqa: BLE001 - a damaged file may fail in any way
            problems.append(f"{path.name} {_problem(path, error)}")
            continue
        if not isinstance(content, dict) or "step" not in content:
            raise UserError("it holds weights, but not the state of a run", where=path, fix=f"name a run's {LAST}")
        return content, f"{problems[0]}; going on from {path.name}, an epoch earlier" if problems else None
    best = last.with_name(BEST)
    again = f"start a new run from its best weights: --weights {best}" if best.exists() else "start a new run"
    raise UserError(f"the run cannot be resumed: {'; '.join(problems)}", where=last.parent, fix=again)


def _problem(path: Path, error: Exception) -> str:
    """Why it cannot be read, in words that are not torch's."""
    if isinstance(error, FileNotFoundError):
        return "is not there"
    if isinstance(error, PermissionError | IsADirectoryError):
        return f"cannot be opened ({error.strerror})"
    if not zipfile.is_zipfile(path):  # the end of the file, which says what is in it, is missing
        return f"is damaged or cut off ({path.stat().st_size:,} bytes)"
    if isinstance(error, pickle.UnpicklingError):
        return "was not written by yolofast, or is damaged"
    return "is damaged"
