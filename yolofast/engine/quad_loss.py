"""`--quad`: a loss is summed over images, of which there is a quarter; as published it counts four times."""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from yolofast.engine.criterion import Criterion, state_of
from yolofast.loader.quad import GROUP
from yolofast.structures import LossTerms, Targets


class QuadLoss:
    def __init__(self, criterion: Criterion) -> None:
        self.criterion = criterion

    def __call__(self, raw: Sequence[Tensor], targets: Targets) -> LossTerms:
        terms = self.criterion(raw, targets)
        return replace(terms, total=terms.total * GROUP)

    def tensors(self) -> list[Tensor]:
        return state_of(self.criterion)
