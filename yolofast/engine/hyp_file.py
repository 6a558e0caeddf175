"""`hyp.yaml` of a run's folder: the hyper-parameters that ran, or YOLOX's recipe, all defaults filled in.

Given back as `--hyp` (`--recipe`) it repeats them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from yolofast.atomic_file import write_whole
from yolofast.errors import UserError
from yolofast.runs.layout import FILES
from yolofast.yaml_file import dump_yaml, read_yaml

HYP_FILE = FILES.hyp


def hyp_text(hyp: Mapping[str, Any]) -> bytes:
    return dump_yaml(hyp).encode()


def write_hyp(hyp: Mapping[str, Any], folder: Path) -> None:
    path = folder / HYP_FILE
    try:
        write_whole(path, hyp_text(hyp))
    except OSError as error:
        what = f"the hyper-parameters could not be written: {error.strerror or error}"
        raise UserError(what, where=path, fix="check permissions and that the disk has room") from error


def read_hyp(folder: Path) -> Mapping[str, Any] | None:
    """None if the run had not written them yet."""
    path = folder / HYP_FILE
    return read_yaml(path).values if path.is_file() else None
