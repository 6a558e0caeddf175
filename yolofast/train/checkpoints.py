"""The checkpoints of a run: the last two states, so that one is always whole, and the best weights."""

import os
import pickle
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from types import UnionType
from typing import Any

import torch
from torch import Tensor

from yolofast.checkpoint.containers import check_archive
from yolofast.checkpoint.save import save_checkpoint
from yolofast.errors import UserError, shorten
from yolofast.files.atomic_file import name_beside, opened_new, remove_abandoned
from yolofast.runs.layout import EPOCH, FILES, MEMORY, RATES, SPEED, TIME
from yolofast.words import amount

_MOST = 10**9
_RESUME = (
    "see that the disk has room and the folder is writable, then continue with --resume; earlier states are intact"
)
Form = Callable[[Any], bool]


def is_whole(value: Any, least: int) -> bool:
    return type(value) is int and least <= value < _MOST


def is_number(value: Any) -> bool:
    return type(value) in (int, float)


def is_named(value: Any, kind: type | UnionType = object) -> bool:
    """A dictionary of text and values of that kind."""
    return isinstance(value, dict) and all(isinstance(key, str) and isinstance(value[key], kind) for key in value)


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and all(is_named(row, int | float | None) for row in value)


def _is_counted(row: dict[str, Any]) -> bool:
    """Whether it has what the rest of a run continues from, or sums up."""
    return all(is_number(row.get(column.name)) for column in (TIME, SPEED, MEMORY, RATES[0]))


OF_EVERY_RUN: dict[str, Form] = {
    "config": is_named,
    "model": lambda value: is_named(value, Tensor),
    "step": is_named,
    "rows": _are_rows,
    "next_epoch": lambda value: is_whole(value, 0),
    "best_fitness": is_number,
    "best_epoch": lambda value: is_whole(value, -1),
}
"""What a state has at least, and in which form."""
OF_A_DETECTOR: dict[str, Form] = {
    "ema": lambda value: is_named(value, Tensor),
    "run": is_named,
    "hyp": is_named,
    "names": lambda value: isinstance(value, list) and all(isinstance(name, str) for name in value),
    "lr_factor": lambda value: is_number(value) and 0 < value <= 1,
    "rows": lambda value: all(is_whole(row.get(EPOCH.name), 0) and _is_counted(row) for row in value),
}
"""What that of a detector's run has too."""


class Checkpoints:
    """Written by a thread while training continues: the disk takes longer than a short epoch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        remove_abandoned(folder)
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

    def check_room(self, state: Iterable[torch.Tensor]) -> None:
        """Before an hour is spent on what could not be kept. A state is written beside the one it replaces."""
        needed, free = sum(tensor.nbytes for tensor in state), shutil.disk_usage(self.folder).free
        if free < needed:
            what = f"a checkpoint takes {amount(needed)}, and the disk has {amount(free)} left"
            raise UserError(what, where=self.folder, fix="make room, or name another place with --project")

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
    temporary = name_beside(name)
    try:
        os.link(path, temporary)
    except OSError:
        try:
            with path.open("rb") as source, opened_new(temporary) as target:
                shutil.copyfileobj(source, target)
        except OSError as error:  # nothing of it stays where there is no room for all
            temporary.unlink(missing_ok=True)
            raise UserError(f"the checkpoint could not be written: {error.strerror or error}") from error
    temporary.replace(name)


def read_state(last: Path, also: Mapping[str, Form] | None = None) -> tuple[dict[str, Any], str | None]:
    """The state to resume from, and a warning if it is not that of `last` itself. `also`: what it has to have too."""
    problems, is_last, fix = [], last.name == FILES.last, f"name a run's {FILES.last}"
    if not is_last and not last.exists():
        raise UserError("there is no such file", where=last, fix=fix)
    for path in (last, last.with_name(FILES.previous)) if is_last else (last,):
        try:
            check_archive(path)
            content = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # noqa: BLE001 - a damaged file may fail in any way
            problems.append(f"{path.name} {_problem(path, error)}")
            continue
        content = content if isinstance(content, dict) else {}
        for name, is_right in (*OF_EVERY_RUN.items(), *(also or {}).items()):
            if not is_right(content.get(name)):
                has = f"its {name} is {shorten(content[name])}" if name in content else f"it has no {name}"
                raise UserError(f"it is not the state of a run: {has}", where=path, fix=fix)
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
    if isinstance(error, UserError):  # of a checksum, or of the end of the file, which says what is in it
        return f"is damaged or cut off ({path.stat().st_size:,} bytes)"
    if isinstance(error, pickle.UnpicklingError):
        return "was not written by yolofast, or is damaged"
    return "is damaged"
