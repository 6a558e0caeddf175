"""Class-aware augmentation (1B4H): how strongly a mosaic is transformed depends on which head's objects it shows."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from yolofast.augment.draws import Doubles

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class HeadPolicy:
    """One value per head; a mosaic takes those of one head, drawn in proportion to the objects it shows of each."""

    counts: Ints
    """[N, heads] objects in each image."""
    degrees: Doubles
    shear: Doubles
    flipud: Doubles
    fliplr: Doubles
    mixup: Doubles
    faithful: bool = False
    """As published: only `degrees` and `shear`, and only in 4-mosaics. Otherwise all five, in every image."""

    def pick(self, source_BVT: Ints, draw_BV: Doubles) -> Ints:
        """[B, V] the head whose values a view takes."""
        shown = np.where((source_BVT >= 0)[..., None], self.counts[np.maximum(source_BVT, 0)], 0).sum(axis=2)
        weight = np.where(shown.sum(-1, keepdims=True) > 0, shown, 1).cumsum(axis=-1)
        head: Ints = (draw_BV[..., None] * weight[..., -1:] >= weight).sum(-1)
        return head


def count_by_head(image_of_box: Ints, labels: Ints, images: int, head_classes: tuple[tuple[int, ...], ...]) -> Ints:
    """[N, heads] how many of each image's boxes belong to each head."""
    classes = max((max(own, default=-1) for own in head_classes), default=-1) + 1
    head_of = np.zeros(classes, np.int64)
    for head, own in enumerate(head_classes):
        head_of[list(own)] = head
    counts = np.zeros((images, len(head_classes)), np.int64)
    np.add.at(counts, (image_of_box, head_of[labels]), 1)
    return counts
