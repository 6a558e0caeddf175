"""How a COCO results file calls images and classes that no annotation file has named."""

from yolofast.resources import find_resource
from yolofast.yaml_file import read_yaml

_UNUSED = frozenset({12, 26, 29, 30, 45, 66, 68, 69, 71, 83})
"""COCO numbers its 80 classes from 1 to 90 and leaves these out."""


def category_ids(names: tuple[str, ...]) -> list[int]:
    """COCO's own numbers for COCO's own classes, else the numbers of the classes."""
    if list(names) == _coco_names():
        return [number for number in range(1, 91) if number not in _UNUSED]
    return list(range(len(names)))


def image_id(stem: str) -> int | str:
    """The number an image is named by, as in COCO's data sets, else its name."""
    return int(stem) if stem.isdecimal() else stem


def _coco_names() -> list[str]:
    names = read_yaml(find_resource("data/coco.yaml", "data")).values["names"]
    return list(names.values() if isinstance(names, dict) else names)
