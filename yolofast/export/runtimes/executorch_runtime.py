"""ExecuTorch programs run by ExecuTorch's own runtime, on the CPU."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from yolofast.errors import UserError, in_one_line
from yolofast.export.formats.contract import Array, needed
from yolofast.export.formats.facts import IMAGES, PREDICTIONS
from yolofast.export.formats.sidecar import facts_beside
from yolofast.export.runtimes.contract import Session


class ExecuTorchSession(Session):
    def __init__(self, path: Path) -> None:
        runtime = needed("executorch.runtime", "executorch", "an ExecuTorch file")
        self.facts, self._path = facts_beside(path), path
        try:
            self._program = runtime.Runtime.get().load_program(path.read_bytes())
            self._method: Any = self._program.load_method("forward")
        except (RuntimeError, ValueError, OSError) as error:
            raise UserError("is no ExecuTorch file, or is damaged", where=path, fix="export it again") from error
        self._one_at_a_time = threading.Lock()
        """A method has one place for its values."""

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return {PREDICTIONS: self.predict(inputs[IMAGES])}

    def predict(self, images: Array) -> Array:
        predictions = self.outputs(images)[0]
        wanted = 5 + len(self.facts.names)
        if predictions.ndim != 3 or predictions.shape[2] != wanted:
            what = (
                f"its predictions have shape {list(predictions.shape)}, but [batch, n, {wanted}] belongs to its classes"
            )
            raise UserError(what, where=self._path, fix="export it again: it is damaged")
        return predictions

    def outputs(self, images: Array) -> list[Array]:
        with self._one_at_a_time:
            try:
                found = self._method.execute([torch.from_numpy(np.ascontiguousarray(images))])
            except (RuntimeError, ValueError) as error:
                what = f"executorch cannot run it: {in_one_line(error)}"
                raise UserError(what, where=self._path, fix="export it again") from error
            return [one.numpy().copy() for one in found]


def open_executorch(path: Path, *, gpu: bool = False) -> ExecuTorchSession:
    return ExecuTorchSession(path)
