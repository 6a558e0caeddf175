"""`--quad`: four images become one of twice the size, which is either one of them enlarged or all four side by side.

Batches hold a quarter of the images at double size. A group of four is named by the position of its first image, so
what is drawn for it depends on nothing else.
"""

import cv2
import numpy as np
import numpy.typing as npt

from yolofast.augment.draws import uniform, whole

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.float32]
Pixels = npt.NDArray[np.uint8]

GROUP = 4
_STREAM = 7
_ENLARGED_SHARE = 0.5


def choose_enlarged(seed: int, epoch: int, positions: Ints) -> Ints:
    """[groups] which image of the batch fills each group's; -1 where all four are shown."""
    first = np.arange(0, len(positions), GROUP)
    draws = uniform(seed, epoch, positions[first], 2, _STREAM)
    return np.where(draws[:, 0] < _ENLARGED_SHARE, first + whole(GROUP, draws[:, 1]), -1)


def join_images(images: Pixels, enlarged: Ints, out: Pixels) -> None:
    """Fill `out [groups, 3, 2h, 2w]` from `images [4 · groups, 3, h, w]`."""
    height, width = images.shape[2:]
    for group, chosen in enumerate(enlarged):
        if chosen >= 0:
            for channel in range(3):
                cv2.resize(images[chosen, channel], (2 * width, 2 * height), dst=out[group, channel])
            continue
        for member in range(GROUP):
            down, right = divmod(member, 2)
            place = out[group, :, down * height : (down + 1) * height, right * width : (right + 1) * width]
            place[:] = images[GROUP * group + member]


def join_rows(rows: Rows, enlarged: Ints) -> Rows:
    """What the joined images show, from rows `image class cx cy w h` of the single ones."""
    image = rows[:, 0].astype(np.int64)
    group, member = np.divmod(image, GROUP)
    fills = enlarged[group] == image
    side_by_side = enlarged[group] < 0
    joined = rows.copy()
    joined[:, 0] = group
    corner = np.stack((member % 2, member // 2), axis=-1)
    joined[side_by_side, 2:4] = (joined[side_by_side, 2:4] + corner[side_by_side]) / 2
    joined[side_by_side, 4:6] /= 2
    shown: Rows = joined[fills | side_by_side]
    return shown
