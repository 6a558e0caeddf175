"""The one way to a loss: which one follows from the model's head and the assigner asked for."""

from collections.abc import Mapping, Sequence
from typing import Any

from yolofast.assign.head import CURRENT, VENDORED, SimOtaVersion
from yolofast.engine.criterion import Criterion, YoloV7Criterion
from yolofast.engine.multihead_criterion import MultiHeadCriterion
from yolofast.engine.yolox_criterion import YoloXCriterion
from yolofast.errors import UserError, shorten
from yolofast.extensions import assigner_for, check_assigner
from yolofast.loss.settings import LossSettings
from yolofast.structures import RawMapReader

SIMOTA_VERSIONS: dict[str, SimOtaVersion] = {"current": CURRENT, "vendored": VENDORED}


def build_loss(
    model: RawMapReader,
    hyp: Mapping[str, Any],
    image_size: int | Sequence[int],
    assigner: str = "ota",
    faithful: bool = True,
) -> Criterion:
    """The loss of a model: a callable `(raw, targets) -> LossTerms`. Build it once the model is on its device.

    `hyp` holds unscaled hyper-parameters (docs/losses.md lists them; others are left alone), `image_size` is the size
    trained at, and the published scaling of the gains is applied here. `faithful` reproduces what the published code
    computes, defects included; `faithful=False` repairs them (docs/differences.md). For YOLOX `ota` means `simota`.
    """
    layout = model.layout
    assigner = assigner_for(check_assigner(assigner), anchors=layout.has_anchors)
    if not layout.has_anchors:
        return _yolox(model, hyp, assigner, faithful)
    settings = LossSettings.from_hyp(hyp, layout.levels, layout.nc, _longest_side(image_size))
    if not layout.head_classes:
        return YoloV7Criterion(model, settings, assigner, faithful)
    return MultiHeadCriterion(
        model,
        settings,
        assigner,
        faithful,
        ignore_other_heads=_flag(hyp, "ignore_other_heads"),
        ignore_weight=hyp.get("ignore_weight", 0.0),
    )


def _yolox(model: RawMapReader, hyp: Mapping[str, Any], assigner: str, faithful: bool) -> YoloXCriterion:
    version = hyp.get("simota_version", "current")
    if not isinstance(version, str) or version not in SIMOTA_VERSIONS:
        raise UserError(f"simota_version is {shorten(version)}", fix=f"use one of {', '.join(SIMOTA_VERSIONS)}")
    l1 = _flag(hyp, "use_l1")
    return YoloXCriterion(model, SIMOTA_VERSIONS[version], faithful, assigner=assigner, use_l1=l1)


def _flag(hyp: Mapping[str, Any], key: str) -> bool:
    value = hyp.get(key, False)
    if not isinstance(value, bool):
        raise UserError(f"hyper-parameter {key} is {shorten(value)}", fix="give true or false")
    return value


def _longest_side(image_size: int | Sequence[int]) -> int:
    sides = (
        [image_size]
        if isinstance(image_size, int)
        else list(image_size)
        if isinstance(image_size, list | tuple)
        else []
    )
    if not 1 <= len(sides) <= 2 or not all(isinstance(side, int) and side > 0 for side in sides):
        raise UserError(f"image_size is {shorten(image_size)}", fix="give pixels, or height and width")
    return max(sides)
