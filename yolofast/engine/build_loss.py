"""The one way to a loss: which one follows from the model's head and the assigner asked for."""

from collections.abc import Mapping, Sequence
from typing import Any

from yolofast.assign.simota import CURRENT, VENDORED, SimOtaVersion
from yolofast.engine.criterion import Assigner, Criterion, YoloV7Criterion
from yolofast.engine.multihead_criterion import MultiHeadCriterion
from yolofast.engine.yolox_criterion import YoloXCriterion
from yolofast.errors import UserError, nearest, shorten
from yolofast.loss.settings import LossSettings
from yolofast.structures import RawMapReader

ASSIGNERS: tuple[Assigner, ...] = ("ota", "anchor", "tal", "simota")
SIMOTA_VERSIONS: dict[str, SimOtaVersion] = {"current": CURRENT, "vendored": VENDORED}


def build_loss(
    model: RawMapReader,
    hyp: Mapping[str, Any],
    image_size: int | Sequence[int],
    assigner: Assigner = "ota",
    faithful: bool = True,
) -> Criterion:
    """The loss of a model: a callable `(raw, targets) -> LossTerms`. Build it once the model is on its device.

    `hyp` holds unscaled hyper-parameters (docs/losses.md lists them; others are left alone), `image_size` is the size
    trained at, and the published scaling of the gains is applied here. `faithful` reproduces what the published code
    computes, defects included; `faithful=False` repairs them (docs/differences.md). For YOLOX `ota` means `simota`.
    """
    if assigner not in ASSIGNERS:
        hint = nearest(str(assigner), ASSIGNERS)
        raise UserError(f"assigner is {shorten(assigner)}{hint}", fix=f"use one of {', '.join(ASSIGNERS)}")
    layout = model.layout
    if layout.kind == "point":
        return _yolox(model, hyp, assigner, faithful)
    if assigner == "simota":
        raise UserError(
            "assigner is 'simota', but this head has anchors", fix="use ota, its counterpart, anchor or tal"
        )
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


def _yolox(model: RawMapReader, hyp: Mapping[str, Any], assigner: Assigner, faithful: bool) -> YoloXCriterion:
    if assigner == "anchor":
        raise UserError("assigner is 'anchor', but this head has no anchors", fix="use simota or tal")
    version = hyp.get("simota_version", "current")
    if not isinstance(version, str) or version not in SIMOTA_VERSIONS:
        raise UserError(f"simota_version is {shorten(version)}", fix=f"use one of {', '.join(SIMOTA_VERSIONS)}")
    kind = "tal" if assigner == "tal" else "simota"
    l1 = _flag(hyp, "use_l1")
    return YoloXCriterion(model, SIMOTA_VERSIONS[version], faithful, assigner=kind, use_l1=l1)  # type: ignore[arg-type]


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
