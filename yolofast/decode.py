"""Raw maps to boxes: the only place that knows what a head's channels mean.

Models return raw maps and never decode; losses and evaluation decode what they need. Everything is computed in float32
whatever the maps' precision, because box corners do not survive half precision.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from yolofast.structures import HeadLayout, RawMapReader

# Bins of the `bin` kind span sizes of 0 to 4 anchors, the same range as (2σ)².
_BIN_RANGE = 4.0


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
    centre = (raw[..., :2].sigmoid() * 2 - 0.5 + torch.stack((x, y), dim=-1)) * stride
    anchor = anchors_px.to(raw)[None, :, None, None, :]
    if layout.kind == "anchor":
        size, scores = (raw[..., 2:4].sigmoid() * 2) ** 2 * anchor, raw[..., 4:]
    else:
        per_side = layout.bins + 1
        sides = raw[..., 2 : 2 + 2 * per_side].view(*raw.shape[:-1], 2, per_side)
        size, scores = decode_bins(sides) * anchor, raw[..., 2 + 2 * per_side :]
    return torch.cat((centre, size, scores.sigmoid()), dim=-1)


def decode_bins(sides: Tensor) -> Tensor:
    """Sizes in anchors from `[..., 1 + bins]`: the centre of the likeliest bin, moved by at most one bin's width."""
    step = _BIN_RANGE / (sides.shape[-1] - 1)
    offset = (sides[..., 0].sigmoid() * 2 - 1) * step
    centre = (sides[..., 1:].argmax(dim=-1) + 0.5) * step
    return (offset + centre).clamp(0, _BIN_RANGE)


def _spread_classes(prediction: Tensor, columns: Tensor) -> Tensor:
    """A head's own class scores in the columns of the whole data set; classes of other heads get 0."""
    box, scores = prediction[..., :5], prediction[..., 5:]
    padded = torch.cat((scores, torch.zeros_like(scores[..., :1])), dim=-1)
    return torch.cat((box, padded[..., columns]), dim=-1)
