"""Raw maps to boxes: the only place that knows what a head's channels mean.

Models return raw maps and never decode; losses and evaluation decode what they need. Everything is computed in float32
whatever the maps' precision, because box corners do not survive half precision.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from yolofast.structures import HeadLayout, RawMapReader

# Bins of the `bin` kind span sizes of 0 to 4 anchors, the same range as (2σ)².
BIN_RANGE = 4.0


@dataclass(frozen=True)
class RowReader:
    """What the channels of a raw row `[..., channels]` mean, for those who read only some rows: matching and losses."""

    bins: int = 0
    """Bins per side of the `bin` kind; 0 for the `anchor` kind."""
    score_channels: Tensor | None = None
    """Where objectness and the classes that count are, if not simply everything behind the box (1B4H, `full_head`)."""

    @property
    def objectness(self) -> int:
        """The objectness channel."""
        return 2 + 2 * (self.bins + 1) if self.bins else 4

    def boxes(self, rows: Tensor) -> Tensor:
        """`[..., 4]`: the centre in cells from the corner of the row's own cell, the size in anchors."""
        centre = rows[..., :2].sigmoid() * 2 - 0.5
        size = decode_bins(self.sides(rows)) if self.bins else (rows[..., 2:4].sigmoid() * 2) ** 2
        return torch.cat((centre, size), dim=-1)

    def sides(self, rows: Tensor) -> Tensor:
        """Width and height of the `bin` kind, `[..., 2, 1 + bins]`: an offset and the bins' logits."""
        return rows[..., 2 : self.objectness].unflatten(-1, (2, self.bins + 1))

    def scores(self, rows: Tensor) -> Tensor:
        """Logits of objectness and of the classes, `[..., 1 + classes]`."""
        if self.score_channels is None:
            return rows[..., self.objectness :]
        return rows.index_select(-1, self.score_channels)


def decode(raw: Sequence[Tensor], model: RawMapReader) -> Tensor:
    """Predictions in input pixels, `[B, N, 5 + nc]`: cx, cy, w, h, objectness, class scores (both after σ).

    `raw` is what `model(images)` returned; auxiliary maps of training mode are ignored. Rows stand in the published
    order: level, anchor, y, x; with several heads head-major, each head's scores in the columns of its own classes.
    """
    layout = model.layout
    anchors_px = model.anchors_px
    rows = []
    for head in range(layout.heads):
        for level, stride in enumerate(layout.strides):
            prediction = decode_map(raw[head * layout.levels + level], anchors_px[level], stride, layout)
            if model.class_columns is not None:
                prediction = _spread_classes(prediction, model.class_columns[head])
            rows.append(prediction.flatten(1, 3))
    return torch.cat(rows, dim=1)


def decode_map(raw: Tensor, anchors_px: Tensor, stride: int, layout: HeadLayout) -> Tensor:
    """One raw map `[B, na, H, W, channels]` as `[B, na, H, W, 5 + classes]` in pixels."""
    raw = raw.float()
    height, width = raw.shape[2:4]
    y, x = torch.meshgrid(
        torch.arange(height, device=raw.device), torch.arange(width, device=raw.device), indexing="ij"
    )
    reader = RowReader(layout.bins)
    box = reader.boxes(raw)
    centre = (box[..., :2] + torch.stack((x, y), dim=-1)) * stride
    size = box[..., 2:] * anchors_px.to(raw)[None, :, None, None, :]
    return torch.cat((centre, size, reader.scores(raw).sigmoid()), dim=-1)


def decode_bins(sides: Tensor) -> Tensor:
    """Sizes in anchors from `[..., 1 + bins]`: the centre of the likeliest bin, moved by at most one bin's width."""
    step = BIN_RANGE / (sides.shape[-1] - 1)
    offset = (sides[..., 0].sigmoid() * 2 - 1) * step
    centre = (sides[..., 1:].argmax(dim=-1) + 0.5) * step
    return (offset + centre).clamp(0, BIN_RANGE)


def _spread_classes(prediction: Tensor, columns: Tensor) -> Tensor:
    """A head's own class scores in the columns of the whole data set; classes of other heads get 0."""
    box, scores = prediction[..., :5], prediction[..., 5:]
    padded = torch.cat((scores, torch.zeros_like(scores[..., :1])), dim=-1)
    return torch.cat((box, padded[..., columns]), dim=-1)
