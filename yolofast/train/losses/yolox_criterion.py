"""YOLOX's assignment and loss joined: raw maps and targets in, `LossTerms` out, without waiting for the host.

The last epochs of a run also learn raw boxes (L1).
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from yolofast.assign.cells import CURRENT, Head, SimOtaVersion
from yolofast.errors import UserError
from yolofast.extensions import ASSIGNERS, found
from yolofast.loss.yolox_loss import yolox_loss
from yolofast.raw_maps import RowReader
from yolofast.structures import Assignment, LossTerms, RawMapReader, Targets


class YoloXCriterion:
    """The YOLOX loss. `use_l1` may be switched between steps: the published recipe does so for the last epochs."""

    def __init__(
        self, model: RawMapReader, version: SimOtaVersion = CURRENT, faithful: bool = True,
        *, assigner: str = "simota", use_l1: bool = False,
    ) -> None:  # fmt: skip
        """`faithful=False` leaves out boxes without area, which the published code gives a cell to no avail."""
        self.model, self.version, self.faithful = model, version, faithful
        self.assigner, self.use_l1 = assigner, use_l1
        self._assign = found(ASSIGNERS[assigner].assign)

    @property
    def has_kernels(self) -> bool:
        """Its few kernels are little of a step: compiled, yolox-s took as long (14.2 ms at 320 pixels, H200)."""
        return self.assigner == "simota"

    def __call__(self, raw: Sequence[Tensor], targets: Targets) -> LossTerms:
        layout = self.model.layout
        maps = [_as_points(raw_map, layout.nc) for raw_map in raw]
        if not self.faithful:
            has_area = (targets.boxes[..., 2:] > 0).all(-1)
            targets = Targets(targets.boxes, targets.labels, targets.valid & has_area)
        return yolox_loss(maps, self.assign(maps, targets), targets, layout.strides, use_l1=self.use_l1)

    def assign(self, maps: Sequence[Tensor], targets: Targets) -> list[Assignment]:
        head = Head(
            layout=self.model.layout, anchors_px=self.model.anchors_px, reader=RowReader(), faithful=self.faithful,
            version=self.version,
        )  # fmt: skip
        with torch.no_grad():
            assignment: list[Assignment] = self._assign(maps, targets, head)
        return assignment


def _as_points(raw_map: Tensor, nc: int) -> Tensor:
    """A map as `[B, 1, H, W, 5 + nc]`; `[B, 5 + nc, H, W]`, as convolutions give it, is viewed so."""
    points = raw_map.permute(0, 2, 3, 1)[:, None] if raw_map.ndim == 4 else raw_map
    if points.ndim != 5 or points.shape[1] != 1 or points.shape[-1] != 5 + nc:
        what = f"a raw map has shape {tuple(raw_map.shape)}, for {nc} classes"
        raise UserError(what, fix=f"give [batch, 1, rows, columns, {5 + nc}] or [batch, {5 + nc}, rows, columns]")
    return points


class YoloXLosses:
    """Two losses, each built once: a captured or compiled step knows by the object which one it was made with."""

    def __init__(
        self, model: RawMapReader, l1_from: int | None, faithful: bool,
        *, version: SimOtaVersion = CURRENT, assigner: str = "simota",
    ) -> None:  # fmt: skip
        """`l1_from` is the first epoch, from 0, with L1 (`YoloXRecipe.closes_at`); None: never."""
        self.l1_from = l1_from
        self._plain, self._with_l1 = (
            YoloXCriterion(model, version, faithful, assigner=assigner, use_l1=use_l1) for use_l1 in (False, True)
        )

    def training(self, epoch: int) -> YoloXCriterion:
        return self._with_l1 if self.l1_from is not None and epoch >= self.l1_from else self._plain

    def validation(self, epoch: int) -> YoloXCriterion:
        """That of training, so that both can be compared."""
        return self.training(epoch)

    def state_dict(self) -> dict[str, list[Tensor]]:
        """Nothing: these losses learn nothing themselves."""
        return {}

    def load_state_dict(self, state: Mapping[str, list[Tensor]]) -> None: ...
