"""YOLOv7's assignment and loss joined: raw maps and targets in, `LossTerms` out, without waiting for the host.

With `--quad` a loss summed over a quarter of the images counts four times, as published.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from yolofast.assign.cells import Head
from yolofast.errors import UserError
from yolofast.extensions import ASSIGNERS, found
from yolofast.loss.criterion import Criterion, LossSettings, state_of
from yolofast.loss.yolov7_loss import ObjectnessMean, level_balance, mean_of_all, yolov7_terms
from yolofast.ranks import follow_all, whole_batch
from yolofast.raw_maps import RowReader
from yolofast.structures import QUAD_IMAGES, Assignment, HeadLayout, LossTerms, RawMapReader, Targets

_LEAD_REACH, _AUX_REACH, _AUX_WEIGHT = 0.5, 1.0, 0.25
_TOPK, _TOPK_WITH_AUX = 10, 20
_BALANCE_DECAY, _BALANCE_STRIDE, _SMALLEST_LOSS = 0.9999, 16, 1e-6


class YoloV7Criterion:
    """The YOLOv7 losses of one head, with auxiliary maps when the raw maps hold them."""

    def __init__(
        self, model: RawMapReader, settings: LossSettings, assigner: str, faithful: bool,
        reader: RowReader | None = None,
    ) -> None:  # fmt: skip
        self.model, self.settings, self.assigner, self.faithful = model, settings, assigner, faithful
        self._assign = found(ASSIGNERS[assigner].assign)
        self.reader = RowReader(model.layout.bins) if reader is None else reader
        balance = level_balance(model.layout.levels)
        self.balance: Sequence[float] | Tensor = balance
        if settings.autobalance:
            if _BALANCE_STRIDE not in model.layout.strides:
                raise UserError("autobalance needs a level of stride 16", fix="switch it off for this model")
            # Made once and changed in place, so that a captured graph keeps moving it.
            self.balance = torch.tensor(balance, device=model.anchors_px.device)

    @property
    def has_kernels(self) -> bool:
        """Whether, on a GPU, assignment and terms are a few kernels: a compiler then has nothing to add."""
        usual = self.settings.fl_gamma == 0 and self.settings.cls_gr == 0
        plain = not self.reader.bins and self.reader.score_channels is None and usual
        return plain and self.assigner in ("anchor", "ota")

    def tensors(self) -> list[Tensor]:
        return [self.balance] if isinstance(self.balance, Tensor) else []

    def __call__(self, raw: Sequence[Tensor], targets: Targets) -> LossTerms:
        return self.ungained(raw, targets).gained(self.settings, batch=len(raw[0]))

    def ungained(
        self, raw: Sequence[Tensor], targets: Targets, objectness_mean: ObjectnessMean = mean_of_all
    ) -> "Ungained":
        """The terms before gains and batch size: what a head contributes to a sum over heads."""
        layout = self.model.layout
        check_maps(raw, targets, layout, self.reader)
        lead, aux = raw[: layout.levels], raw[layout.levels :]
        anchors = anchors_in_cells(self.model)
        topk = _TOPK_WITH_AUX if layout.auxiliary else _TOPK
        given = targets, anchors, self.settings, self.reader
        how: dict[str, Any] = {"best_overlap": not self.faithful, "objectness_mean": objectness_mean}
        terms = yolov7_terms(lead, self.assign(lead, targets, anchors, _LEAD_REACH, topk), *given, **how)
        obj = self._balanced(terms.obj_by_level)
        box, cls = terms.box, terms.cls
        if aux:
            # Auxiliary maps learn what the lead maps would assign in a wider neighbourhood.
            extra = yolov7_terms(aux, self.assign(lead, targets, anchors, _AUX_REACH, topk), *given, **how)
            box, cls = box + _AUX_WEIGHT * extra.box, cls + _AUX_WEIGHT * extra.cls
            obj = obj + _AUX_WEIGHT * self._balanced(extra.obj_by_level)
        if self.settings.autobalance and torch.is_grad_enabled():  # validation only looks
            self._follow(follow_all(terms.obj_by_level.detach()))
        return Ungained(box, obj, cls)

    def assign(
        self, lead: Sequence[Tensor], targets: Targets, anchors_LA2: Tensor, reach: float, topk: int
    ) -> list[Assignment]:
        head = Head(
            layout=self.model.layout, anchors_px=self.model.anchors_px, reader=self.reader, faithful=self.faithful,
            anchors_LA2=anchors_LA2, anchor_t=self.settings.anchor_t, reach=reach, topk=topk,
        )  # fmt: skip
        with torch.no_grad():
            assignment: list[Assignment] = self._assign(lead, targets, head)
        return assignment

    def _balanced(self, by_level: Tensor) -> Tensor:
        # A copy: the weights change in place before the backward pass reads them.
        balance = self.balance.clone() if isinstance(self.balance, Tensor) else self.balance
        return sum_of(loss * weight for loss, weight in zip(by_level, balance, strict=True))

    def _follow(self, by_level: Tensor) -> None:
        """Move each level's weight towards the inverse of its loss, keeping that of stride 16 at 1."""
        assert isinstance(self.balance, Tensor)
        balance = _BALANCE_DECAY * self.balance + (1 - _BALANCE_DECAY) / by_level.clamp(min=_SMALLEST_LOSS)
        self.balance.copy_(balance / balance[self.model.layout.strides.index(_BALANCE_STRIDE)])


