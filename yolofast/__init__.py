"""yolofast: train, fine-tune, evaluate and explain YOLOv7 and YOLOX detectors at the speed of the GPU.

The names below are the public Python API (docs/api.md). They are loaded on first use, so that `yolofast --help` does
not have to wait for torch.
"""

import importlib
import types
from typing import TYPE_CHECKING, Any

from yolofast._version import __version__
from yolofast.extensions import ROOMS_TO_CALL
from yolofast.files.budget import limit_decoder

if TYPE_CHECKING:
    from yolofast.api.detector import Detector, train
    from yolofast.checkpoint.load import load_weights
    from yolofast.decoding import decode
    from yolofast.detect.results import ImageDetections
    from yolofast.errors import UserError
    from yolofast.model.deploy import reparameterise
    from yolofast.model.fuse import fuse
    from yolofast.model.network import build_model
    from yolofast.structures import Targets
    from yolofast.sweep.session import sweep
    from yolofast.track.score.scores import score_tracks
    from yolofast.track.trackers.table import build_tracker
    from yolofast.train.losses.loss_schedule import build_loss

__all__ = [
    "Detector",
    "ImageDetections",
    "Targets",
    "UserError",
    "__version__",
    "build_loss",
    "build_model",
    "build_tracker",
    "decode",
    "fuse",
    "load_weights",
    "reparameterise",
    "score_tracks",
    "sweep",
    "train",
]

_HOME = {
    "Detector": "yolofast.api.detector",
    "ImageDetections": "yolofast.detect.results",
    "Targets": "yolofast.structures",
    "build_loss": "yolofast.train.losses.loss_schedule",
    "UserError": "yolofast.errors",
    "build_model": "yolofast.model.network",
    "build_tracker": "yolofast.track.trackers.table",
    "decode": "yolofast.decoding",
    "fuse": "yolofast.model.fuse",
    "load_weights": "yolofast.checkpoint.load",
    "reparameterise": "yolofast.model.deploy",
    "score_tracks": "yolofast.track.score.scores",
}

limit_decoder()


def __getattr__(name: str) -> Any:
    if name in ROOMS_TO_CALL:
        return importlib.import_module(f"yolofast.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'yolofast' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    if isinstance(value, types.FunctionType):
        value = importlib.import_module("yolofast.api.python_names").spoken_in_python(value)
        value.__module__ = __name__  # by which it is found again, when it is pickled
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
