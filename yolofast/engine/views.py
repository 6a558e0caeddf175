"""How a run makes the pictures it learns from: whose augmentation, at which size, and until when with mosaics."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from yolofast.augment.recipe import Recipe
from yolofast.config.train import TrainConfig
from yolofast.config.yolox_recipe import YoloXRecipe, read_yolox_recipe


@dataclass(frozen=True, kw_only=True)
class Views:
    recipe: Recipe
    height: int
    width: int
    close_mosaic_from: int | None
    """The first epoch, from 0, without mosaics."""
    most_boxes: tuple[int, int] | None = None
    """Of an image by itself, and of a mosaic; None: as many as there are."""


def views_of(config: TrainConfig, hyp: Mapping[str, Any], recipe: YoloXRecipe | None) -> Views:
    """`recipe` is that of a YOLOX; another network may still be shown what YOLOX would see (`--style yolox`)."""
    if recipe is not None:
        height, width = recipe.input_size
        return Views(
            recipe=Recipe.yolox(**recipe.augmentation()), height=height, width=width,
            close_mosaic_from=recipe.closes_at, most_boxes=recipe.max_labels,
        )  # fmt: skip
    augmentation = Recipe.from_hyp(hyp)
    if config.style == "yolox":
        borrowed = read_yolox_recipe(config.recipe or "yolox-s", config.recipe_values)
        augmentation = Recipe.yolox(**borrowed.augmentation())
    close = config.epochs - config.close_mosaic if config.close_mosaic else None
    return Views(recipe=augmentation, height=config.train_size, width=config.train_size, close_mosaic_from=close)


def evaluation_shape(config: TrainConfig, recipe: YoloXRecipe | None) -> tuple[int, int]:
    """Height and width to evaluate at."""
    return (config.test_size, config.test_size) if recipe is None else recipe.input_size
