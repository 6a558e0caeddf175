"""A step small enough to be compiled in a test; in a module, so that another process can load it."""

import torch
from torch import Tensor, nn

from yolofast.optim.optimizer import ModelEma
from yolofast.optim.sgd import Sgd
from yolofast.precision import Precision
from yolofast.structures import Batch, LossTerms, Targets
from yolofast.train.step import TrainStep


class SquaredLevels:
    """A loss that does not need to know what a box is, but which places are empty."""

    def __call__(self, raw, targets: Targets) -> LossTerms:
        there = targets.valid[..., None]
        expected = (targets.boxes * there).sum() / (4 * there.sum().clamp(min=1))
        losses = [(level - expected).square().mean() for level in raw]
        none = losses[0] * 0
        return LossTerms(losses[0] * 4, {"box": losses[0], "obj": none, "cls": none}, times_images=True)


class AsksTheHost(SquaredLevels):
    """Cannot be compiled whole."""

    def __call__(self, raw, targets: Targets) -> LossTerms:
        if raw[0].mean().item() > 1e9:
            raise ValueError
        return super().__call__(raw, targets)


class OneMap(nn.Sequential):
    def forward(self, images: Tensor) -> list[Tensor]:
        return [super().forward(images)]


class AskingMap(OneMap):
    """Cannot be compiled whole either."""

    def forward(self, images: Tensor) -> list[Tensor]:
        if images.mean().item() > 1e9:
            raise ValueError
        return super().forward(images)


def small_step(criterion=None, device="cpu", network=OneMap) -> TrainStep:
    torch.manual_seed(0)
    model = network(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.LeakyReLU(0.1)).to(device).train()
    optimizer = Sgd([{"params": list(model.parameters()), "weight_decay": 0.0}])
    optimizer.set((0.01,), 0.9)
    return TrainStep(model, criterion or SquaredLevels(), optimizer, ModelEma(model), Precision.choose("fp32", device))


def small_batch(seed: int, images: int = 2) -> Batch:
    rng = torch.Generator().manual_seed(seed)
    boxes = torch.rand(images, 3, 4, generator=rng)
    targets = Targets(boxes, torch.zeros(images, 3, dtype=torch.int64), torch.ones(images, 3, dtype=torch.bool))
    return Batch(torch.rand(images, 3, 16, 16, generator=rng), targets, None)
