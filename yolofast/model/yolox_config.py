"""Which YOLOX: the few values that make one, read from a model file, and found again in a published weight file.

```yaml
family: yolox
nc: 80
names: coco             # names of a packaged data set, or a list; without them classes are numbers
depth_multiple: 0.33    # bottlenecks
width_multiple: 0.5     # channels
depthwise: false
image_size: 640         # what it is meant for; only a default
```
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from torch import Tensor

from yolofast.errors import UserError, nearest, shorten
from yolofast.files.yaml_file import YamlFile, read_yaml
from yolofast.resources import ROOT, find_resource

FAMILY = "yolox"
_KEYS = ("family", "nc", "names", "depth_multiple", "width_multiple", "depthwise", "image_size")
# Twice the largest published and more; beyond it a file holds a typing error.
_MOST_DEPTH, _MOST_WIDTH, _MOST_CLASSES, _MOST_PIXELS = 4.0, 3.0, 100_000, 32_768
_BASE_CHANNELS = 64
_STEM, _DEPTHWISE = "backbone.backbone.stem.conv.conv.weight", "backbone.backbone.dark2.0.dconv.conv.weight"
_BOTTLENECK, _CLASSES = "backbone.backbone.dark2.1.m.{}.conv1.conv.weight", "head.cls_preds.0.weight"


@dataclass(frozen=True, kw_only=True)
class YoloXConfig:
    nc: int
    names: tuple[str, ...]
    depth: float
    width: float
    depthwise: bool
    image_size: int

    @property
    def base_channels(self) -> int:
        """Channels of the stem; all others are multiples of it."""
        return int(_BASE_CHANNELS * self.width)

    @property
    def bottlenecks(self) -> int:
        """Of the shortest stages; dark3 and dark4 have three times as many."""
        return max(round(3 * self.depth), 1)

    def to_dict(self) -> dict[str, Any]:
        """Plain values in the layout of the yaml, without the names: a checkpoint has an entry for those."""
        return {
            "family": FAMILY,
            "nc": self.nc,
            "depth_multiple": self.depth,
            "width_multiple": self.width,
            "depthwise": self.depthwise,
            "image_size": self.image_size,
        }


def read_yolox(document: YamlFile, nc: int | None = None) -> YoloXConfig:
    """The YOLOX that a model file describes; `nc` replaces its number of classes."""
    for key in document.values:
        if key not in _KEYS:
            what = f"unknown key {shorten(key)}{nearest(str(key), _KEYS)}"
            raise UserError(what, where=document.where, line=document.line(key), fix=f"use only {', '.join(_KEYS)}")
    own_nc = _number(document, "nc", 1, _MOST_CLASSES, whole=True)
    classes = own_nc if nc is None else nc
    if classes > _MOST_CLASSES:
        raise UserError(f"nc is {classes}", fix=f"give at most {_MOST_CLASSES:,} classes")
    depthwise = document.values.get("depthwise", False)
    if not isinstance(depthwise, bool):
        _fail(document, "depthwise", "give true or false")
    return YoloXConfig(
        nc=classes,
        names=_names(document, own_nc) if classes == own_nc else _numbers(classes),
        depth=_number(document, "depth_multiple", 0.01, _MOST_DEPTH),
        width=_number(document, "width_multiple", 0.125, _MOST_WIDTH),
        depthwise=depthwise,
        image_size=_number(document, "image_size", 32, _MOST_PIXELS, whole=True),
    )


def yolox_of(tensors: Mapping[str, Tensor]) -> dict[str, Any] | None:
    """The model file's values for weights under YOLOX's published names; None if they are of another family.

    Published files do not say which size they are, but the shapes do.
    """
    if not all(name in tensors and tensors[name].ndim == 4 for name in (_STEM, _CLASSES, _BOTTLENECK.format(0))):
        return None
    bottlenecks = 1
    while _BOTTLENECK.format(bottlenecks) in tensors:
        bottlenecks += 1
    nc = tensors[_CLASSES].shape[0]
    shape = (tensors[_STEM].shape[0], bottlenecks, _DEPTHWISE in tensors)
    for path in sorted((ROOT / "cfg" / "yolox").glob("*.yaml")):
        known = read_yolox(read_yaml(path))
        if (known.base_channels, known.bottlenecks, known.depthwise) == shape:
            return read_yaml(path).values if nc == known.nc else {**known.to_dict(), "nc": nc}
    values = {"depth_multiple": bottlenecks / 3, "width_multiple": shape[0] / _BASE_CHANNELS, "depthwise": shape[2]}
    return {"family": FAMILY, "nc": nc, **values, "image_size": 640}


def _number(document: YamlFile, key: str, least: float, most: float, *, whole: bool = False) -> Any:
    value = document.values.get(key)
    kinds = int if whole else (int, float)
    if not isinstance(value, kinds) or isinstance(value, bool) or not least <= value <= most:
        _fail(document, key, f"set {key} to a {'whole ' if whole else ''}number from {least:g} to {most:g}")
    return value


def _names(document: YamlFile, nc: int) -> tuple[str, ...]:
    names = document.values.get("names")
    if names is None:
        return _numbers(nc)
    if isinstance(names, str):
        names = read_yaml(find_resource(names, "data")).values.get("names")
    if not isinstance(names, list) or len(names) != nc or not all(isinstance(name, str | float) for name in names):
        _fail(document, "names", f"give {nc} names as a list, or the name of a packaged data set: coco")
    return tuple(document.as_name(name, "names", i) for i, name in enumerate(names))


def _numbers(nc: int) -> tuple[str, ...]:
    return tuple(str(i) for i in range(nc))


def _fail(document: YamlFile, key: str, fix: str) -> NoReturn:
    known = key in document.values
    what = f"{key} is {shorten(document.values[key])}" if known else f"{key} is missing"
    raise UserError(what, where=document.where, line=document.line(key), fix=fix)
