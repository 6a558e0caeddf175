"""Which assigner is used when: one for the whole run, or a switch during training.

Cheap assignment early and OTA late is a common recipe where OTA is slow. Here OTA costs nothing, but which one learns
better is still a question worth asking of a data set.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from yolofast.engine.build_loss import build_loss
from yolofast.engine.criterion import Criterion, state_of
from yolofast.engine.quad_loss import QuadLoss
from yolofast.errors import UserError, shorten
from yolofast.extensions import check_assigner
from yolofast.structures import RawMapReader

_FORM = "assigner: ota, or assigner: [[0, anchor], [70, ota]] with the epoch each starts at"


@dataclass(frozen=True)
class AssignerSchedule:
    """`steps` are (first epoch, assigner), the first at epoch 0, in order."""

    steps: tuple[tuple[int, str], ...]

    @staticmethod
    def from_hyp(hyp: Mapping[str, Any], ota_from_epoch: int | None = None, default: str = "ota") -> "AssignerSchedule":
        """From `assigner` in the hyper-parameters, `--ota-from-epoch`, or YOLOv7's `loss_ota` (1 is OTA)."""
        given = hyp.get("assigner")
        if ota_from_epoch is not None:
            if given is not None:
                raise UserError(
                    "--ota-from-epoch and assigner in the hyper-parameters both set the assigner", fix="drop one"
                )
            if ota_from_epoch < 0:
                raise UserError(f"--ota-from-epoch is {ota_from_epoch}", fix="give the first epoch with OTA, from 0")
            given = [[0, "anchor"], [ota_from_epoch, "ota"]] if ota_from_epoch else "ota"
        if given is None:
            published = hyp.get("loss_ota", 1)
            if type(published) not in (int, float, bool):
                raise UserError(f"loss_ota is {shorten(published)}", fix="give 1 for OTA, 0 for anchor")
            given = "anchor" if published != 1 and default == "ota" else default
        return AssignerSchedule(tuple(_steps(given)))

    def at(self, epoch: int) -> str:
        return [assigner for first, assigner in self.steps if first <= epoch][-1]

    def for_validation(self, epoch: int, faithful: bool, has_anchors: bool = True) -> str:
        """That of training, so that both losses can be compared; the published code always validates with `anchor`."""
        assigner = self.at(epoch)
        return "anchor" if faithful and assigner == "ota" and has_anchors else assigner


class ScheduledLoss:
    """The losses of a run by epoch, each built once."""

    def __init__(
        self, model: RawMapReader, hyp: Mapping[str, Any], image_size: int, schedule: AssignerSchedule, faithful: bool,
        *, quad: bool = False,
    ) -> None:  # fmt: skip
        self.schedule, self.faithful = schedule, faithful
        self._has_anchors = model.layout.has_anchors
        epochs = [epoch for epoch, _ in schedule.steps]
        used = {self.schedule.at(epoch) for epoch in epochs} | {self._of_validation(epoch) for epoch in epochs}
        self._losses = {assigner: build_loss(model, hyp, image_size, assigner, faithful) for assigner in sorted(used)}
        self._training = {assigner: QuadLoss(loss) if quad else loss for assigner, loss in self._losses.items()}

    def training(self, epoch: int) -> Criterion:
        return self._training[self.schedule.at(epoch)]

    def validation(self, epoch: int) -> Criterion:
        return self._losses[self._of_validation(epoch)]

    def state_dict(self) -> dict[str, list[Tensor]]:
        """What the losses have learnt themselves (autobalance)."""
        return {assigner: state_of(loss) for assigner, loss in self._losses.items()}

    def load_state_dict(self, state: Mapping[str, list[Tensor]]) -> None:
        for assigner, tensors in self.state_dict().items():
            for own, given in zip(tensors, state.get(assigner, []), strict=False):
                own.copy_(given)

    def _of_validation(self, epoch: int) -> str:
        return self.schedule.for_validation(epoch, self.faithful, self._has_anchors)


def _steps(given: Any) -> list[tuple[int, str]]:
    if isinstance(given, str):
        given = [[0, given]]
    if not isinstance(given, list) or not given:
        raise UserError(f"assigner is {shorten(given)}", fix=_FORM)
    steps: list[tuple[int, str]] = []
    for step in given:
        if not isinstance(step, list | tuple) or len(step) != 2 or type(step[0]) is not int:
            raise UserError(f"assigner has the entry {shorten(step)}", fix=_FORM)
        epoch, name = step
        steps.append((epoch, check_assigner(name)))
    epochs = [epoch for epoch, _ in steps]
    if epochs[0] != 0 or epochs != sorted(set(epochs)):
        raise UserError(f"assigner starts at epochs {epochs}", fix="start at 0 and go up")
    return steps
