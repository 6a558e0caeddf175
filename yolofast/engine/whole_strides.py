"""Image sizes that a network's coarsest map covers without a rest: others are rounded up, as published, and said."""

import dataclasses
from collections.abc import Callable

from yolofast.config.train import TrainConfig


def in_strides(
    sides: tuple[int, ...], stride: int, say: Callable[[str], None], asked_by: str = "--img"
) -> tuple[int, ...]:
    whole = tuple(-(-side // stride) * stride for side in sides)
    if whole != sides:
        asked, used = (" ".join(map(str, sizes if len(set(sizes)) > 1 else sizes[:1])) for sizes in (sides, whole))
        say(f"warning: {asked_by} {asked} is not a multiple of the stride {stride}: {used} is used")
    return whole


def with_whole_strides(config: TrainConfig, stride: int, say: Callable[[str], None]) -> TrainConfig:
    return dataclasses.replace(config, img_size=in_strides(config.img_size, stride, say))
