"""The one way to a loss: which one follows from the model's head and the assigner asked for."""

from collections.abc import Mapping
from typing import Any

from yolofast.engine.criterion import Assigner, Criterion, YoloV7Criterion
from yolofast.errors import UserError, nearest
from yolofast.loss.settings import LossSettings
from yolofast.structures import RawMapReader

ASSIGNERS: tuple[Assigner, ...] = ("ota", "anchor", "tal", "simota")


def build_loss(
    model: RawMapReader,
    hyp: Mapping[str, Any],
    image_size: int,
    assigner: Assigner = "ota",
    faithful: bool = True,
) -> Criterion:
    """The loss of a model: a callable `(raw, targets) -> LossTerms`.

    `hyp` holds unscaled hyper-parameters (`box obj cls cls_pw obj_pw anchor_t fl_gamma label_smoothing autobalance`),
    `image_size` is the training size; the published scaling of the gains is applied here. `faithful` reproduces what
    the published code computes, defects included; `faithful=False` repairs them (docs/differences.md).
    """
    if assigner not in ASSIGNERS:
        raise UserError(
            f"assigner is {assigner!r}{nearest(assigner, ASSIGNERS)}", fix=f"use one of {', '.join(ASSIGNERS)}"
        )
    layout = model.layout
    settings = LossSettings.from_hyp(hyp, layout.levels, layout.nc, image_size)
    return YoloV7Criterion(model, settings, assigner, faithful)
