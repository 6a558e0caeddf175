"""`hyp.yaml` of a run's folder: the hyper-parameters that ran, or YOLOX's recipe, all defaults filled in.

Given back as `--hyp` (`--recipe`) it repeats them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from yolofast.atomic_file import write_whole
from yolofast.errors import UserError


def write_hyp(hyp: Mapping[str, Any], folder: Path) -> None:
    path = folder / "hyp.yaml"
    try:
        write_whole(path, yaml.safe_dump(dict(hyp), sort_keys=False).encode())
    except OSError as error:
        what = f"the hyper-parameters could not be written: {error.strerror or error}"
        raise UserError(what, where=path, fix="check permissions and that the disk has room") from error
