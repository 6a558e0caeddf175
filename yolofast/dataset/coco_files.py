"""Which COCO file belongs to a split, and where its images lie, by the conventions data sets follow."""

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

_TRIED_NAMES = 20


def conventional_annotations(sources: Sequence[Path], split: str) -> Path | None:
    """The annotation file that lies where such files lie, seen from the folder or list file that names the images.

    For `images/val2017`: `images/val2017/_annotations.coco.json`, then one or two folders up `annotations/` or that
    folder itself, with `instances_val2017.json`, `val2017.json`, or the split's name in place of the folder's.
    """
    if len(sources) != 1:
        return None
    return next((path for path in _candidates(sources[0], split) if path.is_file()), None)


def _candidates(source: Path, split: str) -> Iterator[Path]:
    yield source / "_annotations.coco.json"
    names = dict.fromkeys((source.name if source.is_dir() else source.stem, split))
    for root in (source.parent, source.parent.parent):
        for folder in (root / "annotations", root):
            for name in names:
                yield folder / f"instances_{name}.json"
                yield folder / f"{name}.json"


def image_folder(annotations: Path, file_names: Sequence[str]) -> Path:
    """The folder below which most of these images are, when only the annotation file was named.

    For `x/annotations/instances_val2017.json`: `x/annotations` and `x`, and below each `images`, `val2017` and
    `images/val2017`.
    """
    name = annotations.stem.removeprefix("instances_").removeprefix("image_info_")
    roots = (annotations.parent, annotations.parent.parent)
    folders = [root / below for root in roots for below in (".", "images", name, f"images/{name}")]
    tried = file_names[:_TRIED_NAMES]
    return max(folders, key=lambda folder: sum((folder / name).is_file() for name in tried))


def match_images(file_names: Sequence[str], images: Sequence[str]) -> list[str | None]:
    """The listed image each file name means: the one whose path ends in it, else the only one of the same last part."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for image in dict.fromkeys(images):
        by_name[os.path.basename(image)].append(image)
    return [_match(name.replace("\\", "/"), by_name) for name in file_names]


def _match(file_name: str, by_name: dict[str, list[str]]) -> str | None:
    same = by_name.get(os.path.basename(file_name), [])
    exact = [image for image in same if image.endswith(f"/{file_name.removeprefix('./')}")]
    if len(exact) == 1:
        return exact[0]
    return same[0] if len(same) == 1 else None
