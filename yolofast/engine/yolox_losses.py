"""The losses of a YOLOX run by epoch: the last epochs learn raw boxes (L1) too."""

from collections.abc import Mapping

from torch import Tensor

from yolofast.assign.head import CURRENT, SimOtaVersion
from yolofast.engine.yolox_criterion import YoloXCriterion
from yolofast.structures import RawMapReader


class YoloXLosses:
    """Two losses, each built once: a captured or compiled step knows by the object which one it was made with."""

    def __init__(
        self,
        model: RawMapReader,
        l1_from: int | None,
        faithful: bool,
        *,
        version: SimOtaVersion = CURRENT,
        assigner: str = "simota",
    ) -> None:
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
