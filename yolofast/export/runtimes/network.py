"""An exported file in place of the network it was made of, for everything that detects: suppression is yolofast's."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from yolofast.errors import UserError
from yolofast.export.formats.contract import Array
from yolofast.export.formats.facts import IMAGES
from yolofast.export.runtimes.contract import Session, model_file, open_session
from yolofast.export.runtimes.detections import filled, of_outputs
from yolofast.model.contract import Network
from yolofast.structures import HeadLayout


class ExportedNetwork(Network):
    def __init__(self, session: Session) -> None:
        super().__init__()
        facts = session.facts
        self._session, self.facts = session, facts
        self.family, self.names, self.nc = facts.family, facts.names, len(facts.names)
        self.inputs, self.validation = facts.inputs, facts.validation

    @property
    def layers(self) -> tuple[()]:
        return ()

    @property
    def layout(self) -> HeadLayout:
        return HeadLayout(kind="decoded", nc=self.nc, strides=self.facts.strides, anchors_per_cell=1)

    @property
    def anchors_px(self) -> Tensor:
        return torch.zeros(0)

    @property
    def graph_yaml(self) -> dict[str, Any]:
        return {}

    def forward(self, images: Tensor) -> list[Tensor]:
        """One "map": the predictions, decoded."""
        facts, levels = self.facts, images.float().cpu().numpy()
        if not facts.any_sides and levels.shape[2:] != facts.shape:
            height, width = facts.shape
            what = f"the exported file takes images of {height}×{width} pixels, not {levels.shape[2]}×{levels.shape[3]}"
            raise UserError(what, fix="omit --img and --augment, or export with --dynamic")
        step = facts.batch or len(levels)
        parts = [self._predicted(filled(levels[i : i + step], step)) for i in range(0, len(levels), step)]
        return [torch.from_numpy(np.concatenate(parts)[: len(levels)]).to(images.device)]

    def _predicted(self, images: Array) -> Array:
        if self._session.predicts:
            return self._session.predict(images)
        found = of_outputs(self._session.run({IMAGES: images}), self.facts)
        # Detections as predictions: no better ones can be had, and those a caller's thresholds leave are the same.
        rows = np.zeros((len(found), self.facts.max_det, 5 + self.nc), np.float32)
        for row, one in zip(rows, found, strict=True):
            low, high = one.boxes[:, :2], one.boxes[:, 2:]
            row[: len(one), :5] = np.concatenate(((low + high) / 2, high - low, one.scores[:, None]), axis=1)
            row[np.arange(len(one)), 5 + one.labels] = 1
        return rows


@dataclass(frozen=True)
class OpenedExport:
    network: ExportedNetwork
    path: Path


def open_export(path: str | Path, name: str, *, gpu: bool = False) -> OpenedExport:
    """The file of this format as a network."""
    return OpenedExport(ExportedNetwork(open_session(path, name, gpu=gpu)), model_file(path, name))
