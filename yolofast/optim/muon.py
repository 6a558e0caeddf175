"""Muon: the momentum of a convolution's weights, made orthogonal before it moves them; AdamW for all else.

A gradient's largest directions hide its small ones. Orthogonalised, all directions of a weight matrix get about the
same share of a step. Newton–Schulz iterations do that by matrix products alone: shapes are fixed, nothing waits, so a
captured graph replays them. Weights of one shape go through them together, as one batch of matrices.

Steps are 0.2 · √(longer side) of an orthogonal matrix, about as long as AdamW's: one learning rate serves both kinds of
parameters. Depthwise filters and implicit layers mix no channels: AdamW moves them, as it does biases and scales. So it
does the layers that predict: their rows are not directions of one space, but classes, of which some are rare.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from yolofast.optim.adam import AdamW

_A, _B, _C = 3.4445, -4.7750, 2.0315
"""As published: they take small singular values near 1 soonest, and leave all between about 0.7 and 1.2."""
_ROUNDS = 5
_EPSILON = 1e-7
_LIKE_ADAM = 0.2
"""The root of the mean square of AdamW's steps, in learning rates."""


class Muon(AdamW):
    """Of the weights it moves itself `mean` is the velocity, and `square` stays 0: one form of state for all."""

    def __init__(self, groups: Sequence[dict[str, Any]]) -> None:
        super().__init__(groups)
        self._matrices: list[list[list[int]]] = []
        """By group: places of weights of one shape."""
        for params, described in zip(self._params, groups, strict=True):
            alike: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
            for place, parameter in enumerate(params):
                if is_matrix(parameter) and id(parameter) not in described.get("outputs", ()):
                    alike[tuple(sorted(_sides(parameter)))].append(place)
            self._matrices.append(list(alike.values()))

    @torch.no_grad()
    def step(self) -> None:
        for group, alike in enumerate(self._matrices):
            if alike:
                self._turn(group, [place for some in alike for place in some])
        super().step()

    def _turn(self, group: int, places: list[int]) -> None:
        grads = self._gradients(group)
        grads, params, velocity = (
            [values[place] for place in places] for values in (grads, self._params[group], self._state["mean"][group])
        )
        torch._foreach_mul_(velocity, self.momentum)
        torch._foreach_add_(velocity, grads)
        # Nesterov, as SGD has it.
        ahead = torch._foreach_mul(velocity, self.momentum)
        torch._foreach_add_(ahead, grads)
        moves, done = [], 0
        for some in self._matrices[group]:
            matrices = torch.stack([_wide(one) for one in ahead[done : done + len(some)]])
            turned = orthogonal(matrices) * (_LIKE_ADAM * matrices.shape[2] ** 0.5)
            moves += [_as_weights(one, params[done + n]) for n, one in enumerate(turned.unbind())]
            done += len(some)
        if self._decay[group]:
            torch._foreach_mul_(params, 1 - self.lr[group] * self._decay[group])
        torch._foreach_mul_(moves, self.lr[group])
        torch._foreach_sub_(params, moves)

    def _by_adam(self, group: int) -> list[list[Tensor]]:
        own = {place for some in self._matrices[group] for place in some}
        return [[value for place, value in enumerate(values) if place not in own] for values in super()._by_adam(group)]


def is_matrix(parameter: Tensor) -> bool:
    """Whether it is the weight of a convolution that mixes channels."""
    return parameter.dim() == 4 and min(parameter.shape[:2]) > 1


def orthogonal(matrices_NRC: Tensor) -> Tensor:
    """About the nearest orthogonal matrix to each, rows at most as many as columns; the same for multiples of it.

    GPUs compute the products in bfloat16, as published: what that rounds is less than what the iteration leaves.
    """
    kind = torch.bfloat16 if matrices_NRC.is_cuda else matrices_NRC.dtype
    turned = (matrices_NRC / (matrices_NRC.norm(dim=(1, 2), keepdim=True) + _EPSILON)).to(kind)
    for _ in range(_ROUNDS):
        squares = turned @ turned.mT
        turned = _A * turned + (_B * squares + _C * squares @ squares) @ turned
    orthogonal_NRC: Tensor = turned.to(matrices_NRC.dtype)
    return orthogonal_NRC


def _sides(parameter: Tensor) -> tuple[int, int]:
    return parameter.shape[0], parameter[0].numel()


def _wide(weight: Tensor) -> Tensor:
    """As a matrix with at most as many rows as columns."""
    rows = weight.flatten(1)
    return rows if rows.shape[0] <= rows.shape[1] else rows.mT


def _as_weights(matrix: Tensor, like: Tensor) -> Tensor:
    rows, columns = _sides(like)
    return (matrix if rows <= columns else matrix.mT).reshape(like.shape)
