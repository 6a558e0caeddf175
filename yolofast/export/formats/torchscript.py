"""TorchScript: one file that torch itself runs, from Python or C++, without yolofast's code."""

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from yolofast.errors import UserError, in_one_line
from yolofast.export.formats.contract import DecodedNetwork, ExportFormat
from yolofast.export.formats.facts import IMAGES, ExportFacts

FACTS = "yolofast.json"
"""The part of the file that holds its metadata."""


class TorchScript(ExportFormat):
    title, extra, suffix, of_onnx = "TorchScript", "", ".torchscript", False
    lacks: ClassVar[Mapping[str, str]] = {
        "--nms efficientnms": "EfficientNMS_TRT runs in TensorRT only",
        "--threshold-inputs": "TorchScript files have their thresholds as constants",
        "--int8": "int8 is for onnx and openvino",
        "--with-preprocessing": "TorchScript files take prepared images",
    }

    def need(self) -> None:
        """Torch is always there."""

    def write(self, network: DecodedNetwork, facts: ExportFacts, path: Path) -> None:
        images = torch.zeros(facts.batch or 2, 3, *facts.shape)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that torch prefers another format, and that shapes are looked at
                trace: Any = torch.jit.trace
                traced = trace(network, (images,), check_trace=False)
                whole = _End2End if facts.end2end else _Suppressed
                found = traced if facts.nms == "none" else torch.jit.script(whole(traced, facts))
        except (RuntimeError, TypeError, NotImplementedError) as error:
            what = f"the network cannot be written as TorchScript: {in_one_line(error)}"
            raise UserError(what, fix="--to onnx; a layer of your own needs operations that torch can trace") from error
        torch.jit.save(found, str(path), _extra_files={FACTS: json.dumps(facts.metadata())})

    def python_lines(self, name: str, taken: str) -> tuple[str, str]:
        run = f'found = torch.jit.load("{name}")(torch.from_numpy({taken}))\n'
        more = "outputs = [one.numpy() for one in (found if isinstance(found, tuple) else [found])]\n"
        return "import torch", run + more

    def cpp_lines(self, name: str, facts: ExportFacts) -> tuple[str, str, str]:
        run = f"""torch::NoGradGuard nothing_to_learn;
auto network = torch::jit::load("{name}");
auto input = torch::from_blob({IMAGES}.ptr<float>(), {{{facts.batch or 1}, 3, {facts.shape[0]}, {facts.shape[1]}}});
auto found = network.forward({{input}});
"""
        of = "toTuple()->elements()[{place}].toTensor()" if len(facts.outputs) > 1 else "toTensor()"
        return "#include <torch/script.h>\n", run, f"found.{of}.data_ptr<{{kind}}>()"


class _Suppressed(nn.Module):
    """Compiled, not traced: how often its loop runs depends on the image."""

    def __init__(self, predict: nn.Module, facts: ExportFacts) -> None:
        super().__init__()
        self.predict = predict
        self.conf, self.iou, self.most = facts.conf, facts.iou, facts.max_det
        self.agnostic, self.single = facts.agnostic, len(facts.names) == 1

    def rows(self, images: Tensor) -> Tensor:
        """`[B, K, 6]`: x1, y1, x2, y2, score, class, best first; rows of zeros are none."""
        predictions = self.predict(images)
        rows = torch.zeros(predictions.shape[0], self.most, 6)
        for image in range(predictions.shape[0]):
            best, labels = predictions[image, :, 5:].max(1)
            scores = predictions[image, :, 4] if self.single else predictions[image, :, 4] * best
            order = torch.sort(scores, descending=True, stable=True)[1]
            order = order[scores[order] > self.conf]
            centre, half = predictions[image, order, :2], predictions[image, order, 2:4] / 2
            boxes = torch.cat((centre - half, centre + half), 1)
            kept = _kept(boxes, labels[order], self.iou, self.most, self.agnostic)
            found = torch.cat((boxes, scores[order][:, None], labels[order][:, None].float()), 1)[kept]
            rows[image, : found.shape[0]] = found
        return rows

    def forward(self, images: Tensor) -> Tensor:
        return self.rows(images)


class _End2End(_Suppressed):
    """With YOLOv7's four outputs."""

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # type: ignore[override]
        rows = self.rows(images)
        count = (rows[:, :, 4] > 0).sum(1, keepdim=True).int()
        # Numbers lie one after the other, as programs in C++ read them.
        return count, rows[:, :, :4].contiguous(), rows[:, :, 4].contiguous(), rows[:, :, 5].int().contiguous()


def _kept(boxes: Tensor, labels: Tensor, iou: float, most: int, agnostic: bool) -> Tensor:
    """Places of the boxes, which are best first, that no better one suppresses."""
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    free = torch.ones(boxes.shape[0], dtype=torch.bool)
    kept: list[int] = []
    for row in range(boxes.shape[0]):
        if len(kept) < most and bool(free[row]):
            kept.append(row)
            low, high = torch.maximum(boxes[row, :2], boxes[:, :2]), torch.minimum(boxes[row, 2:], boxes[:, 2:])
            shared = (high - low).clamp(min=0).prod(1)
            covered = shared > iou * (areas + areas[row] - shared)
            free &= ~covered if agnostic else ~(covered & (labels == labels[row]))
    return torch.tensor(kept, dtype=torch.long)


TORCHSCRIPT = TorchScript()
