"""The checkpoints of a run: the last two states, so that one is always whole, and the best weights."""

import os
import pickle
import shutil
import zipfile
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from yolofast.checkpoint.save import save_checkpoint
from yolofast.errors import UserError
from yolofast.runs.layout import FILES

_RESUME = (
    "see that the disk has room and the folder is writable, then continue with --resume; earlier states are intact"
)


class Checkpoints:
    """Written by a thread while training continues: the disk takes longer than a short epoch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        for unfinished in folder.glob(".*.tmp"):  # of a process that was killed while it wrote
            unfinished.unlink(missing_ok=True)
        self._thread = ThreadPoolExecutor(1, "checkpoints")
        self._writing: Future[None] | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """All is on the disk then. Why a run ends is what its user has to know, rather than what goes wrong here."""
        with suppress(UserError, OSError) if kind else nullcontext():
            self.finish()

    def save(self, content: dict[str, Any], *names: str) -> None:
        """As the last state, and under other names before. Takes a copy; raises what went wrong with the one before."""
        self.finish()
        self._writing = self._thread.submit(self._write, on_host(content), names)

    def finish(self) -> None:
        """Until all is on the disk."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def has(self, name: str) -> bool:
        self.finish()
        return (self.folder / name).exists()

    def _write(self, content: dict[str, Any], names: Sequence[str]) -> None:
        """Under a new name; then the old state is renamed and the new one takes its name: a kill leaves one."""
        try:
            fresh = save_checkpoint(self.folder / FILES.fresh, content)
            for name in names:
                same_file_as(fresh, self.folder / name)
        except UserError as error:
            raise UserError(error.what, where=self.folder, fix=_RESUME) from error
        last = self.folder / FILES.last
        if last.exists():
            last.replace(self.folder / FILES.previous)
        fresh.replace(last)


def on_host(value: Any) -> Any:
    """A copy that owns nothing on the device, so that training may change its own."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: on_host(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [on_host(item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return value


def same_file_as(path: Path, name: Path) -> None:
    """Another name for a file nobody ever changes; a copy of it where the disk knows no such thing."""
    temporary = name.with_name(f".{name.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        os.link(path, temporary)
    except OSError:
        try:
            shutil.copyfile(path, temporary)
        except OSError as error:  # nothing of it stays where there is no room for all
            temporary.unlink(missing_ok=True)
            raise UserError(f"the checkpoint could not be written: {error.strerror or error}") from error
    temporary.replace(name)


def read_state(last: Path) -> tuple[dict[str, Any], str | None]:
    """The state to resume from, and a warning if it is not that of `last` itself."""
    problems, is_last, fix = [], last.name == FILES.last, f"name a run's {FILES.last}"
    if not is_last and not last.exists():
        raise UserError("there is no such file", where=last, fix=fix)
    for path in (last, last.with_name(FILES.previous)) if is_last else (last,):
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # noqa: BLE001 - a damaged file may fail in any way
            problems.append(f"{path.name} {_problem(path, error)}")
            continue
        if not isinstance(content, dict) or "step" not in content:
            raise UserError("it holds weights, but not the state of a run", where=path, fix=fix)
        return content, f"{problems[0]}; the run continues from {path.name}, an epoch earlier" if problems else None
    best = last.with_name(FILES.best)
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
