"""Packaged model graphs and head groupings (`cfg/`), found by the same relative paths users type."""

import os
from pathlib import Path

from yolofast.errors import UserError, nearest, shorten

ROOT = Path(__file__).parent
# Where a short name is looked for, in order: `yolov7-tiny` is the training graph, the deploy graph needs its path.
_SHORT_NAME_FOLDERS = {"cfg": ("cfg/training", "cfg/deploy"), "heads": ("cfg/heads",)}


def find_resource(name: str | Path, kind: str) -> Path:
    """The file a user means by `name`: a path on disk, a packaged relative path, or a short name such as `yolov7-tiny`.

    `kind` is `cfg` (model graphs) or `heads` (head groupings); it says where short names live.
    """
    text = str(name)
    known = short_names(kind)
    if not text:
        raise UserError("the name of the file is empty", fix=f"give a path or one of: {', '.join(known)}")
    on_disk = Path(text)
    if os.path.isfile(text):  # unlike Path.is_file, it also answers for names no file can have
        return on_disk
    candidates = [ROOT / text, ROOT / "cfg" / text]
    if on_disk.parent == Path("."):
        stem = text.removesuffix(".yaml")
        candidates += [ROOT / folder / f"{stem}.yaml" for folder in _SHORT_NAME_FOLDERS[kind]]
    for path in candidates:
        if os.path.isfile(path) and path.resolve().is_relative_to(ROOT.resolve()):
            return path
    raise UserError(
        f"no such file: {shorten(text)}{nearest(on_disk.stem, known)}",
        fix=f"give a path that exists, or one of: {', '.join(known)}",
    )


def short_names(kind: str) -> list[str]:
    """The short names of the packaged files of one kind, sorted."""
    return sorted({p.stem for folder in _SHORT_NAME_FOLDERS[kind] for p in (ROOT / folder).glob("*.yaml")})
