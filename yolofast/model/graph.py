"""YOLOv7's model-graph grammar: a yaml of layers `[from, repeats, module, args]`, read and never evaluated.

`read_graph` checks what needs no knowledge of modules; `module_table.py` knows the modules; `network.py` joins them.
Model files of other families name theirs (`family: yolox`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from torch import Tensor

from yolofast.errors import UserError, nearest, shorten
from yolofast.extensions import FAMILIES, found
from yolofast.files.yaml_file import YamlFile, read_yaml
from yolofast.model.contract import ModelFamily
from yolofast.resources import find_resource

IMAGE = -1
"""The index of the input image among a layer's sources."""

GRAPH = "yolov7"
"""The family of a graph of layers, which names none."""
_LARGEST = 1e15
_KEYS = ("nc", "names", "depth_multiple", "width_multiple", "anchors", "backbone", "head", "ch")
# Far above any real network; they keep a slip of the keyboard from asking for terabytes.
_MAX_LAYERS, _MAX_REPEATS, _MAX_CLASSES, _MAX_ANCHORS = 5_000, 1_000, 100_000, 100


@dataclass(frozen=True)
class LayerSpec:
    """One line of the yaml, its sources made absolute (`IMAGE` is the input)."""

    index: int
    sources: tuple[int, ...]
    repeats: int
    module: str
    args: tuple[Any, ...]
    line: int | None = None


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A model file: everything needed to build the network, and where it came from for messages."""

    where: str | None
    nc: int
    names: tuple[str, ...] | None
    width_multiple: float
    anchors: tuple[tuple[float, ...], ...] | int
    """Sizes in pixels, one row of w,h pairs per level; or only how many anchors a cell has."""
    backbone_layers: int
    layers: tuple[LayerSpec, ...]
    source: Mapping[str, Any]
    """The plain values it was read from, as stored in checkpoints."""

    @property
    def anchors_per_cell(self) -> int:
        return self.anchors if isinstance(self.anchors, int) else len(self.anchors[0]) // 2

    def fail(self, layer: LayerSpec, what: str, fix: str) -> NoReturn:
        """Refuse a layer, pointing at it."""
        raise UserError(f"layer {layer.index} ({layer.module}): {what}", where=self.where, line=layer.line, fix=fix)


def read_graph(cfg: str | Path | Mapping[str, Any], nc: int | None = None) -> Graph:
    """The graph of a file, a packaged path, a short name or a mapping; `nc` replaces the number of classes."""
    document = model_file(cfg)
    values = dict(document.values)
    for key in values if document.where is not None else ():  # a graph kept in a checkpoint cannot be corrected
        if key not in _KEYS:
            what = f"unknown key {shorten(key)}{nearest(str(key), _KEYS)}"
            raise UserError(what, where=document.where, line=document.line(key), fix=f"use only {', '.join(_KEYS)}")
    if nc is not None:
        if values.get("nc") != nc:
            values.pop("names", None)
        values["nc"] = nc
    classes = values.get("nc")
    if not isinstance(classes, int) or isinstance(classes, bool) or not 1 <= classes <= _MAX_CLASSES:
        what = f"nc is {shorten(classes)}" if "nc" in values else "nc is missing"
        fix = f"set nc to a whole number from 1 to {_MAX_CLASSES}"
        raise UserError(what, where=document.where, line=document.line("nc"), fix=fix)
    depth = _multiple(document, values, "depth_multiple")
    anchors = _anchors(document, values)
    backbone = _layer_rows(document, values, "backbone")
    layers: list[LayerSpec] = []
    for section, rows in (("backbone", backbone), ("head", _layer_rows(document, values, "head"))):
        for position, row in enumerate(rows):
            layers.append(_layer(document, row, len(layers), depth, document.line(section, position)))
    return Graph(
        where=document.where,
        nc=classes,
        names=_names(document, values, classes),
        width_multiple=_multiple(document, values, "width_multiple"),
        anchors=anchors,
        backbone_layers=len(backbone),
        layers=tuple(layers),
        source=values,
    )


def model_file(cfg: str | Path | Mapping[str, Any]) -> YamlFile:
    return YamlFile(None, dict(cfg)) if isinstance(cfg, Mapping) else read_yaml(find_resource(cfg, "cfg"))


def is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Neither NaN nor infinite, nor a whole number too long to be a float."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST


def _multiple(document: YamlFile, values: dict[str, Any], key: str) -> float:
    value = values.get(key, 1.0)
    if not is_number(value) or not 0 < value <= 16:
        fix = f"set {key} to a number above 0 and at most 16; the published files say 1.0"
        raise UserError(f"{key} is {shorten(value)}", where=document.where, line=document.line(key), fix=fix)
    return float(value)


def _names(document: YamlFile, values: dict[str, Any], nc: int) -> tuple[str, ...] | None:
    names = values.get("names")
    if names is None:
        return None
    if isinstance(names, dict) and set(names) == set(range(len(names))):
        names = [names[i] for i in range(len(names))]
    if not isinstance(names, list) or len(names) != nc:
        count = f"{len(names)} entries" if isinstance(names, list | dict) else shorten(names)
        fix = f"give {nc} names as a list or as a mapping from 0 to {nc - 1}, or correct nc"
        what = f"names has {count}, but nc is {nc}"
        raise UserError(what, where=document.where, line=document.line("names"), fix=fix)
    return tuple(
        document.as_name(name, "names", i) if isinstance(name, str | int | float) else shorten(name)
        for i, name in enumerate(names)
    )


def _anchors(document: YamlFile, values: dict[str, Any]) -> tuple[tuple[float, ...], ...] | int:
    anchors = values.get("anchors")
    if is_whole(anchors) and 1 <= anchors <= _MAX_ANCHORS:  # type: ignore[operator]
        return anchors  # type: ignore[return-value]
    fix = "give one list of w,h pairs in pixels per level, such as [10,13, 16,30, 33,23], or a number of anchors"
    rows = anchors if isinstance(anchors, list) else []
    for position, row in enumerate(rows):
        if (
            not isinstance(row, list)
            or not row
            or len(row) % 2
            or len(row) > 2 * _MAX_ANCHORS
            or not all(is_number(size) and 0 < size < 1e6 for size in row)
            or len(row) != len(rows[0])
        ):
            what = f"anchors of level {position} are {shorten(row)}"
            raise UserError(what, where=document.where, line=document.line("anchors", position), fix=fix)
    if not rows:
        what = "anchors is missing" if "anchors" not in values else f"anchors is {shorten(anchors)}"
        raise UserError(what, where=document.where, line=document.line("anchors"), fix=fix)
    return tuple(tuple(float(size) for size in row) for row in rows)


def _layer_rows(document: YamlFile, values: dict[str, Any], section: str) -> list[Any]:
    rows = values.get(section)
    if not isinstance(rows, list) or not 1 <= len(rows) <= _MAX_LAYERS:
        what = f"{section} is missing" if section not in values else f"{section} is {shorten(rows)}"
        fix = f"give {section} as a list of layers [from, repeats, module, args]"
        raise UserError(what, where=document.where, line=document.line(section), fix=fix)
    return rows


def _layer(document: YamlFile, row: Any, index: int, depth: float, line: int | None) -> LayerSpec:
    def fail(what: str, fix: str) -> NoReturn:
        raise UserError(f"layer {index}: {what}", where=document.where, line=line, fix=fix)

    if not isinstance(row, list) or len(row) != 4:
        fail(f"{shorten(row)} is not a layer", "write [from, repeats, module, args]")
    from_, repeats, module, args = row
    if not isinstance(module, str):
        fail(f"module is {shorten(module)}", "name the module, such as Conv")
    if not is_whole(repeats) or not 1 <= repeats <= _MAX_REPEATS:
        fail(f"repeats is {shorten(repeats)}", f"give a whole number from 1 to {_MAX_REPEATS}")
    if not isinstance(args, list):
        fail(f"args is {shorten(args)}", "give the arguments as a list, [] for none")
    sources = from_ if isinstance(from_, list) else [from_]
    if not sources:
        fail("from is an empty list", "give -1 for the previous layer, or a list of layer indices")
    absolute = []
    for source in sources:
        if not is_whole(source):
            fail(f"from is {shorten(from_)}", "give whole numbers: -1 for the previous layer, or a layer's index")
        position = index + source if source < 0 else source
        # The layer before the first is the image; nothing reaches further back, and nothing looks ahead.
        if position < IMAGE or position >= index or (position == IMAGE and index > 0):
            reach = "only -1, the image" if index == 0 else f"0 to {index - 1}, or -1 to -{index}"
            fail(f"from {source} is out of range", f"layer {index} can reach {reach}")
        absolute.append(position)
    repeats = max(round(repeats * depth), 1) if repeats > 1 else repeats
    return LayerSpec(index, tuple(absolute), repeats, module, tuple(args), line)


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
