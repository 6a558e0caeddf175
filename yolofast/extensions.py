"""What can be added with one line: plain tables, whose keys are the choices of a setting.

An entry says where its code is as `module:name`, so that settings know the names without importing any of it. Loggers
of experiments (`LOGGERS`) have a table where they are used.
"""

import sys
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, Literal

from yolofast.errors import UserError, nearest, shorten


@dataclass(frozen=True, kw_only=True)
class Assigner:
    """Who learns which box."""

    assign: str
    """A function `(raw maps, targets, head) -> list[Assignment]`, `head` being what it may ask of one (`Head`)."""
    anchors: bool
    """It serves heads with anchors (YOLOv7)."""
    points: bool
    """It serves heads without (YOLOX)."""
    counterpart: str = ""
    """The same idea for the other kind of head."""
    cheaper: str = ""
    """One that takes less time, with other results."""


ASSIGNERS: dict[str, Assigner] = {
    "ota": Assigner(
        assign="yolofast.assign.ota:by_ota", anchors=True, points=False, counterpart="simota", cheaper="anchor"
    ),
    "anchor": Assigner(assign="yolofast.assign.anchor:by_anchor", anchors=True, points=False),
    "tal": Assigner(assign="yolofast.assign.tal:by_tal", anchors=True, points=True),
    "simota": Assigner(
        assign="yolofast.assign.simota:by_simota", anchors=False, points=True, counterpart="ota", cheaper="tal"
    ),
}

OPTIMIZERS: dict[str, str] = {
    "sgd": "yolofast.optim.sgd:Sgd",
    "adam": "yolofast.optim.adam:Adam",
    "adamw": "yolofast.optim.adam:AdamW",
    "muon": "yolofast.optim.muon:Muon",
}
"""What makes an `Optimizer` of parameter groups."""


@dataclass(frozen=True, kw_only=True)
class FamilyPlaces:
    """Of a family of networks."""

    network: str
    """What makes networks of model files and recognises weights (`ModelFamily`); none for graphs of layers."""
    training: str
    """The module whose `TRAINING` says how they learn. No network is compiled of it, so it is named without a colon."""


FAMILIES: dict[str, FamilyPlaces] = {
    "yolox": FamilyPlaces(network="yolofast.model.yolox_network:YOLOX", training="yolofast.train.families.yolox"),
    "yolov7": FamilyPlaces(network="", training="yolofast.train.families.yolov7"),
}


@dataclass(frozen=True, kw_only=True)
class FormatPlaces:
    """A form that data have on the disk, which `convert` reads."""

    title: str
    holds: Literal["images", "sequences", "tables"]
    """Which kind of conversion: labelled images, tracks, or nuScenes."""
    code: str
    """Of images a module with `recognise` and `read`; of sequences a `Format`; of tables the command's function."""
    written: bool = False
    """Whether it is a form to convert to."""


FORMATS: dict[str, FormatPlaces] = {
    "roboflow": FormatPlaces(title="a Roboflow export", holds="images", code="yolofast.dataset.formats.roboflow"),
    "cvat": FormatPlaces(title="CVAT XML", holds="images", code="yolofast.dataset.formats.cvat"),
    "voc": FormatPlaces(title="Pascal VOC XML", holds="images", code="yolofast.dataset.formats.voc"),
    "labelme": FormatPlaces(title="LabelMe JSON", holds="images", code="yolofast.dataset.formats.labelme"),
    "labelstudio": FormatPlaces(title="Label Studio JSON", holds="images", code="yolofast.dataset.formats.labelstudio"),
    "coco": FormatPlaces(title="COCO JSON", holds="images", code="yolofast.dataset.formats.coco", written=True),
    "openimages": FormatPlaces(title="Open Images CSV", holds="images", code="yolofast.dataset.formats.openimages"),
    "kitti": FormatPlaces(title="KITTI labels", holds="images", code="yolofast.dataset.formats.kitti"),
    "visdrone": FormatPlaces(title="VisDrone labels", holds="images", code="yolofast.dataset.formats.visdrone"),
    "yolo": FormatPlaces(title="YOLO labels", holds="images", code="yolofast.dataset.formats.yolo", written=True),
    "mot": FormatPlaces(
        title="MOTChallenge folders and text", holds="sequences", code="yolofast.track.formats.table:MOT", written=True
    ),
    "coco-video": FormatPlaces(
        title="COCO JSON with videos", holds="sequences", code="yolofast.track.formats.table:COCO_VIDEO", written=True
    ),
    "tao": FormatPlaces(title="TAO JSON", holds="sequences", code="yolofast.track.formats.table:TAO", written=True),
    "nuscenes": FormatPlaces(
        title="nuScenes tables", holds="tables", code="yolofast.commands.convert_nuscenes:convert_nuscenes"
    ),
}
"""In the order in which a place is compared with them."""


