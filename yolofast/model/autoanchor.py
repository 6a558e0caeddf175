"""What of a head follows from the data: anchors that suit the boxes, and the rates it may begin with.

A box can be learnt when some anchor is within a factor `anchor_t` of it on both sides; the share of such boxes is the
best possible recall (BPR). Below the threshold, anchors are looked for by k-means and then mutation, and adopted only
if they raise the BPR. A head that begins at the rates of objects and classes need not first unlearn a flood of
positives (`begin_at_rates`). Axes: N boxes, K anchors.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy
import torch
from torch import Tensor, nn

from yolofast.errors import UserError
from yolofast.model.contract import Network

Floats = npt.NDArray[np.floating[Any]]

_JITTER = (0.9, 1.1)
_SMALLEST_SIDE_PX = 2.0
# More boxes than this do not move nine anchors, and they make each generation slower: a seeded sample is taken.
_MAX_BOXES = 50_000
_KMEANS_RUNS = 30
_HIGHEST_RATE, _LOWEST_RATE = 0.99, 1e-5
"""Beyond these a sigmoid has hardly a gradient."""
_Columns = tuple[Tensor, slice]
"""A bias, and which of its columns, of each anchor."""
_MUTATION_PROBABILITY, _MUTATION_SIGMA, _MUTATION_CLIP = 0.9, 0.1, (0.3, 3.0)


@dataclass(frozen=True)
class AnchorFit:
    """`bpr`: share of boxes some anchor reaches; `anchors_above_threshold`: mean number of anchors that reach a box."""

    bpr: float
    anchors_above_threshold: float


@dataclass(frozen=True)
class AutoAnchorResult:
    """The anchors to train with, [levels, anchors per level, 2] px, and the fit `before` and `after` choosing them."""

    anchors: npt.NDArray[np.float64]
    before: AnchorFit
    after: AnchorFit
    replaced: bool


def autoanchor(
    anchors_px: Floats, wh_px: Floats, anchor_t: float = 4.0, threshold: float = 0.98, seed: int = 0
) -> AutoAnchorResult:
    """Keep `anchors_px` [levels, per level, 2] if their BPR reaches `threshold` or nothing better is found."""
    given = np.asarray(anchors_px, dtype=np.float64)
    if given.ndim != 3:
        raise UserError(f"anchors must be [levels, anchors per level, 2], not {given.shape}")
    before = anchor_fit(wh_px, given, anchor_t)
    if before.bpr < threshold and (np.asarray(wh_px) >= _SMALLEST_SIDE_PX).all(1).any():
        evolved = evolve_anchors(wh_px, given.size // 2, anchor_t, seed=seed).reshape(given.shape)
        after = anchor_fit(wh_px, evolved, anchor_t)
        if after.bpr > before.bpr:
            return AutoAnchorResult(evolved, before, after, replaced=True)
    return AutoAnchorResult(given, before, before, replaced=False)


def anchor_fit(wh_px: Floats, anchors_px: Floats, anchor_t: float = 4.0) -> AnchorFit:
    """How well `anchors_px`, [K, 2] or [levels, per level, 2], suit the boxes `wh_px` [N, 2]."""
    wh_px, anchors_px = _sizes(wh_px, "boxes"), _sizes(anchors_px, "anchors")
    if (anchors_px <= 0).any():
        raise UserError("anchor sizes must be above 0 pixels")
    if not 1.0 < anchor_t < np.inf:
        raise UserError(f"anchor_t must be above 1, not {anchor_t}", fix="anchor_t: 4.0")
    reached_KN = _closeness(wh_px, anchors_px) > 1.0 / anchor_t
    return AnchorFit(float(reached_KN.any(0).mean()), float(reached_KN.sum(0).mean()))


def evolve_anchors(
    wh_px: Floats, count: int, anchor_t: float = 4.0, generations: int = 1000, seed: int = 0
) -> npt.NDArray[np.float64]:
    """[count, 2] anchors for the boxes, small to large: k-means on whitened sizes, then mutation that only improves.

    Boxes under 2 px on a side are left out; beyond 50,000 boxes a sample drawn with `seed` is used. With fewer
    distinct sizes than anchors the sizes are repeated, and mutation spreads the copies where that helps.
    """
    if count < 1:
        raise UserError(f"the number of anchors must be at least 1, not {count}")
    rng = np.random.default_rng(seed)
    wh = _sizes(wh_px, "boxes")
    wh = wh[(wh >= _SMALLEST_SIDE_PX).all(1)]
    if not len(wh):
        raise UserError(
            f"no box is at least {_SMALLEST_SIDE_PX:g} px wide and high: there is nothing to fit anchors to"
        )
    if len(wh) > _MAX_BOXES:
        wh = wh[np.sort(rng.choice(len(wh), _MAX_BOXES, replace=False))]
    anchors = _kmeans_anchors(wh, count, rng)
    # Single precision in whole columns halves the time of a generation, and ranks candidates as well.
    wh_f32 = np.asfortranarray(wh, dtype=np.float32)
    best_fitness = _fitness(wh_f32, anchors, anchor_t)
    for _ in range(generations):
        mutate = rng.random(anchors.shape) < _MUTATION_PROBABILITY
        factor = 1.0 + mutate * rng.normal(0.0, _MUTATION_SIGMA, anchors.shape)
        candidate = np.maximum(anchors * factor.clip(*_MUTATION_CLIP), _SMALLEST_SIDE_PX)
        fitness = _fitness(wh_f32, candidate, anchor_t)
        if fitness > best_fitness:
            anchors, best_fitness = candidate, fitness
    return anchors[np.argsort(anchors.prod(1), kind="stable")]


def boxes_at_image_size(
    box_wh_normalised: Floats,
    image_wh_px: Floats | npt.NDArray[np.integer[Any]],
    image_size: int,
    rng: np.random.Generator,
) -> npt.NDArray[np.float64]:
    """[N, 2] box sizes as the network sees them: the image's long side scaled to `image_size`, then 0.9–1.1 at random.

    `image_wh_px` [N, 2] is the size of each box's own image. The random factor stands for the scale augmentation, so
    that anchors are not fitted to one exact scale.
    """
    image_wh = _sizes(image_wh_px, "images")
    boxes = _sizes(box_wh_normalised, "boxes")
    if boxes.shape != image_wh.shape or (image_wh <= 0).any():
        raise UserError(f"every box needs the size of its image, got {boxes.shape} boxes and {image_wh.shape} sizes")
    scale = image_size / image_wh.max(1, keepdims=True)
    jitter = rng.uniform(*_JITTER, (len(boxes), 1))
    return np.asarray(boxes * image_wh * scale * jitter)


def _kmeans_anchors(wh: npt.NDArray[np.float64], count: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    distinct = np.unique(wh, axis=0)
    if len(distinct) < count:
        return _repeat_rows(distinct, count)
    spread = wh.std(0)
    spread[spread == 0] = 1.0
    centres, _ = scipy.cluster.vq.kmeans(wh / spread, count, iter=_KMEANS_RUNS, seed=rng)
    return _repeat_rows(centres * spread, count)  # k-means may lose a cluster


def _repeat_rows(rows: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.float64]:
    return rows[np.arange(count) % len(rows)]


def _fitness(wh: Floats, anchors: Floats, anchor_t: float) -> float:
    """Mean over boxes of the closeness to the best anchor, counted only where the box is reached."""
    best_N = _closeness(wh, anchors.astype(wh.dtype)).max(0)
    return float((best_N * (best_N > 1.0 / anchor_t)).mean(dtype=np.float64))


def _closeness(wh: Floats, anchors: Floats) -> Floats:
    """[K, N] min over width and height of min(r, 1/r), r = box / anchor: 1 is a perfect fit. Zero sizes give 0."""
    width, height = (np.minimum(wh[:, i], a := anchors[:, i, None]) / np.maximum(wh[:, i], a) for i in (0, 1))
    return np.minimum(width, height)


def _sizes(values: npt.NDArray[Any], what: str) -> npt.NDArray[np.float64]:
    sizes = np.asarray(values, dtype=np.float64)
    if sizes.ndim < 2 or sizes.shape[-1] != 2 or not sizes.size or not np.isfinite(sizes).all() or (sizes < 0).any():
        raise UserError(f"{what} must be a non-empty array of finite widths and heights, got shape {sizes.shape}")
    return sizes.reshape(-1, 2)


@torch.no_grad()
def begin_at_rates(model: Network, objects: float, classes: Sequence[float], size: int, anew: Collection[str]) -> bool:
    """Sets biases that begin at random, those of `anew`; returns whether there were any. `size` is of the images.

    As in the published rule each level and anchor is taken to get as many objects as an image has; that rule takes 8,
    of images of 640 pixels.
    """
    if model.layout.heads > 1:
        raise UserError("data_biases is for networks with one head", fix="omit it")
    known = {id(parameter): name for name, parameter in model.named_parameters()}
    logits, done = torch.tensor([_logit(share) for share in classes]), False
    for stride, (objectness, scores) in zip(model.layout.strides, _predictions(model), strict=True):
        rate = torch.tensor(_logit(objects / (size / stride) ** 2))
        for (bias, columns), value in ((objectness, rate), (scores, logits)):
            if known[id(bias)] in anew:
                bias.view(model.layout.anchors_per_cell, -1)[:, columns] = value.to(bias.device)
                done = True
    return done


def _predictions(model: Network) -> list[tuple[_Columns, _Columns]]:
    """Of each level: objectness and classes."""
    nc = model.layout.nc
    if model.layout.kind == "point":
        pairs = zip(_biases(model, "obj_preds"), _biases(model, "cls_preds"), strict=True)
        return [((objectness, slice(0, 1)), (classes, slice(None))) for objectness, classes in pairs]
    both = _biases(model.layers[-1].module, "m")
    return [((bias, slice(-nc - 1, -nc)), (bias, slice(-nc, None))) for bias in both]


def _biases(model: nn.Module, name: str) -> list[Tensor]:
    """Of the convolutions in the list of that name."""
    lists = [module for path, module in model.named_modules() if path.rpartition(".")[2] == name]
    return [bias for conv in lists[0].children() if isinstance(bias := conv.bias, Tensor)]


def _logit(share: float) -> float:
    share = min(max(share, _LOWEST_RATE), _HIGHEST_RATE)
    return math.log(share / (1 - share))
