"""ncnn's models run by ncnn, on the CPU in fp32; their raw maps are decoded here."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from yolofast.decoding import decode
from yolofast.errors import UserError
from yolofast.export.formats.contract import Array
from yolofast.export.formats.facts import IMAGES, PREDICTIONS
from yolofast.export.formats.ncnn import LAYOUT
from yolofast.export.formats.sidecar import fact_beside, facts_beside
from yolofast.export.runtimes.contract import Session
from yolofast.extensions import needed
from yolofast.structures import HeadLayout


class _Reader:
    """How the maps are read, as the file says it."""

    def __init__(self, path: Path) -> None:
        try:
            said = json.loads(fact_beside(path, LAYOUT))
            fields = {name: _tuples(value) for name, value in said["layout"].items()}
            self.layout = HeadLayout(**fields)
            self.anchors_px = torch.tensor(said["anchors_px"], dtype=torch.float32)
            columns = said["class_columns"]
            self.class_columns = None if columns is None else torch.tensor(columns, dtype=torch.int64)
            whole = self.layout.levels > 0 and self.layout.nc > 0 and self.layout.kind in ("anchor", "bin", "point")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            whole = False
        if not whole:
            raise UserError(f"its {LAYOUT} are damaged", where=path, fix="export it again")


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


class NcnnSession(Session):
    def __init__(self, path: Path) -> None:
        ncnn = needed("ncnn", "ncnn", "an ncnn model")
        self.facts, self._path, self._reader = facts_beside(path), path, _Reader(path)
        self._matrix, self._network = ncnn.Mat, ncnn.Net()
        options = self._network.opt
        options.use_fp16_packed = options.use_fp16_storage = options.use_fp16_arithmetic = False
        options.num_threads = torch.get_num_threads()
        weights = path.with_suffix(".bin")
        if not weights.is_file():
            raise UserError("is half a model: its .bin is missing", where=path, fix="copy both files, or export again")
        if self._network.load_param(str(path)) or self._network.load_model(str(weights)):
            what = f"ncnn {ncnn.__version__} cannot load it: it is damaged, or has a layer that ncnn does not know"
            raise UserError(what, where=path, fix="--to onnx or openvino")

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return {PREDICTIONS: self.predict(inputs[IMAGES])}

    def predict(self, images: Array) -> Array:
        layout, (height, width) = self._reader.layout, images.shape[2:]
        asked = self._network.create_extractor()
        levels = np.ascontiguousarray(images[0])  # ncnn looks at its memory, and keeps no hold of it
        asked.input("in0", self._matrix(levels))
        maps = []
        for number in range(layout.levels * layout.heads):
            failed, found = asked.extract(f"out{number}")
            stride = layout.strides[number % layout.levels]
            shape = (1, layout.anchors_per_cell, height // stride, width // stride)
            values = np.array(found)
            if failed or values.size % math.prod(shape) or not values.size:
                what = f"map {number} of ncnn has {values.size} numbers, which no head of {shape[1:]} gives"
                raise UserError(what, where=self._path, fix="--to onnx or openvino")
            maps.append(torch.from_numpy(values.reshape(*shape, -1)))
        predictions: Array = decode(maps, self._reader).numpy()
        return predictions

    def outputs(self, images: Array) -> list[Array]:
        asked = self._network.create_extractor()
        levels = np.ascontiguousarray(images[0])
        asked.input("in0", self._matrix(levels))
        count = len(self._network.output_names())
        return [np.array(asked.extract(f"out{number}")[1]) for number in range(count)]


def open_ncnn(path: Path, *, gpu: bool = False) -> NcnnSession:
    return NcnnSession(path)
