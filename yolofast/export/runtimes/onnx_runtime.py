"""ONNX files run by onnxruntime."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from yolofast.errors import UserError, in_one_line
from yolofast.export.formats.contract import Array
from yolofast.export.formats.facts import IMAGES, PREDICTIONS, facts_of
from yolofast.export.formats.onnx_graph import layer_values, part_of
from yolofast.export.runtimes.contract import Session, checked
from yolofast.extensions import needed

_LARGEST = 2**31
"""Bytes: what a file of this format can be."""


class OnnxSession(Session):
    def __init__(self, path: Path, *, gpu: bool = False) -> None:
        self._model, self._path, self._gpu = _read(path), path, gpu
        self.facts = facts_of({one.key: one.value for one in self._model.metadata_props}, path)
        self._network = started(part_of(self._model, [IMAGES], [PREDICTIONS]), self._path, gpu=self._gpu)
        self._whole: Any = None

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        if self.facts.nms == "efficientnms":
            what = "its suppression, EfficientNMS_TRT, runs in TensorRT only"
            raise UserError(what, where=self._path, fix="export it without --nms efficientnms")
        if self._whole is None:
            self._whole = started(self._model, self._path, gpu=self._gpu)
        outputs = self._whole.run(None, dict(inputs))
        return dict(zip((one.name for one in self._whole.get_outputs()), outputs, strict=True))

    def predict(self, images: Array) -> Array:
        (predictions,) = self._network.run([PREDICTIONS], {IMAGES: np.ascontiguousarray(images)})
        return checked(predictions, self.facts, self._path)

    def layers(self, images: Array) -> Sequence[tuple[str, Array]]:
        last = layer_values(self._model)
        values = list(dict.fromkeys(last.values()))
        session = started(part_of(self._model, [IMAGES], values), self._path, gpu=self._gpu)
        found = dict(zip(values, session.run(values, {IMAGES: np.ascontiguousarray(images)}), strict=True))
        return [(layer, found[value]) for layer, value in last.items()]


def started(model: Any, where: Path | None = None, *, gpu: bool = False) -> Any:
    """The graph as onnxruntime runs it."""
    runtime = needed("onnxruntime", "onnx", "an ONNX file")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = torch.get_num_threads(), 1
    options.log_severity_level = 3
    cuda = "CUDAExecutionProvider"
    providers = [cuda] if gpu and cuda in runtime.get_available_providers() else []
    try:
        return runtime.InferenceSession(
            model.SerializeToString(), options, providers=[*providers, "CPUExecutionProvider"]
        )
    except Exception as error:  # onnxruntime's errors have no class in common but this
        what = f"onnxruntime {runtime.__version__} cannot run it: {in_one_line(error)}"
        raise UserError(what, where=where, fix="export it again, with another --opset") from error


def _read(path: Path) -> Any:
    onnx = needed("onnx", "onnx", "an ONNX file")
    if path.stat().st_size >= _LARGEST:
        raise UserError("is larger than 2 GiB, which no ONNX file is", where=path, fix="check the path")
    try:
        model = onnx.load_model_from_string(path.read_bytes())
    except Exception as error:  # protobuf's error is not a public class
        raise UserError("is no ONNX file, or is damaged", where=path, fix="export it again") from error
    if not model.graph.node:
        raise UserError("is no ONNX file, or is damaged", where=path, fix="export it again")
    return model


def open_onnx(path: Path, *, gpu: bool = False) -> OnnxSession:
    return OnnxSession(path, gpu=gpu)
