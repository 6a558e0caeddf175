"""1B4H's loss: the single-head loss once per head, each on the boxes of its own classes.

The heads' classes are a partition, so a box has one head. To every other head it is background, unless the ignore
strategy takes its centre cells out of their objectness. Published training always uses the `anchor` assigner here and
has no validation loss; both are limits of its router only, so any assigner works per head, and the validation loss is
this same call.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from yolofast.errors import UserError, shorten
from yolofast.loss.criterion import LossSettings
from yolofast.loss.yolov7_loss import mean_without_foreign
from yolofast.raw_maps import RowReader
from yolofast.structures import HeadLayout, LossTerms, RawMapReader, Targets
from yolofast.train.losses.yolov7_criterion import Ungained, YoloV7Criterion, sum_of

_NOT_MINE = -1


class MultiHeadCriterion:
    """The sum of the heads' losses, each times its weight (`HeadLayout.head_weights`), then gains and batch size.

    Build it once the model is on its device: the lookup tables are made there, so that a step copies nothing.
    """

    def __init__(
        self, model: RawMapReader, settings: LossSettings, assigner: str, faithful: bool,
        *, ignore_other_heads: bool = False, ignore_weight: float = 0.0,
    ) -> None:  # fmt: skip
        """`ignore_other_heads` takes the centre cells of other heads' objects out of a head's objectness; with an
        `ignore_weight` above 0 they count that much instead of nothing."""
        layout = model.layout
        if not isinstance(ignore_weight, int | float) or not 0 <= ignore_weight <= 1:
            raise UserError(f"ignore_weight is {shorten(ignore_weight)}", fix="give a number from 0 to 1")
        self.settings, self.assigner, self.faithful = settings, assigner, faithful
        self.ignore_other_heads, self.ignore_weight = ignore_other_heads, ignore_weight
        self.levels = layout.levels
        self.weights = layout.head_weights or (1.0,) * layout.heads
        self.heads = [
            YoloV7Criterion(OneHead(model, own), settings, assigner, faithful, _reader(layout, own, model))
            for own in layout.head_classes
        ]
        self.local_HC = _local_ids(layout, model.anchors_px.device)

    def tensors(self) -> list[Tensor]:
        return [tensor for head in self.heads for tensor in head.tensors()]

    def __call__(self, raw: Sequence[Tensor], targets: Targets) -> LossTerms:
        if len(raw) != len(self.heads) * self.levels:
            what = f"{len(raw)} raw maps for {len(self.heads)} heads of {self.levels} levels"
            raise UserError(what, fix="give what the model returned: map head · levels + level")
        terms = [
            self._head(head, raw[head * self.levels : (head + 1) * self.levels], targets)
            for head in range(len(self.heads))
        ]
        weighted = list(zip(terms, self.weights, strict=True))
        total = Ungained(
            box=sum_of(head.box * weight for head, weight in weighted),
            obj=sum_of(head.obj * weight for head, weight in weighted),
            cls=sum_of(head.cls * weight for head, weight in weighted),
        )
        return total.gained(self.settings, batch=len(raw[0]))

    def _head(self, head: int, raw: Sequence[Tensor], targets: Targets) -> Ungained:
        local_BG = self.local_HC[head][targets.labels]
        own_BG = local_BG != _NOT_MINE
        mine = Targets(targets.boxes, local_BG.clamp(min=0), targets.valid & own_BG)
        if not self.ignore_other_heads:
            return self.heads[head].ungained(raw, mine)
        mean = partial(
            mean_without_foreign, boxes_BG4=targets.boxes, foreign_BG=targets.valid & ~own_BG,
            weight=self.ignore_weight, spare_positives=not self.faithful,
        )  # fmt: skip
        return self.heads[head].ungained(raw, mine, mean)


class OneHead:
    """One head of a model, to be read like a model of a single head with as many classes as it owns."""

    class_columns = None

    def __init__(self, model: RawMapReader, own: tuple[int, ...]) -> None:
        self.model = model
        self.layout = replace(model.layout, nc=len(own), head_classes=(), head_weights=(), full_head=False)

    @property
    def anchors_px(self) -> Tensor:
        return self.model.anchors_px


def _reader(layout: HeadLayout, own: tuple[int, ...], model: RawMapReader) -> RowReader:
    """Of a full head only the channels of its own classes are read, in the order of its local ids."""
    if not layout.full_head:
        return RowReader(layout.bins)
    objectness = RowReader(layout.bins).objectness
    channels = [objectness] + [objectness + 1 + label for label in own]
    return RowReader(layout.bins, torch.tensor(channels, device=model.anchors_px.device))


def _local_ids(layout: HeadLayout, device: torch.device) -> Tensor:
    """`[heads, nc]`: the place of each class among a head's own."""
    rows = torch.full((layout.heads, layout.nc), _NOT_MINE)
    for head, own in enumerate(layout.head_classes):
        rows[head, list(own)] = torch.arange(len(own))
    return rows.to(device)
