"""Random detection problems of a chosen size, the same on every device."""

import torch

from yolofast.structures import HeadLayout, Targets

ANCHORS = {
    3: [[[10, 13], [16, 30], [33, 23]], [[30, 61], [62, 45], [59, 119]], [[116, 90], [156, 198], [373, 326]]],
    4: [
        [[19, 27], [44, 40], [38, 94]],
        [[96, 68], [86, 152], [180, 137]],
        [[140, 301], [303, 264], [238, 542]],
        [[436, 615], [739, 380], [925, 792]],
    ],
}
ANCHORS[2] = ANCHORS[3][:2]
HYP = {"box": 0.05, "obj": 0.7, "cls": 0.3, "cls_pw": 1.0, "obj_pw": 1.0, "anchor_t": 4.0, "fl_gamma": 0.0}


class Reader:
    """The least of a model that a loss needs."""

    class_columns = None

    def __init__(self, layout, device="cpu"):
        self.layout = layout
        anchors = ANCHORS[layout.levels] if layout.kind != "point" else [[[0, 0]]] * layout.levels
        self.anchors_px = torch.tensor(anchors, dtype=torch.float32, device=device)


def layout(levels=3, nc=80, kind="anchor", **kwargs):
    strides = (8, 16, 32, 64)[:levels]
    per_cell = 1 if kind == "point" else 3
    kwargs.setdefault("auxiliary", levels == 4)
    return HeadLayout(kind=kind, nc=nc, strides=strides, anchors_per_cell=per_cell, **kwargs)


def raw_maps(layout, batch, size, device="cpu", dtype=torch.float32, aux=False, seed=0):
    """Maps in the memory order a channels_last network gives, requiring gradients."""
    generator = torch.Generator().manual_seed(seed)
    heads = [len(own) for own in layout.head_classes] or [layout.nc]
    maps = []
    for nc in heads * (2 if aux else 1):
        for stride in layout.strides:
            cells = size // stride
            box = 2 + 2 * (layout.bins + 1) if layout.bins else 4
            values = torch.randn(batch, cells, cells, layout.anchors_per_cell, box + 1 + nc, generator=generator)
            values[..., box:] -= 2.0
            maps.append(values.to(device, dtype).permute(0, 3, 1, 2, 4).requires_grad_())
    return maps


def targets(batch, boxes, nc, device="cpu", seed=0, capacity=None):
    """About `boxes` per image, of the sizes detection data sets have."""
    generator = torch.Generator().manual_seed(seed)
    counts = torch.poisson(torch.full((batch,), float(boxes)), generator=generator).long()
    n = int(counts.sum())
    image = torch.repeat_interleave(torch.arange(batch), counts)
    label = torch.randint(0, nc, (n,), generator=generator)
    size = torch.exp(torch.randn(n, 2, generator=generator) * 0.8 - 1.8).clamp(0.01, 0.95)
    centre = torch.rand(n, 2, generator=generator)
    rows = torch.cat((image[:, None].float(), label[:, None].float(), centre, size), dim=1)
    return Targets.from_rows(rows, batch, capacity).to(device)
