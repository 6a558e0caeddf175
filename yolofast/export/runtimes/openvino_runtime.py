"""OpenVINO's models run by OpenVINO, on the CPU."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from yolofast.errors import UserError, in_one_line
from yolofast.export.formats.contract import Array
from yolofast.export.formats.facts import IMAGE, IMAGES, PREDICTIONS, facts_of
from yolofast.export.formats.openvino import LAYERS, ROOM, values_of
from yolofast.export.runtimes.contract import Session, checked
from yolofast.extensions import needed


class OpenVinoSession(Session):
    """On the CPU, in fp32 whatever the processor has: so a file gives the same on each machine."""

    def __init__(self, path: Path) -> None:
        self._openvino, self._path = needed("openvino", "openvino", "an OpenVINO file"), path
        if not path.with_suffix(".bin").is_file():
            raise UserError("is half a model: its .bin is missing", where=path, fix="copy both files, or export again")
        self._core = _core()
        self._model = self._read()
        self.facts = facts_of(self._said(), path)
        self._network = self._started(self._part([PREDICTIONS]))
        self._whole: Any = None

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        if self._whole is None:
            self._whole = self._started(self._model)
        found = _asked(self._whole, dict(inputs))
        return dict(zip(self.facts.outputs, found, strict=True))

    def predict(self, images: Array) -> Array:
        return checked(_asked(self._network, [np.ascontiguousarray(images)])[0], self.facts, self._path)

    def layers(self, images: Array) -> Sequence[tuple[str, Array]]:
        layers: dict[str, str] = json.loads(self._said().get(LAYERS, "{}"))
        values = list(dict.fromkeys(layers.values()))
        results = _asked(self._started(self._part(values)), [np.ascontiguousarray(images)])
        found = dict(zip(values, results, strict=True))
        return [(layer, found[value]) for layer, value in layers.items()]

    def _read(self) -> Any:
        try:
            return self._core.read_model(str(self._path))
        except Exception as error:  # openvino's errors have no class in common but this
            what = "is no OpenVINO model, or is damaged"
            raise UserError(what, where=self._path, fix="export it again") from error

    def _said(self) -> dict[str, str]:
        if not self._model.has_rt_info([ROOM]):
            return {}
        room = self._model.get_rt_info([ROOM]).value
        return {name: str(one.value if hasattr(one, "value") else one) for name, one in room.items()}

    def _part(self, names: Sequence[str]) -> Any:
        """A copy of what leads from the images to these values."""
        ops = self._openvino.opset13
        model = self._model.clone()
        values = values_of(model)
        missing = [name for name in (IMAGES, *names) if name not in values]
        if missing:
            raise UserError(f"the graph has no {missing[0]}", where=self._path, fix="export it again: it is damaged")
        images = values[IMAGES]
        if IMAGE in values:
            taken = ops.parameter(images.get_partial_shape(), images.get_element_type())
            for target in images.get_target_inputs():
                target.replace_source_output(taken.output(0))
        else:
            taken = images.get_node()
        results = [ops.result(taken.output(0) if name == IMAGES else values[name]) for name in names]
        return self._openvino.Model(results, [taken])

    def _started(self, model: Any) -> Any:
        config = {
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        }
        try:
            return self._core.compile_model(model, "CPU", config)
        except Exception as error:
            what = f"openvino {self._openvino.__version__} cannot run it: {in_one_line(error)}"
            raise UserError(what, where=self._path, fix="export it again, with another --opset") from error


@cache
def _core() -> Any:
    """One, kept until the process ends: each that runs a model gives the thread a stack for its signals, and puts the
    one before it back when it goes. Where they go in the order they came, that one is freed memory by then, and the
    next signal, Ctrl+C too, is a segmentation fault."""
    return needed("openvino", "openvino", "an OpenVINO file").Core()


def _asked(compiled: Any, inputs: Any) -> list[Array]:
    """The outputs, in order. A request of its own: several threads may ask at once."""
    request = compiled.create_infer_request()
    request.infer(inputs)
    return [np.array(request.get_output_tensor(place).data) for place in range(len(compiled.outputs))]


def open_openvino(path: Path, *, gpu: bool = False) -> OpenVinoSession:
    return OpenVinoSession(path)
