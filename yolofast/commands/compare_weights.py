"""The weight files of a run for `compare`: sizes of all, and what is in the best and the last one."""

from dataclasses import replace
from pathlib import Path

from yolofast.checkpoint.contents import contents_of
from yolofast.errors import UserError
from yolofast.report.compare.run import Run, WeightsFile
from yolofast.runs.layout import FILES

_LOOKED_INTO = (FILES.best, FILES.last)
_MOST = 30


def with_weights(run: Run) -> Run:
    found = [path for path in (run.folder / FILES.weights).glob("*.pt") if path.is_file()]
    found.sort(key=lambda path: (_order(path.name), path.name))
    return replace(run, weights=tuple(_weights_file(path) for path in found[:_MOST]))


def _order(name: str) -> int:
    return _LOOKED_INTO.index(name) if name in _LOOKED_INTO else len(_LOOKED_INTO)


def _weights_file(path: Path) -> WeightsFile:
    """A file that cannot be looked into has a size all the same."""
    size = path.stat().st_size
    if path.name not in _LOOKED_INTO:
        return WeightsFile(name=path.name, bytes=size)
    try:
        return WeightsFile(name=path.name, bytes=size, entries=contents_of(path))
    except UserError as error:
        return WeightsFile(name=path.name, bytes=size, problem=error.what)
