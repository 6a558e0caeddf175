"""A head's 1×1 convolution and the two vectors around it as one product of matrices.

`(W (x + a) + b) · m` is `(m W) x + m (W a + b)`: what is done to every place of the map is done once to the weights.
Rows of the result are padded to a whole number of 16 bytes, which tensor cores need; the map is a view of them.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_WHOLE = 8


class _Predict(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, before: Tensor | None, after: Tensor | None, anchors: int
    ) -> Tensor:
        images, channels, height, width = x.shape
        weight, outputs = weight.flatten(1), len(weight)
        pitch = -(-outputs // _WHOLE) * _WHOLE
        # Not as a product of matrices, which autocast would take to two bytes.
        shifted = bias if before is None else bias + (weight * before.flatten()).sum(1)
        folded = x.new_zeros(pitch, channels)
        constant = x.new_zeros(pitch)
        folded[:outputs] = weight if after is None else weight * after.view(-1, 1)
        constant[:outputs] = shifted if after is None else shifted * after.flatten()
        rows = x.permute(0, 2, 3, 1).reshape(-1, channels)
        ctx.save_for_backward(rows, weight, shifted, folded, *(one for one in (before, after) if one is not None))
        ctx.shape, ctx.vectors = (images, height, width, outputs), (before is not None, after is not None)
        result = torch.addmm(constant, rows, folded.t())
        return _as_map(result, (images, height, width), anchors, outputs // anchors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight, shifted, folded, *vectors = ctx.saved_tensors
        images, height, width, outputs = ctx.shape
        has_before, has_after = ctx.vectors
        before = vectors[0].flatten() if has_before else None
        after = vectors[-1].flatten() if has_after else None
        dy = _as_rows(given, len(folded), outputs)
        dx = (dy @ folded).view(images, height, width, -1).permute(0, 3, 1, 2)
        by_weight = (dy.t() @ rows)[:outputs].to(weight.dtype)
        by_bias = dy.sum(0, dtype=weight.dtype)[:outputs]
        bias = by_bias if after is None else by_bias * after
        dweight = by_weight if after is None else by_weight * after[:, None]
        dbefore = dafter = None
        if before is not None:
            dweight = torch.addr(dweight, bias, before)
            dbefore = torch.mv(weight.t(), bias).view(1, -1, 1, 1)
        if after is not None:
            dafter = torch.addcmul((by_weight * weight).sum(1), by_bias, shifted).view(1, -1, 1, 1)
        return dx, dweight.view(outputs, -1, 1, 1), bias, dbefore, dafter, None


def _as_map(rows: Tensor, size: tuple[int, int, int], anchors: int, channels: int) -> Tensor:
    images, height, width = size
    pitch = rows.shape[1]
    strides = height * width * pitch, channels, width * pitch, pitch, 1
    return rows.as_strided((images, anchors, height, width, channels), strides)


def _as_rows(given: Tensor, pitch: int, outputs: int) -> Tensor:
    """`[places, pitch]`. A gradient that lies in memory as the map does is zero in between (`fused_terms`)."""
    images, _, height, width, channels = given.shape
    places = images * height * width
    as_the_map = given.stride() == (height * width * pitch, channels, width * pitch, pitch, 1)
    if as_the_map and given.untyped_storage().nbytes() == places * pitch * given.element_size():
        return given.as_strided((places, pitch), (pitch, 1))
    dy = given.new_zeros(places, pitch)
    dy[:, :outputs] = given.permute(0, 2, 3, 1, 4).reshape(places, outputs)
    return dy


def can_be_folded(x: Tensor, conv: nn.Module) -> bool:
    """While a network of plain 1×1 convolutions learns on a GPU in a type of two bytes."""
    return (
        x.dtype in (torch.bfloat16, torch.float16)
        and torch.is_grad_enabled()
        and type(conv) is nn.Conv2d
        and conv.kernel_size == (1, 1)
        and x.is_contiguous(memory_format=torch.channels_last)
    )


def folded_prediction(
    x: Tensor, conv: nn.Module, anchors: int, before: Tensor | None = None, after: Tensor | None = None
) -> Tensor:
    """The raw map `[B, na, H, W, no]` of `(conv(x + before)) · after`."""
    raw: Tensor = _Predict.apply(x, conv.weight, conv.bias, before, after, anchors)  # type: ignore[no-untyped-call]
    return raw


def joint_prediction(x: Tensor, groups: Sequence[Sequence[nn.Conv2d]]) -> Tensor:
    """The raw map `[B, 1, H, W, no]` of 1×1 convolutions whose results stand one behind the other.

    `x` joins the maps of all groups. The weights become one matrix, zero where a group and another's map meet: twice
    the products, but of so few outputs that only reading the maps takes time.
    """
    matrices = [torch.cat([conv.weight.flatten(1) for conv in group]) for group in groups]
    biases = [conv.bias for group in groups for conv in group if conv.bias is not None]
    weight = torch.block_diag(*matrices)[..., None, None]  # type: ignore[no-untyped-call]
    raw: Tensor = _Predict.apply(x, weight, torch.cat(biases), None, None, 1)  # type: ignore[no-untyped-call]
    return raw
