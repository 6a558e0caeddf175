"""The one way to a loss: which one follows from the model's head and the assigner, and which assigner is used when.

Cheap assignment early and OTA late is a common recipe where OTA is slow. Here OTA costs nothing, but which one learns
better remains a question for each data set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from yolofast.assign.cells import CURRENT, VENDORED, SimOtaVersion
from yolofast.config.hyp import read_hyp
from yolofast.errors import UserError, shorten
from yolofast.extensions import assigner_for, check_assigner
from yolofast.loss.criterion import Criterion, LossSettings, state_of
from yolofast.optim.optimizer import refill
from yolofast.structures import RawMapReader
from yolofast.train.losses.multihead_criterion import MultiHeadCriterion
from yolofast.train.losses.yolov7_criterion import QuadLoss, YoloV7Criterion
from yolofast.train.losses.yolox_criterion import YoloXCriterion

SIMOTA_VERSIONS: dict[str, SimOtaVersion] = {"current": CURRENT, "vendored": VENDORED}


def build_loss(
    model: RawMapReader, hyp: Mapping[str, Any] | str | Path | None, image_size: int | Sequence[int],
    assigner: str = "ota", faithful: bool = True,
) -> Criterion:  # fmt: skip
    """The loss of a model: a callable `(raw, targets) -> LossTerms`. Build it once the model is on its device.

    `hyp` holds unscaled hyper-parameters (docs/losses.md lists them; others are left alone): a mapping, or a file or
    short name such as `hyp.scratch.tiny`; None are the published defaults. `image_size` is the size trained at, and the
    published scaling of the gains is applied here. `faithful` reproduces what the published code computes, defects
    included; `faithful=False` repairs them (docs/differences.md). For YOLOX `ota` means `simota`.
    """
    layout, hyp = model.layout, _values(hyp)
    assigner = assigner_for(check_assigner(assigner), anchors=layout.has_anchors)
    if not layout.has_anchors:
        version = hyp.get("simota_version", "current")
        if not isinstance(version, str) or version not in SIMOTA_VERSIONS:
            raise UserError(f"simota_version is {shorten(version)}", fix=f"use one of {', '.join(SIMOTA_VERSIONS)}")
        l1 = _flag(hyp, "use_l1")
        return YoloXCriterion(model, SIMOTA_VERSIONS[version], faithful, assigner=assigner, use_l1=l1)
    settings = LossSettings.from_hyp(hyp, layout.levels, layout.nc, _longest_side(image_size))
    if not layout.head_classes:
        return YoloV7Criterion(model, settings, assigner, faithful)
    ignore, weight = _flag(hyp, "ignore_other_heads"), hyp.get("ignore_weight", 0.0)
    return MultiHeadCriterion(model, settings, assigner, faithful, ignore_other_heads=ignore, ignore_weight=weight)


def _values(hyp: object) -> Mapping[str, Any]:
    if hyp is None:
        return {}
    if isinstance(hyp, Mapping):
        return hyp
    if isinstance(hyp, str | Path):
        return read_hyp(hyp)
    what = f"hyp is {type(hyp).__name__}: {shorten(hyp)}"
    raise UserError(what, fix='give a mapping such as {"box": 0.05}, a file, a short name, or None for the defaults')


def _flag(hyp: Mapping[str, Any], key: str) -> bool:
    value = hyp.get(key, False)
    if not isinstance(value, bool):
        raise UserError(f"hyper-parameter {key} is {shorten(value)}", fix="give true or false")
    return value


def _longest_side(image_size: int | Sequence[int]) -> int:
    sides: Any = [image_size] if isinstance(image_size, int) else image_size
    fits = isinstance(sides, list | tuple) and len(sides) in (1, 2)
    if not fits or not all(isinstance(side, int) and side > 0 for side in sides):
        raise UserError(f"image_size is {shorten(image_size)}", fix="give pixels, or height and width")
    return int(max(sides))


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
                what = "--ota-from-epoch and assigner in the hyper-parameters both set the assigner"
                raise UserError(what, fix="drop one")
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
                refill(own, given)

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
