"""Assignment and loss joined: raw maps and targets in, `LossTerms` out, without a word from the host."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from yolofast.assign.anchor import assign_anchor
from yolofast.assign.candidates import find_candidates
from yolofast.assign.ota import assign_ota
from yolofast.errors import UserError, nearest
from yolofast.loss.maps import rows_at
from yolofast.loss.settings import LossSettings
from yolofast.loss.yolov7 import RawTerms, level_balance, yolov7_terms
from yolofast.structures import Assignment, LossTerms, RawMapReader, Targets, level_shapes

Assigner = Literal["ota", "anchor", "tal", "simota"]
ASSIGNERS: tuple[Assigner, ...] = ("ota", "anchor", "tal", "simota")

_LEAD_REACH, _AUX_REACH, _AUX_WEIGHT = 0.5, 1.0, 0.25
_TOPK, _TOPK_WITH_AUX = 10, 20
_BALANCE_DECAY, _BALANCE_STRIDE = 0.9999, 16


class Criterion(Protocol):
    """A loss: a plain callable that holds no parameters."""

    def __call__(self, raw: Sequence[Tensor], targets: Targets) -> LossTerms: ...


class YoloV7Criterion:
    """The YOLOv7 losses of one head, with auxiliary maps when the raw maps hold them."""

    def __init__(self, model: RawMapReader, settings: LossSettings, assigner: Assigner, faithful: bool) -> None:
        self.model, self.settings, self.assigner, self.faithful = model, settings, assigner, faithful
        self.balance: Sequence[float] | Tensor = level_balance(model.layout.levels)

    def __call__(self, raw: Sequence[Tensor], targets: Targets) -> LossTerms:
        levels = self.model.layout.levels
        lead, aux = raw[:levels], raw[levels:]
        anchors = anchors_in_cells(self.model)
        topk = _TOPK_WITH_AUX if aux else _TOPK
        terms = self.terms(lead, self.assign(lead, targets, anchors, _LEAD_REACH, topk), targets, anchors)
        obj = self._balanced(terms.obj_by_level)
        box, cls = terms.box, terms.cls
        if aux:
            # Auxiliary maps learn what the lead maps would assign in a wider neighbourhood.
            extra = self.terms(aux, self.assign(lead, targets, anchors, _AUX_REACH, topk), targets, anchors)
            box, cls = box + _AUX_WEIGHT * extra.box, cls + _AUX_WEIGHT * extra.cls
            obj = obj + _AUX_WEIGHT * self._balanced(extra.obj_by_level)
        if self.settings.autobalance:
            self._follow(terms.obj_by_level.detach())
        return gained(box, obj, cls, self.settings, batch=len(raw[0]))

    def assign(
        self, lead: Sequence[Tensor], targets: Targets, anchors_LA2: Tensor, reach: float, topk: int
    ) -> list[Assignment]:
        shapes = level_shapes(lead)
        unique = not self.faithful
        with torch.no_grad():
            candidates = find_candidates(targets, anchors_LA2, shapes, self.settings.anchor_t, reach, unique)
            if self.assigner == "anchor":
                return assign_anchor(candidates, [candidates.anchors * h * w for h, w in shapes])
            rows = [rows_at(raw_map, candidates.cell[:, candidates.level(i)]) for i, raw_map in enumerate(lead)]
            strides = self.model.layout.strides
            return assign_ota(
                rows, candidates, targets, anchors_LA2, strides, shapes, topk=topk, faithful=self.faithful
            )

    def terms(
        self, raw: Sequence[Tensor], assignment: Sequence[Assignment], targets: Targets, anchors_LA2: Tensor
    ) -> RawTerms:
        return yolov7_terms(raw, assignment, targets, anchors_LA2, self.settings, best_overlap=not self.faithful)

    def _balanced(self, by_level: Tensor) -> Tensor:
        return sum_of(loss * weight for loss, weight in zip(by_level, self.balance, strict=True))

    def _follow(self, by_level: Tensor) -> None:
        """Move each level's weight towards the inverse of its loss, keeping that of stride 16 at 1."""
        balance = torch.stack([torch.as_tensor(weight, device=by_level.device) for weight in self.balance])
        balance = _BALANCE_DECAY * balance + (1 - _BALANCE_DECAY) / by_level
        self.balance = balance / balance[self.model.layout.strides.index(_BALANCE_STRIDE)]


def build_loss(
    model: RawMapReader,
    hyp: Mapping[str, Any],
    image_size: int,
    assigner: Assigner = "ota",
    faithful: bool = True,
) -> Criterion:
    """The loss of a model: a callable `(raw, targets) -> LossTerms`.

    `hyp` holds unscaled hyper-parameters (`box obj cls cls_pw obj_pw anchor_t fl_gamma label_smoothing autobalance`), and
    `image_size` is the training size; the published scaling of the gains is applied here. `faithful` reproduces what the
    published code computes, defects included; `faithful=False` repairs them (docs/differences.md).
    """
    if assigner not in ASSIGNERS:
        raise UserError(f"assigner is {assigner!r}{nearest(assigner, ASSIGNERS)}", fix=f"use one of {', '.join(ASSIGNERS)}")
    layout = model.layout
    settings = LossSettings.from_hyp(hyp, layout.levels, layout.nc, image_size)
    return YoloV7Criterion(model, settings, assigner, faithful)


def anchors_in_cells(model: RawMapReader) -> Tensor:
    """`[L, A, 2]`; divided level by level, so that no list of strides has to be copied to the device."""
    pixels = model.anchors_px.float()
    return torch.stack([level / stride for level, stride in zip(pixels, model.layout.strides, strict=True)])


def gained(box: Tensor, obj: Tensor, cls: Tensor, settings: LossSettings, batch: int) -> LossTerms:
    """Gains applied; the total times the batch size, as published."""
    box, obj, cls = box * settings.box, obj * settings.obj, cls * settings.cls
    return LossTerms((box + obj + cls) * batch, box=box.detach(), obj=obj.detach(), cls=cls.detach())


def sum_of(values: Any) -> Tensor:
    total: Tensor = sum(values)  # type: ignore[assignment]
    return total