def check_maps(raw: Sequence[Tensor], targets: Targets, layout: HeadLayout, reader: RowReader) -> None:
    """Refuse maps that are not this head's. Only shapes are looked at, which costs the device nothing."""
    counts = (layout.levels, 2 * layout.levels) if layout.auxiliary else (layout.levels,)
    if len(raw) not in counts:
        what = f"{len(raw)} raw maps, expected {' or '.join(map(str, counts))}"
        raise UserError(what, fix="give what the model returned")
    channels, images, anchors = reader.objectness + 1 + layout.nc, len(targets.labels), layout.anchors_per_cell
    size = [side * layout.strides[0] for side in raw[0].shape[2:4]]
    for level, raw_map in enumerate(raw):
        stride = layout.strides[level % layout.levels]
        same_size = raw_map.ndim == 5 and [side * stride for side in raw_map.shape[2:4]] == size
        own = reader.score_channels is not None or raw_map.shape[-1] == channels
        if not same_size or raw_map.shape[:2] != (images, anchors) or not own:
            what = f"raw map {level} is {tuple(raw_map.shape)}; targets are of {images} images, nc is {layout.nc}"
            fix = f"give [{images}, {anchors}, rows, columns, {channels}], level by level, as the model did"
            raise UserError(what, fix=fix)


def anchors_in_cells(model: RawMapReader) -> Tensor:
    """`[L, A, 2]`; divided level by level, so that no list of strides has to be copied to the device."""
    pixels = model.anchors_px.float()
    return torch.stack([level / stride for level, stride in zip(pixels, model.layout.strides, strict=True)])


@dataclass(frozen=True)
class Ungained:
    """A head's terms, levels balanced and auxiliary maps included, before gains and batch size."""

    box: Tensor
    obj: Tensor
    cls: Tensor

    def gained(self, settings: LossSettings, batch: int) -> LossTerms:
        """Gains applied; the total times the batch size (over all ranks), as published."""
        box, obj, cls = self.box * settings.box, self.obj * settings.obj, self.cls * settings.cls
        parts = {"box": box.detach(), "obj": obj.detach(), "cls": cls.detach()}
        return LossTerms((box + obj + cls) * whole_batch(batch, box.device), parts, times_images=True)


def sum_of(values: Any) -> Tensor:
    total: Tensor = sum(values)
    return total


class QuadLoss:
    def __init__(self, criterion: Criterion) -> None:
        self.criterion = criterion

    def __call__(self, raw: Sequence[Tensor], targets: Targets) -> LossTerms:
        terms = self.criterion(raw, targets)
        return replace(terms, total=terms.total * QUAD_IMAGES)

    @property
    def has_kernels(self) -> bool:
        return getattr(self.criterion, "has_kernels", False)

    def tensors(self) -> list[Tensor]:
        return state_of(self.criterion)
