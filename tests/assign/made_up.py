"""Random batches that reach the corners of an assigner: borders, cell edges, huge, tiny, identical and flat boxes."""

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

from yolofast.structures import HeadLayout, Targets, bucketed

STRIDES = (8, 16, 32)
KINDS = ("plain", "border", "edge", "huge", "tiny", "same", "flat", "outside")


@dataclass(frozen=True)
class Head:
    """The least a model must tell for its maps to be read."""

    layout: HeadLayout
    anchors_px: Tensor
    class_columns: Tensor | None = None


def point_head(nc: int) -> Head:
    return Head(HeadLayout(kind="point", nc=nc, strides=STRIDES, anchors_per_cell=1), torch.zeros(3, 1, 2))


@dataclass(frozen=True)
class Batch:
    size: tuple[int, int]  # height, width
    nc: int
    targets: Targets
    dtype: torch.dtype
    seed: int
    spread: float

    def maps(self, anchors: int = 1) -> list[Tensor]:
        """Raw maps `[B, anchors, H, W, 5 + nc]` with gradients."""
        generator = torch.Generator().manual_seed(self.seed)
        result = []
        for stride in STRIDES:
            shape = (len(self.targets.labels), anchors, self.size[0] // stride, self.size[1] // stride, 5 + self.nc)
            raw = torch.randn(shape, generator=generator) * self.spread
            raw[..., 2:4] += 0.7  # boxes of about two cells overlap more of the truth
            raw[..., 4:] -= 1
            result.append(raw.to(self.dtype).requires_grad_())
        return result

    def labels(self) -> list[Tensor]:
        """Per image `[n, 5]`: class, cx, cy, w, h in pixels, of the real boxes."""
        height, width = self.size
        pixels = self.targets.boxes * torch.tensor([width, height, width, height])
        rows = torch.cat((self.targets.labels[..., None], pixels), dim=-1)
        return [image[valid] for image, valid in zip(rows, self.targets.valid, strict=True)]


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    images = draw(st.integers(1, 2))
    size = (draw(st.sampled_from([64, 96])), draw(st.sampled_from([64, 96, 128])))
    nc = draw(st.sampled_from([1, 2, 7, 80]))
    seed = draw(st.integers(0, 2**31))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=len(KINDS)))
    counts = draw(st.lists(st.one_of(st.integers(0, 6), st.integers(0, 40)), min_size=images, max_size=images))
    generator = torch.Generator().manual_seed(seed + 1)
    places = bucketed(max(counts))
    boxes, labels = torch.zeros(images, places, 4), torch.zeros(images, places, dtype=torch.long)
    for image, count in enumerate(counts):
        for row in range(count):
            boxes[image, row] = made_up_box(kinds[row % len(kinds)], boxes[image, :row], size, generator)
        labels[image, :count] = torch.randint(nc, (count,), generator=generator)
    valid = torch.arange(places) < torch.tensor(counts)[:, None]
    dtype = draw(st.sampled_from([torch.float32, torch.bfloat16]))
    return Batch(size, nc, Targets(boxes, labels, valid), dtype, seed, draw(st.sampled_from([0.3, 0.7, 2.0])))


def made_up_box(kind: str, earlier: Tensor, size: tuple[int, int], generator: torch.Generator) -> Tensor:
    """Normalised cx, cy, w, h."""
    xywh = torch.rand(4, generator=generator)
    xywh[2:] = xywh[2:] * 0.4 + 0.05
    if kind == "border":
        xywh[:2] = xywh[:2].round()
    elif kind == "edge":  # centre and sides on borders of cells or their centres
        step = 4 / torch.tensor([size[1], size[0], size[1], size[0]])
        xywh = (xywh / step).round().clamp(min=1) * step
    elif kind == "huge":
        xywh[2:] += 1
    elif kind == "tiny":
        xywh[2:] *= 1e-3
    elif kind == "same" and len(earlier):
        xywh = earlier[-1].clone()
    elif kind == "flat":
        xywh[3] *= 1e-4
    elif kind == "outside":
        xywh[:2] += 1.5
    return xywh
