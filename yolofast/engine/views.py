"""How a run makes the pictures it learns from: whose augmentation, at which size, and until when with mosaics."""

from dataclasses import dataclass

from yolofast.augment.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class Views:
    recipe: Recipe
    height: int
    width: int
    close_mosaic_from: int | None
    """The first epoch, from 0, without mosaics."""
    most_boxes: tuple[int, int] | None = None
    """Of an image by itself, and of a mosaic; None: as many as there are."""
