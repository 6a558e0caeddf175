"""What the ranks of one machine share: its files, its page cache, its GPUs."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from yolofast.config.train import TrainConfig
from yolofast.errors import UserError
from yolofast.image_index import ImageIndex
from yolofast.pixels import ImageSource, PackedImages
from yolofast.precision import device_of
from yolofast.ranks import wait_for_all, world
from yolofast.store.opening import open_images
from yolofast.train.distributed.join import RankPlace

Made = TypeVar("Made")


def in_turn(make: Callable[[], Made]) -> Made:
    """The machine's first rank makes it, files included; then the others do, and find the files there."""
    first = RankPlace.of_environment().local_rank == 0
    made = make() if first else None
    wait_for_all()
    return make() if made is None else made


def open_images_together(
    index: ImageIndex, width: int, height: int, cache: str, **settings: Any
) -> ImageSource | PackedImages:
    """`open_images`, packed once per machine. All its ranks keep pixels the way the first one chose to.

    RAM is where it is shared: the mapped file, of which the machine has one copy however many ranks read it.
    """
    if world() == 1:
        return open_images(index, width, height, cache, **settings)[0]
    place = RankPlace.of_environment()
    images, choice = None, None
    if place.local_rank == 0:
        images, choice = open_images(index, width, height, cache, shared=True, **settings)
    chosen: list[Any] = [None] * world()
    dist.all_gather_object(chosen, None if choice is None else (place.machine, choice.kind))
    if images is None:
        kind = dict(one for one in chosen if one is not None)[place.machine]
        images, _ = open_images(index, width, height, kind, shared=True, **settings)
    return images


def device_of_rank(name: str) -> torch.device:
    """The device `--device` means for this process: of the GPUs it names, or of all, the one with its number."""
    place = RankPlace.of_environment()
    if not place.is_launched or name == "cpu" or not torch.cuda.is_available():
        return device_of(name)
    named = name.removeprefix("cuda:").split(",") if name else [str(n) for n in range(torch.cuda.device_count())]
    if place.local_rank >= len(named):
        what = f"process {place.local_rank} of this machine has no GPU of its own: "
        what += f"--device names {len(named)}" if name else f"there are {len(named)}"
        raise UserError(what, fix=f"start {len(named)} processes per machine (torchrun --nproc-per-node {len(named)})")
    return device_of(named[place.local_rank], name)


def check_devices(config: TrainConfig) -> str:
    """`--device`, if it names GPUs that are there."""
    for number in config.devices:
        device_of(number, config.device)
    return config.device.removeprefix("cuda:")
