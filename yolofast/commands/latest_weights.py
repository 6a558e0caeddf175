"""Which weights a command means when it names none."""

from collections.abc import Callable, Sequence
from pathlib import Path

from yolofast.errors import UserError
from yolofast.runs.layout import FILES


def weights_of(names: Sequence[str], say: Callable[[str], object], project: str | Path = "runs/train") -> list[str]:
    """The named files, or best.pt of the latest run that has one, which is told."""
    if names:
        return list(names)
    found = sorted(Path(project).glob(f"*/{FILES.weights}/{FILES.best}"), key=lambda path: path.stat().st_mtime_ns)
    if not found:
        raise UserError("there is no run whose best.pt could be used", fix="name a file: --weights best.pt")
    say(f"weights: {found[-1]}")
    return [str(found[-1])]
