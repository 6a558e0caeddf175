"""Which weights a command means when it names none, or one."""

from collections.abc import Sequence
from pathlib import Path

from yolofast.errors import UserError


def weights_of(names: Sequence[str], project: str | Path = "runs/train") -> str:
    """The named file, or best.pt of the latest run."""
    if len(names) > 1:
        raise UserError(f"--weights names {len(names)} files: asking several together is not built", fix="name one")
    if names:
        return names[0]
    found = sorted(Path(project).glob("*/weights/best.pt"), key=lambda path: path.stat().st_mtime_ns)
    if not found:
        raise UserError("there is no run whose best.pt could be used", fix="name a file: --weights best.pt")
    return str(found[-1])
