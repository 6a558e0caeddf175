"""Packaged model graphs, head groupings (`cfg/`), data sets, recipes (`data/`, `recipes/`), as users type them.

A data yaml names a built-in data set by `builtin: shapes`; `shapes` alone will do. What is on the disk comes first. But
a folder is a data set only if it holds a data.yaml: one of that name does not hide the built-in data set.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from yolofast.errors import UserError, nearest, nearest_file, shorten
from yolofast.files.yaml_file import read_yaml

ROOT = Path(__file__).parent
BUILTIN_DATA = ("shapes",)
"""Data sets that are made on first use."""
IN_FOLDER = "data.yaml"
_FILES = {
    "cfg": "model file", "heads": "head config", "data": "data yaml", "hyp": "file of hyper-parameters",
    "recipe": "recipe", "plan": "plan", "head_params": "file of augmentations", "experiments": "experiment",
}  # fmt: skip
MULTI_HEADS = ("MultiHeadDetect", "MultiHeadDetectAttention")
"""Modules at the end of a model file whose network has several heads (1B4H)."""
# Where a short name is looked for, in order: `yolov7-tiny` is the training graph, the deploy graph needs its path.
_SHORT_NAMES = {
    "cfg": ("cfg/training/*.yaml", "cfg/yolox/*.yaml", "cfg/deploy/*.yaml"),
    "heads": ("cfg/heads/*.yaml",),
    "data": ("data/coco*.yaml", "data/nuscenes.yaml"),
    "hyp": ("data/hyp.scratch.*.yaml", "data/hyp.gradual_*.yaml"),
    "recipe": ("recipes/*.yaml",),
    "plan": ("plans/*.yaml",),
    "head_params": ("data/hyp.head_params.yaml",),
    "experiments": ("experiments/*.yaml",),
}


def find_resource(name: str | Path, kind: str, also: Sequence[str] = ()) -> Path:
    """The file a user means by `name`: a path on disk, a packaged relative path, or a short name such as `yolov7-tiny`.

    `kind` is `cfg` (model graphs), `heads` (head groupings), `data` (data sets), `hyp` (YOLOv7's recipes),
    `head_params` (`--class-aware-aug`), `recipe` (YOLOX's recipes) or `plan` (freeze plans); it says where short names
    live. `also` are names that would have been understood elsewhere.
    """
    text = str(name)
    known = _files_by_short_name(kind)
    names = sorted([*known, *also])
    if not text:
        raise UserError("the name of the file is empty", fix=f"give a path or one of: {', '.join(names)}")
    on_disk = Path(text)
    if os.path.isfile(text):  # unlike Path.is_file, it also answers for names no file can have
        return on_disk
    candidates = [ROOT / text, ROOT / "cfg" / text]
    if (short := text.removesuffix(".yaml")) in known:
        candidates.append(known[short])
    for path in candidates:
        if os.path.isfile(path) and path.resolve().is_relative_to(ROOT.resolve()):
            return path
    if os.path.isdir(text):
        raise UserError(f"is a folder, not a {_FILES[kind]}", where=text, fix="name a file in it")
    similar = nearest_file(text) if on_disk.parent.name else ""  # a bare name is rather one of ours
    raise UserError(
        f"no such file: {shorten(text)}{similar or nearest(on_disk.stem, names)}",
        fix=f"give a path that exists, or one of: {', '.join(names)}",
    )


def ends_in_several_heads(cfg: str | Path) -> bool | None:
    """Whether the network of a model file is a 1B4H, by its last layer; None of a file that cannot be read."""
    try:
        rows = read_yaml(find_resource(cfg, "cfg")).values.get("head")
    except (UserError, OSError):
        return None
    last = rows[-1] if isinstance(rows, list) and rows else None
    return isinstance(last, list) and len(last) > 2 and last[2] in MULTI_HEADS


def short_names(kind: str) -> list[str]:
    """The short names of the packaged files of one kind, sorted."""
    return sorted(_files_by_short_name(kind))


def _files_by_short_name(kind: str) -> dict[str, Path]:
    """Of two files of one name the first in the order of the patterns counts."""
    paths = [path for pattern in _SHORT_NAMES[kind] for path in sorted(ROOT.glob(pattern))]
    return {path.stem: path for path in reversed(paths)}


def data_yaml(data: str | Path, made: Callable[[], Path]) -> Path:
    """The data yaml that `--data` means; `made` makes the built-in data set and returns its yaml."""
    return _found(data) if builtin_data(data) is None else made()


def builtin_data(data: str | Path) -> str | None:
    """The built-in data set that `--data` means, or None if it names files."""
    if str(data) in BUILTIN_DATA and not os.path.isfile(data) and not os.path.isfile(os.path.join(data, IN_FOLDER)):
        return str(data)
    file = read_yaml(_found(data))
    name = file.values.get("builtin")
    if name is not None and name not in BUILTIN_DATA:
        what = f"there is no built-in data set {shorten(name)}{nearest(str(name), BUILTIN_DATA)}"
        raise UserError(what, where=file.where, line=file.line("builtin"), fix=f"builtin: {BUILTIN_DATA[0]}")
    return name


def _found(data: str | Path) -> Path:
    inside = os.path.join(data, IN_FOLDER)
    return Path(inside) if str(data) and os.path.isfile(inside) else find_resource(data, "data", BUILTIN_DATA)
