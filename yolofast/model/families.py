"""Which families of networks can be built, and how their files and weights are recognised.

A model file names its family (`family: yolox`); a graph of layers, which is YOLOv7's, names none.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from yolofast.errors import UserError, shorten
from yolofast.files.yaml_file import YamlFile
from yolofast.model.contract import Network
from yolofast.model.graph import model_file
from yolofast.model.yolox_config import read_yolox, yolox_of
from yolofast.model.yolox_network import YoloX

GRAPH = "yolov7"


@dataclass(frozen=True, kw_only=True)
class ModelFamily:
    title: str
    """As people write it."""
    build: Callable[[YamlFile, int | None], Network]
    """From a model file; the number replaces its number of classes."""
    graph_of: Callable[[Mapping[str, Tensor]], dict[str, Any] | None]
    """The model file's values for weights that do not hold them; None if the weights are of another family."""


FAMILIES: dict[str, ModelFamily] = {
    "yolox": ModelFamily(title="YOLOX", build=lambda file, nc: YoloX(read_yolox(file, nc)), graph_of=yolox_of),
}
"""Besides graphs of layers."""


def family_named(cfg: str | Path | Mapping[str, Any]) -> str:
    """The family of a model file."""
    file = model_file(cfg)
    if "family" not in file.values:
        return GRAPH
    name = file.values["family"]
    if not isinstance(name, str) or name not in FAMILIES:
        fix = f"write {' or '.join(FAMILIES)}; a graph of layers (YOLOv7) names no family"
        raise UserError(f"family is {shorten(name)}", where=file.where, line=file.line("family"), fix=fix)
    return name


def graph_of(tensors: Mapping[str, Tensor]) -> dict[str, Any] | None:
    """The model file's values for weights under published names; None if no family knows them."""
    found = (family.graph_of(tensors) for family in FAMILIES.values())
    return next((graph for graph in found if graph is not None), None)
