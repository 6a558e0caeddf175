"""Pixels of a plan as one Triton kernel: stored bytes to the network's input in one pass, without a canvas in between.

`render_torch` is the same in plain torch, which this is tested against (on a CPU with TRITON_INTERPRET=1).
"""

import torch
from torch import Tensor

from yolofast.augment.plan import FILL, TILES, Plan
from yolofast.augment.render_table import RenderTable, build_table
from yolofast.augment.render_torch import EQUAL, HALF, WHOLE
from yolofast.pixels import PackedImages

try:
    from yolofast.augment._render_kernel import render_kernel
except ImportError:  # Triton is not there on every platform
    render_kernel = None

_BLOCK = 256


def can_run(device: torch.device | str) -> bool:
    return render_kernel is not None and torch.device(device).type == "cuda"


def render(plan: Plan, images: PackedImages, out: Tensor, *, rgb: bool = True, gain: float = 1.0) -> Tensor:
    """Write levels × gain into `out [B, 3, height, width]`, of any type and memory order."""
    table = build_table(plan, images.starts, images.sizes).to(images.data.device)
    return render_table(table, images.data, out, additive=plan.recipe.style == "yolox", rgb=rgb, gain=gain)


def render_table(table: RenderTable, data: Tensor, out: Tensor, *, additive: bool, rgb: bool, gain: float) -> Tensor:
    batch, _, height, width = out.shape
    assert batch == len(table.blend_B)
    render_kernel[(-(-width * height // _BLOCK), batch)](
        data, out, table.inverse_BV9, table.blend_B, table.colour_B3, table.flip_B2, table.tiles_BV, table.canvas_BV,
        table.tile_BVT7, table.start_BVT, table.copy_BV, table.paste_start_B1, table.paste_P8, table.paste_width_P,
        table.paste_source_P2, table.masks, width, height, *out.stride(), gain,
        ADDITIVE=additive, RGB=rgb, TILES=TILES, FILL=FILL, EQUAL=EQUAL, HALF=HALF, WHOLE=WHOLE, BLOCK=_BLOCK,
    )  # fmt: skip
    return out
