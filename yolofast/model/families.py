"""Which families of networks can be built, and how their files and weights are recognised.

A model file names its family (`family: yolox`); a graph of layers, which is YOLOv7's, names none.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from yolofast.errors import UserError, shorten
from yolofast.extensions import FAMILIES, found
from yolofast.model.contract import ModelFamily
from yolofast.model.graph import model_file

GRAPH = "yolov7"


def model_families() -> dict[str, ModelFamily]:
    """Besides graphs of layers."""
    return {name: found(places.network) for name, places in FAMILIES.items() if places.network}


def family_named(cfg: str | Path | Mapping[str, Any]) -> str:
    """The family of a model file."""
    file = model_file(cfg)
    if "family" not in file.values:
        return GRAPH
    name, known = file.values["family"], model_families()
    if not isinstance(name, str) or name not in known:
        fix = f"write {' or '.join(known)}; a graph of layers (YOLOv7) names no family"
        raise UserError(f"family is {shorten(name)}", where=file.where, line=file.line("family"), fix=fix)
    return name


def graph_of(tensors: Mapping[str, Tensor]) -> dict[str, Any] | None:
    """The model file's values for weights under published names; None if no family knows them."""
    graphs = (family.graph_of(tensors) for family in model_families().values())
    return next((graph for graph in graphs if graph is not None), None)
