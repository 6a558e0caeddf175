"""Before a run begins: do the model's anchors suit the boxes it will learn? If not, better ones take their place."""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from yolofast.image_index import ImageIndex
from yolofast.model.autoanchor import autoanchor, boxes_at_image_size, evolve_anchors
from yolofast.model.heads import AnchorHead


def fit_anchors(
    model: nn.Module,
    index: ImageIndex,
    size: int,
    anchor_t: float,
    seed: int,
    say: Callable[[str], None],
    *,
    always: bool = False,
) -> None:
    """Anchors are weights: they are in every checkpoint, and a resumed run takes them from there.

    `always` is for anchors of which only the number was given (`anchors` in the hyper-parameters). The result is a
    function of data, size and seed alone, so every rank comes to the same.
    """
    head = next((module for module in model.modules() if isinstance(module, AnchorHead)), None)
    real = ~index.crowd
    if head is None or not real.any():
        return
    image_sizes = index.sizes[index.image_of_box()[real]]
    boxes = boxes_at_image_size(index.boxes[real, 2:], image_sizes, size, np.random.default_rng(seed))
    if always:
        fitted = evolve_anchors(boxes, head.anchors_px.numel() // 2, anchor_t, seed=seed)
        head.set_anchors(torch.from_numpy(fitted).to(head.anchors_px).view_as(head.anchors_px))
        say(f"anchors: {len(fitted)}, fitted to the boxes")
        return
    result = autoanchor(head.anchors_px.cpu().numpy(), boxes, anchor_t, seed=seed)
    if not result.replaced:
        say(f"anchors: kept, they reach {result.before.bpr:.1%} of the boxes")
        return
    head.set_anchors(torch.from_numpy(result.anchors).to(head.anchors_px))
    say(
        f"anchors: fitted to the boxes, of which they now reach {result.after.bpr:.1%} instead of "
        f"{result.before.bpr:.1%} (--noautoanchor leaves them as they are)"
    )
