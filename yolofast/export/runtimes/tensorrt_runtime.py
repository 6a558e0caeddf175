"""TensorRT's engines run by TensorRT, with torch's memory; not tried on a GPU yet."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from yolofast.errors import UserError
from yolofast.export.formats.contract import Array
from yolofast.export.formats.facts import IMAGES, PREDICTIONS
from yolofast.export.formats.sidecar import facts_beside
from yolofast.export.runtimes.contract import Session
from yolofast.extensions import needed


class TensorRtSession(Session):
    def __init__(self, path: Path) -> None:
        self._trt = needed("tensorrt", "tensorrt", "a TensorRT engine")
        self.facts = facts_beside(path)
        self.predicts = self.facts.nms == "none"  # an engine has no values between its ends
        if not torch.cuda.is_available():
            raise UserError("a TensorRT engine runs on a GPU, and there is none", where=path, fix="--to onnx")
        logger = self._trt.Logger(self._trt.Logger.ERROR)
        self._trt.init_libnvinfer_plugins(logger, "")
        self._engine: Any = self._trt.Runtime(logger).deserialize_cuda_engine(path.read_bytes())
        if self._engine is None:
            what = f"was not built by TensorRT {self._trt.__version__} for this GPU, or is damaged"
            raise UserError(what, where=path, fix="export it again on this machine")
        self._context = self._engine.create_execution_context()
        self._one_at_a_time = threading.Lock()

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        kinds = {self._trt.float32: torch.float32, self._trt.int32: torch.int32}
        given = torch.from_numpy(np.ascontiguousarray(inputs[IMAGES])).cuda()
        with self._one_at_a_time:
            self._context.set_input_shape(IMAGES, tuple(given.shape))
            self._context.set_tensor_address(IMAGES, given.data_ptr())
            found = {}
            for name in self.facts.outputs:
                shape, kind = self._context.get_tensor_shape(name), self._engine.get_tensor_dtype(name)
                found[name] = torch.empty(tuple(shape), dtype=kinds[kind], device="cuda")
                self._context.set_tensor_address(name, found[name].data_ptr())
            self._context.execute_async_v3(torch.cuda.current_stream().cuda_stream)
            return {name: one.cpu().numpy() for name, one in found.items()}

    def predict(self, images: Array) -> Array:
        return self.run({IMAGES: images})[PREDICTIONS]


def open_tensorrt(path: Path, *, gpu: bool = False) -> TensorRtSession:
    return TensorRtSession(path)
