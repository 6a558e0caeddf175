"""ExecuTorch programs run by ExecuTorch's own runtime, on the CPU."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from yolofast.errors import UserError, in_one_line
from yolofast.export.formats.contract import Array
from yolofast.export.formats.facts import IMAGES, PREDICTIONS
from yolofast.export.formats.sidecar import facts_beside
from yolofast.export.runtimes.contract import Session, checked
from yolofast.extensions import needed


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
        return checked(self.outputs(images)[0], self.facts, self._path)

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
