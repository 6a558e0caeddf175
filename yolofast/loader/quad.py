"""`--quad`: four images become one of twice the size, which is either one of them enlarged or all four side by side.

Batches hold a quarter of the images at double size. A group of four is named by the position of its first image, so
what is drawn for it depends on nothing else. `QuadOnDevice` does the same with batches made on the device; there boxes
stay in their slots among four times as many, so that shapes never depend on the data.
"""

from collections.abc import Iterator

import cv2
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from yolofast.augment.draws import uniform, whole
from yolofast.image_index import Ints
from yolofast.loader.device_loader import DeviceLoader
from yolofast.loader.order import EpochOrder
from yolofast.structures import QUAD_IMAGES, Batch, Targets

Rows = npt.NDArray[np.float32]
Pixels = npt.NDArray[np.uint8]

_STREAM = 7
_ENLARGED_SHARE = 0.5


def choose_enlarged(seed: int, epoch: int, positions: Ints) -> Ints:
    """[groups] which image of the batch fills each group's; -1 where all four are shown."""
    first = np.arange(0, len(positions), QUAD_IMAGES)
    draws = uniform(seed, epoch, positions[first], 2, _STREAM)
    return np.where(draws[:, 0] < _ENLARGED_SHARE, first + whole(QUAD_IMAGES, draws[:, 1]), -1)


def join_images(images: Pixels, enlarged: Ints, out: Pixels) -> None:
    """Fill `out [groups, 3, 2h, 2w]` from `images [4 · groups, 3, h, w]`."""
    height, width = images.shape[2:]
    for group, chosen in enumerate(enlarged):
        if chosen >= 0:
            for channel in range(3):
                cv2.resize(images[chosen, channel], (2 * width, 2 * height), dst=out[group, channel])
            continue
        for member in range(QUAD_IMAGES):
            down, right = divmod(member, 2)
            place = out[group, :, down * height : (down + 1) * height, right * width : (right + 1) * width]
            place[:] = images[QUAD_IMAGES * group + member]


def join_rows(rows: Rows, enlarged: Ints) -> Rows:
    """What the joined images show, from rows `image class cx cy w h` of the single ones."""
    image = rows[:, 0].astype(np.int64)
    group, member = np.divmod(image, QUAD_IMAGES)
    fills = enlarged[group] == image
    side_by_side = enlarged[group] < 0
    joined = rows.copy()
    joined[:, 0] = group
    corner = np.stack((member % 2, member // 2), axis=-1)
    joined[side_by_side, 2:4] = (joined[side_by_side, 2:4] + corner[side_by_side]) / 2
    joined[side_by_side, 4:6] /= 2
    shown: Rows = joined[fills | side_by_side]
    return shown


class QuadOnDevice:
    """The batches of a `DeviceLoader`, joined. Its order must keep groups of four together (`multiple`)."""

    def __init__(self, single: DeviceLoader) -> None:
        assert single.order.multiple % QUAD_IMAGES == 0
        self.single = single

    @property
    def order(self) -> EpochOrder:
        return self.single.order

    @order.setter
    def order(self, order: EpochOrder) -> None:
        self.single.order = order

    def __len__(self) -> int:
        return len(self.single)

    def epoch(self, number: int, start_batch: int = 0) -> Iterator[Batch]:
        seed = self.single.planner.seed
        batches = self.single.epoch(number, start_batch)
        for part, batch in zip(self.order.batches(number, start_batch), batches, strict=True):
            enlarged = choose_enlarged(seed, number, part.positions)
            first = np.arange(len(enlarged)) * QUAD_IMAGES
            chosen = np.where(enlarged >= 0, enlarged, first)
            chosen_g, is_enlarged_g = self._sent(chosen), self._sent(enlarged >= 0)
            images = join_on_device(batch.images, chosen_g, is_enlarged_g)
            targets = join_targets(batch.targets, chosen_g % QUAD_IMAGES, is_enlarged_g)
            yield Batch(images, targets, part.images[chosen], mix=batch.mix)

    def _sent(self, values: npt.NDArray[np.generic]) -> Tensor:
        tensor = torch.from_numpy(values)
        device = self.single.device
        return (tensor.pin_memory() if device.type == "cuda" else tensor).to(device, non_blocking=True)


def join_on_device(images: Tensor, chosen_g: Tensor, is_enlarged_g: Tensor) -> Tensor:
    """`[4g, 3, h, w]` as `[g, 3, 2h, 2w]`: the chosen image enlarged, or all four side by side."""
    _, channels, height, width = images.shape
    sides = images.view(-1, 2, 2, channels, height, width).permute(0, 3, 1, 4, 2, 5)
    together = sides.reshape(-1, channels, 2 * height, 2 * width)
    large = functional.interpolate(images[chosen_g], scale_factor=2, mode="bilinear", align_corners=False)
    joined = torch.where(is_enlarged_g.view(-1, 1, 1, 1), large, together)
    return joined.contiguous(memory_format=torch.channels_last)


def join_targets(targets: Targets, member_g: Tensor, is_enlarged_g: Tensor) -> Targets:
    """Of `[4g, G]` boxes `[g, 4G]`: those of the enlarged image as they are, otherwise all, moved to their quarter."""
    groups, places = len(member_g), targets.valid.shape[1]
    boxes = targets.boxes.view(groups, QUAD_IMAGES, places, 4)
    member = torch.arange(QUAD_IMAGES, device=boxes.device)
    corner = torch.stack((member % 2, member // 2), dim=-1).view(QUAD_IMAGES, 1, 2)
    quarter = torch.cat(((boxes[..., :2] + corner) / 2, boxes[..., 2:] / 2), dim=-1)
    shown = ~is_enlarged_g[:, None] | (member == member_g[:, None])
    valid = targets.valid.view(groups, QUAD_IMAGES, places) & shown[..., None]
    joined = torch.where(is_enlarged_g.view(-1, 1, 1, 1), boxes, quarter)
    labels = targets.labels.view(groups, QUAD_IMAGES * places)
    return Targets(joined.flatten(1, 2), labels, valid.flatten(1))
