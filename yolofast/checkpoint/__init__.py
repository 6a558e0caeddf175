"""Weights in and out: read any published file without running its code, load it into a model, write our own.

Reading order: `pickle_graph` (bytes -> inert values), `containers` (the two that torch writes), `tensors` (inert
values -> tensors), `foreign` (which of them are the weights), then `read`, `load` and `save`, which users call.
"""

from yolofast.checkpoint.foreign import WeightFile
from yolofast.checkpoint.load import LoadReport, TensorEntry, load_weights
from yolofast.checkpoint.read import read_weights
from yolofast.checkpoint.save import model_content, save_checkpoint, strip_checkpoint

__all__ = [
    "LoadReport",
    "TensorEntry",
    "WeightFile",
    "load_weights",
    "model_content",
    "read_weights",
    "save_checkpoint",
    "strip_checkpoint",
]