EXPORT_FORMATS: dict[str, str] = {
    "onnx": "yolofast.export.formats.onnx:ONNX",
    "openvino": "yolofast.export.formats.openvino:OPENVINO",
    "tensorrt": "yolofast.export.formats.tensorrt:TENSORRT",
    "torchscript": "yolofast.export.formats.torchscript:TORCHSCRIPT",
    "executorch": "yolofast.export.formats.traced:EXECUTORCH",
    "ncnn": "yolofast.export.formats.ncnn:NCNN",
    "coreml": "yolofast.export.formats.traced:COREML",
    "litert": "yolofast.export.formats.traced:LITERT",
}
"""What a network can be exported to: an `ExportFormat`, which writes such files."""

RUNTIMES: dict[str, str] = {
    "onnx": "yolofast.export.runtimes.onnx_runtime:open_onnx",
    "openvino": "yolofast.export.runtimes.openvino_runtime:open_openvino",
    "tensorrt": "yolofast.export.runtimes.tensorrt_runtime:open_tensorrt",
    "executorch": "yolofast.export.runtimes.executorch_runtime:open_executorch",
    "ncnn": "yolofast.export.runtimes.ncnn_runtime:open_ncnn",
    "torchscript": "yolofast.export.runtimes.torchscript_runtime:open_torchscript",
}
"""What runs the files of a format: a `Loader`, by the format's name. Of the others nothing runs here."""


def found(where: str) -> Any:
    """What `module:name` means."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


def needed(package: str, extra: str, wanted_by: str) -> Any:
    """A package that not everybody has, imported; the extra named `extra` adds it."""
    try:
        return import_module(package)
    except ImportError as error:
        what = f"{wanted_by} needs {package}, which is not installed"
        raise UserError(what, fix=f"pip install 'yolofast[{extra}]'") from error


def check_assigner(name: object) -> str:
    if not isinstance(name, str) or name not in ASSIGNERS:
        hint = nearest(name, ASSIGNERS) if isinstance(name, str) else ""
        raise UserError(f"assigner is {shorten(name)}{hint}", fix=f"use one of {', '.join(ASSIGNERS)}")
    return name


def assigners_for(*, anchors: bool) -> list[str]:
    """Those that serve such a head; what is usual for it comes first."""
    serving = [name for name, entry in ASSIGNERS.items() if (entry.anchors if anchors else entry.points)]
    return sorted(serving, key=lambda name: not ASSIGNERS[name].counterpart)


def assigner_for(name: str, *, anchors: bool) -> str:
    """The one that `name` means for a head with or without anchors: `ota`, the default, stands for its counterpart."""
    serving = assigners_for(anchors=anchors)
    if name in serving:
        return name
    other = ASSIGNERS[name].counterpart
    if not anchors and other in serving:
        return other
    kind = "anchors" if anchors else "no anchors"
    words = [f"{one}, its counterpart" if one == other else one for one in serving]
    fix = f"use {', '.join(words[:-1])} or {words[-1]}"
    raise UserError(f"assigner is {shorten(name)}, but this head has {kind}", fix=fix)


ROOMS_TO_CALL = {"train": "yolofast.api.detector", "sweep": "yolofast.sweep.session"}
"""Rooms whose name is that of a function of the Python API, and the module it is in. Written unlike the tables above:
a step imports those, so what they name counts as compiled (`gears/compiling.py`)."""


class RoomToCall(ModuleType):
    """`yolofast.train` is a room with files, and `yolofast.train(data=…)` trains."""

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        name = self.__name__.rpartition(".")[2]
        function = getattr(import_module(ROOMS_TO_CALL[name]), name)
        return import_module("yolofast.api.python_names").spoken_in_python(function)(*arguments, **settings)

    @classmethod
    def make(cls, name: str) -> None:
        """Of the room of that name."""
        sys.modules[name].__class__ = cls
