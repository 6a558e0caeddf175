"""All weights of convolutions in the type a network computes in, by one kernel instead of one for each.

Their gradients come back the same way: in full precision, side by side in memory, when the backward pass is over.
Ranks that add them up want them earlier: then weights are lowered in groups, and gradients of a group come back as soon
as the last of them is there.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.func import functional_call


class _Lowered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.layouts = [(weight.shape, weight.stride()) for weight in weights]
        return _copied(weights, [torch.empty_like(weight, dtype=dtype) for weight in weights])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *given: Tensor | None) -> tuple[Tensor | None, ...]:
        there = [(one, *layout) for one, layout in zip(given, ctx.layouts, strict=True) if one is not None]
        if not there:
            return None, *given
        memory = torch.empty(sum(one.numel() for one, *_ in there), device=there[0][0].device)
        parts = torch.split(memory, [one.numel() for one, *_ in there])
        full = [part.as_strided(shape, stride) for part, (_, shape, stride) in zip(parts, there, strict=True)]
        # Sides of 1 may have any stride; told as the weight's, one kernel copies all.
        lined_up = [_with_strides(one, stride) for one, _, stride in there]
        done = iter(_copied(lined_up, full))
        return None, *(None if one is None else next(done) for one in given)


def _copied(source: Sequence[Tensor], target: list[Tensor]) -> tuple[Tensor, ...]:
    torch._foreach_copy_(target, list(source))
    return tuple(target)


def _with_strides(one: Tensor, stride: tuple[int, ...]) -> Tensor:
    matches = all(size == 1 or own == its for size, own, its in zip(one.shape, one.stride(), stride, strict=True))
    return one.as_strided(one.shape, stride) if matches else one


_AT_ONCE = 2**62
"""Of what is ready in a backward pass the node with the highest number is next. A node made first has the lowest."""


def forward_in(
    model: nn.Module, dtype: torch.dtype, group_of: Callable[[Tensor], int] | None = None
) -> Callable[[Tensor], Any]:
    """The model's forward with weights of that type; the model stays as it is. `group_of` a weight: those of one number
    get their gradients together."""
    names = [
        f"{path}.{name}" if path else name
        for path, module in model.named_modules()
        if isinstance(module, nn.Conv2d) and module.bias is None  # a head's are folded in full precision
        for name, _ in module.named_parameters(recurse=False)
    ]

    def forward(images: Tensor) -> Any:
        groups: defaultdict[int | None, dict[str, Tensor]] = defaultdict(dict)
        for name in names:
            weight = model.get_parameter(name)
            if weight.requires_grad:
                groups[0 if group_of is None else group_of(weight)][name] = weight
            else:  # apart, so that in the backward pass nothing is computed for weights that stay
                groups[None][name] = weight.detach()
        low: dict[str, Tensor] = {}
        for some in groups.values():
            lowered = _Lowered.apply(dtype, *some.values())  # type: ignore[no-untyped-call]
            if lowered[0].grad_fn is not None and len(groups) > 1:
                lowered[0].grad_fn._set_sequence_nr(_AT_ONCE)
            low |= zip(some, lowered, strict=True)
        return functional_call(model, low, (images,))

    return forward
