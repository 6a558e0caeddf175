"""Small losses of every kind over one set of levels, for tests that must hold for all of them."""

import torch
from torch import Tensor

from tests.map_reader import map_reader
from tests.reference.candidates import AnchorGrid
from yolofast.loss.criterion import Criterion, LossSettings
from yolofast.train.losses.multihead_criterion import MultiHeadCriterion
from yolofast.train.losses.yolov7_criterion import YoloV7Criterion

GRID = AnchorGrid(anchors_px=[[(16, 16), (32, 24)], [(48, 48), (64, 96)]], strides=[8, 16])
NC, BINS = 4, 21
HEADS = ((3, 0, 1), (2,))
KINDS = ["anchor", "ota", "tal", "bin-anchor", "bin-ota", "heads-anchor", "heads-ota", "heads-ignoring", "heads-full"]


def maps(batch: int = 2, channels: int = 5 + NC, rows: int = 8, columns: int = 8, scale: float = 1.0) -> list[Tensor]:
    """Both levels of random raw maps; rows and columns are those of the finer one."""
    sizes = [(rows >> level, columns >> level) for level in range(2)]
    return [(torch.randn(batch, 2, *size, channels) * scale).requires_grad_() for size in sizes]


def random_rows(count: int, batch: int = 2, nc: int = NC) -> Tensor:
    """Target rows: image class cx cy w h."""
    image, label = torch.randint(batch, (count, 1)), torch.randint(nc, (count, 1))
    return torch.cat((image, label, torch.rand(count, 2), torch.rand(count, 2) * 0.6 + 0.05), dim=1)


def criterion_and_maps(kind: str, faithful: bool = True, **map_facts) -> tuple[Criterion, list[Tensor]]:
    settings = LossSettings(box=0.05, obj=0.7, cls=0.3)
    family, _, assigner = kind.rpartition("-")
    if family == "bin":
        reader = map_reader(GRID, NC, kind="bin", bins=BINS)
        raw = maps(channels=3 + 2 * (BINS + 1) + NC, **map_facts)
        return YoloV7Criterion(reader, settings, assigner, faithful), raw
    if family == "heads":
        full = assigner == "full"
        reader = map_reader(GRID, NC, head_classes=HEADS, head_weights=(1.5, 0.5), full_head=full)
        ignoring = assigner == "ignoring"
        loss = MultiHeadCriterion(
            reader, settings, "ota" if assigner == "ota" else "anchor", faithful, ignore_other_heads=ignoring
        )
        return loss, [m for own in HEADS for m in maps(channels=5 + (NC if full else len(own)), **map_facts)]
    return YoloV7Criterion(map_reader(GRID, NC), settings, assigner, faithful), maps(**map_facts)
