"""The settings of a YOLOX run: its recipe says what the command line does not.

Before anything is built, epochs, batch size and image size that were not given become the recipe's (`with_recipe`), so
that what a run stores about itself is complete. Everything else is asked of the recipe when it is needed (`recipe_of`).
"""

import dataclasses
from collections.abc import Collection
from typing import Any

from yolofast.checkpoint.read import read_weights
from yolofast.config.train import TrainConfig
from yolofast.config.yolox_recipe import ENDS, YoloXRecipe, changed_values, read_yolox_recipe, shape_in_form
from yolofast.errors import UserError
from yolofast.extensions import assigners_for
from yolofast.model.network import Network
from yolofast.model.yolox import YoloX
from yolofast.model.yolox_config import YoloXConfig, yolox_config, yolox_of

_STRIDE = 32


def with_recipe(config: TrainConfig, given: Collection[str]) -> TrainConfig:
    """The settings of a new run, those of a YOLOX completed by its recipe; `given` are the names of what was typed.

    Without `--cfg`, weights of a YOLOX mean their own network, and a recipe without weights the one it was made for.
    """
    if "cfg" not in given and (config.recipe or _holds_yolox(config.weights)):
        cfg = "" if config.weights else read_yolox_recipe(config.recipe).model
        config = dataclasses.replace(config, cfg=cfg)
    network = _network_of(config)
    if network is None:
        _refuse_for_others(config)
        return config
    _refuse_for_yolox(config, given)
    _refuse_two_forms(config, given)
    name = config.recipe or default_recipe(network)
    recipe = read_yolox_recipe(name, config.recipe_values)
    long_side = max(recipe.input_size)
    usual: dict[str, Any] = {"epochs": recipe.epochs, "batch_size": recipe.batch_size, "img_size": (long_side,)}
    changes = {field: value for field, value in usual.items() if field not in given}
    if "img_size" in given:
        changes["img_size"] = tuple(-(-side // _STRIDE) * _STRIDE for side in config.img_size)
    return dataclasses.replace(config, recipe=name, hyp="", **changes)


def recipe_of(config: TrainConfig, model: Network) -> YoloXRecipe | None:
    """What a run of this network follows, at its length and size; None for other families than YOLOX."""
    if not isinstance(model, YoloX):
        return None
    name = config.recipe or default_recipe(model.config)
    recipe = read_yolox_recipe(name, config.recipe_values)
    changed = changed_values(config.recipe_values)
    shape = _shape(config, recipe)
    if "input_size" in changed:  # what the recipe says of other sizes was said of its own
        recipe = dataclasses.replace(recipe, input_size=read_yolox_recipe(name).input_size)
    batch = config.batch_size if config.batch_size > 0 else recipe.batch_size
    recipe = dataclasses.replace(recipe, model=config.cfg or default_recipe(model.config), batch_size=batch)
    return recipe.for_run(config.epochs, shape, [*changed, *(ENDS if config.faithful else ())])


def _shape(config: TrainConfig, recipe: YoloXRecipe) -> tuple[int, int]:
    """Height and width of a run's inputs: both are given, or the long side of the recipe's form."""
    if len(config.img_size) == 2:
        return config.img_size[0], config.img_size[1]
    return shape_in_form(recipe.input_size, config.img_size[0])


def default_recipe(network: YoloXConfig) -> str:
    """Small networks have recipes of their own; that of all others is the same under several names."""
    if network.depthwise:
        return "yolox-nano"
    sizes = {0.375: "yolox-tiny", 0.5: "yolox-s", 0.75: "yolox-m", 1.0: "yolox-l"}
    return next((name for width, name in sizes.items() if network.width <= width), "yolox-x")


def _holds_yolox(weights: str) -> bool:
    return bool(weights) and yolox_of(read_weights(weights).tensors) is not None


def _network_of(config: TrainConfig) -> YoloXConfig | None:
    if config.cfg:
        return yolox_config(config.cfg)
    file = read_weights(config.weights)
    graph = file.graph or yolox_of(file.tensors)
    return None if graph is None else yolox_config(graph)


def _refuse_for_others(config: TrainConfig) -> None:
    if config.recipe and config.style != "yolox":
        what = f"--recipe {config.recipe} is for YOLOX, but the network is not one"
        raise UserError(what, fix="give YOLOv7's values with --hyp, or --style yolox to augment as the recipe says")
    if config.recipe_values and config.style != "yolox":
        raise UserError("--set changes a recipe of YOLOX, but the network is not one", fix="use a --hyp file")
    if config.lr_schedule == "yoloxwarmcos":
        raise UserError("yoloxwarmcos is YOLOX's schedule", fix="use --cos-lr, --linear-lr or --flat-cos-lr")


def _refuse_two_forms(config: TrainConfig, given: Collection[str]) -> None:
    both = "img_size" in given and len(config.img_size) == 2 and "input_size" in changed_values(config.recipe_values)
    if both:
        what = f"--img {' '.join(map(str, config.img_size))} and --set input_size both say height and width"
        raise UserError(what, fix="drop one of them; --img with one number is the long side")


def _refuse_for_yolox(config: TrainConfig, given: Collection[str]) -> None:
    """What means nothing for YOLOX, and where the recipe says it: better no run than another."""
    keep, serving = config.close_mosaic, assigners_for(anchors=False)
    refused = {
        "--hyp": ("hyp" in given and bool(config.hyp), "give its values with --recipe FILE or --set KEY=VALUE"),
        "--lr-schedule": (config.lr_schedule not in ("auto", "yoloxwarmcos"), "leave it at auto: yoloxwarmcos"),
        "--auto-lr": (config.auto_lr, "leave it away: the learning rate grows with the batch already"),
        "--style yolov7": (config.style == "yolov7", "leave it at auto"),
        "--close-mosaic": (keep > 0, f"--set close_mosaic=true no_aug_epochs={keep}"),
        f"--assigner {config.assigner}": (config.assigner not in (None, *serving), f"use {' or '.join(serving)}"),
        "--ota-from-epoch": (config.ota_from_epoch is not None, "leave it away: SimOTA is used from the start"),
        "--label-smoothing": (config.label_smoothing > 0, "leave it away: classes are learnt as overlaps"),
        "--rect": (config.rect, "leave it away, or give a form: --set input_size=384,640"),
        "--quad": (config.quad, "leave it away"),
        "--multi-scale": (config.multi_scale, "--set multi_scale=true, where the recipe has not got it already"),
        "--class-aware-aug": (config.class_aware_aug, "leave it away: it is for networks with several heads (1B4H)"),
    }
    for flag, (is_asked, fix) in refused.items():
        if is_asked:
            raise UserError(f"{flag} is not for YOLOX", fix=fix)
