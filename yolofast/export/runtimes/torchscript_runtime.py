"""TorchScript files run by torch.

Such a file is a program. Torch runs it without Python's objects, but open only what you would run.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from yolofast.errors import UserError, in_one_line
from yolofast.export.formats.contract import Array
from yolofast.export.formats.facts import IMAGES, facts_of
from yolofast.export.formats.torchscript import FACTS
from yolofast.export.runtimes.contract import Session, checked


class TorchScriptSession(Session):
    def __init__(self, path: Path, *, gpu: bool = False) -> None:
        said, self._path = {FACTS: ""}, path
        self._device = torch.device("cuda" if gpu and torch.cuda.is_available() else "cpu")
        try:
            load: Any = torch.jit.load
            self._whole = load(str(path), map_location=self._device, _extra_files=said)
            metadata = json.loads(said[FACTS] or "{}")
        except (RuntimeError, ValueError) as error:
            raise UserError("is no TorchScript file, or is damaged", where=path, fix="export it again") from error
        self.facts = facts_of(metadata if isinstance(metadata, dict) else {}, path)
        self._network = self._whole if self.facts.nms == "none" else self._whole.predict

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        found = self._asked(self._whole, inputs[IMAGES])
        return dict(zip(self.facts.outputs, found, strict=True))

    def predict(self, images: Array) -> Array:
        (found,) = self._asked(self._network, images)
        return checked(found, self.facts, self._path)

    def outputs(self, images: Array) -> list[Array]:
        return self._asked(self._whole, images)

    @torch.no_grad()
    def _asked(self, module: Any, images: Array) -> list[Array]:
        try:
            found = module(torch.from_numpy(images).to(self._device))
        except RuntimeError as error:
            what = f"torch {torch.__version__} cannot run it: {in_one_line(error)}"
            raise UserError(what, where=self._path, fix="export it again") from error
        return [one.cpu().numpy() for one in (found if isinstance(found, tuple) else (found,))]


def open_torchscript(path: Path, *, gpu: bool = False) -> TorchScriptSession:
    return TorchScriptSession(path, gpu=gpu)
