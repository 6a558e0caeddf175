"""Raw maps to boxes, all of them; what their channels mean is in `raw_maps.py`.

Models return raw maps and never decode; losses and evaluation decode what they need. Everything is computed in float32
whatever the maps' precision, because box corners do not survive half precision.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from yolofast.raw_maps import RowReader
from yolofast.structures import HeadLayout, RawMapReader

# e³⁰ cells are far beyond any image, and the area of such a box is still finite.
LARGEST_LOG_SIZE = 30.0


def decode(raw: Sequence[Tensor], model: RawMapReader) -> Tensor:
    """Predictions in input pixels, `[B, N, 5 + nc]`: cx, cy, w, h, objectness, class scores (both after σ).

    `raw` is what `model(images)` returned; auxiliary maps of training mode are ignored. Rows stand in the published
    order: level, anchor, y, x; with several heads head-major, each head's scores in the columns of its own classes.
    Of a single class suppression reads the objectness alone, as YOLOv7 does; YOLOX counts the class too, so its
    objectness is then their product.
    """
    layout = model.layout
    if layout.kind == "decoded":
        return raw[0]
    anchors_px = model.anchors_px
    rows = []
    for head in range(layout.heads):
        for level, stride in enumerate(layout.strides):
            prediction = _decode_map(raw[head * layout.levels + level], anchors_px[level], stride, layout)
            if model.class_columns is not None:
                prediction = _spread_classes(prediction, model.class_columns[head])
            rows.append(prediction)
    return torch.cat(rows, dim=1)


def _decode_map(raw: Tensor, anchors_px: Tensor, stride: int, layout: HeadLayout) -> Tensor:
    """One raw map `[B, na, H, W, channels]` as `[B, na · H · W, 5 + classes]` in pixels."""
    scores = RowReader(layout.bins).scores(raw).flatten(1, 3).float().sigmoid()
    if layout.kind == "point" and layout.nc == 1:
        scores = torch.cat((scores.prod(dim=-1, keepdim=True), scores[..., 1:]), dim=-1)
    return torch.cat((decode_boxes(raw, anchors_px, stride, layout), scores), dim=-1)


def decode_boxes(raw: Tensor, anchors_px: Tensor, stride: int, layout: HeadLayout) -> Tensor:
    """The boxes of one raw map, `[B, na · H · W, 4]`: cx, cy, w, h in pixels. Points have no use for `anchors_px`.

    Rows are laid end to end before anything is computed. A result in the map's own order is padded by the compiler of
    torch 2.11, which then reads it end to end as if it were not.
    """
    reader = RowReader(layout.bins)
    rows = raw[..., : reader.objectness].flatten(1, 3).float()
    shape = raw.shape[1:4]
    index = _grid(shape, raw.device)
    if layout.kind == "point":
        return decode_points(rows, index, stride)
    centre = (reader.centres(rows) + index) * stride
    size = reader.sizes(rows) * anchors_px.to(rows)[:, None, None].expand(*shape, 2).flatten(0, 2)
    return torch.cat((centre, size), dim=-1)


def _grid(shape: Sequence[int], device: torch.device) -> Tensor:
    """Column and row `[na · H · W, 2]` of every position. No division: exporters fail at one by an unknown side."""
    _, height, width = shape
    columns = torch.arange(width, device=device).expand(*shape)
    rows = torch.arange(height, device=device)[:, None].expand(*shape)
    return torch.stack((columns, rows), dim=-1).flatten(0, 2)


def decode_points(rows: Tensor, index: Tensor, stride: int) -> Tensor:
    """YOLOX boxes in pixels from raw x, y, w, h `[..., 4]` of the cells in column and row `index [..., 2]`."""
    size = rows[..., 2:].clamp(max=LARGEST_LOG_SIZE).exp()
    return torch.cat((rows[..., :2] + index, size), dim=-1) * stride


def _spread_classes(prediction: Tensor, columns: Tensor) -> Tensor:
    """A head's own class scores in the columns of the whole data set; classes of other heads get 0."""
    box, scores = prediction[..., :5], prediction[..., 5:]
    padded = torch.cat((scores, torch.zeros_like(scores[..., :1])), dim=-1)
    return torch.cat((box, padded[..., columns]), dim=-1)
