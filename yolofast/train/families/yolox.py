"""YOLOX: trained by a recipe (`--recipe`, `--set`), which says what the command line does not.

Before anything is built, epochs, batch size, image size and what is frozen become the recipe's where they were not
given. So what a run stores about itself is complete. Everything else is read from the recipe when it is needed
(`recipe_of`).
"""

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from yolofast.augment.recipe import Recipe
from yolofast.checkpoint.read import read_weights
from yolofast.config.hyp import source_of
from yolofast.config.ingredients import INGREDIENTS
from yolofast.config.resumed import check_same_recipe
from yolofast.config.train import TrainConfig
from yolofast.config.yolox_recipe import ENDS, YoloXRecipe, changed_values, read_yolox_recipe, shape_in_form
from yolofast.errors import UserError
from yolofast.extensions import assigner_for, assigners_for
from yolofast.files.yaml_file import read_yaml
from yolofast.loader.order import mosaic_is_closed
from yolofast.model.contract import Network
from yolofast.model.graph import model_file
from yolofast.model.yolox_config import FAMILY, YoloXConfig, read_yolox, yolox_of
from yolofast.model.yolox_network import YoloX
from yolofast.optim.optimizer import RAMP, ModelEma, NotAveraged
from yolofast.optim.schedule import YoloXSchedule
from yolofast.resources import find_resource, short_names
from yolofast.train.families.family import Augmentation, Explained, Family, Resize, Rules, Shape
from yolofast.train.families.multi_scale import YOLOX_EVERY, GrowingScale, YoloXMultiScale, yolox_range
from yolofast.train.finetune.freeze_plan import FreezePlan
from yolofast.train.losses.loss_schedule import SIMOTA_VERSIONS
from yolofast.train.losses.yolox_criterion import YoloXLosses
from yolofast.words import counted

_STRIDE = 32
_FINE = 0.2
"""Of the learning rate for training from scratch: below it a recipe is one for fine-tuning."""
_FROM_SCRATCH = 0.5
"""Of the same: from here on a recipe is one for training from scratch."""


class YoloXFamily(Family):
    name = FAMILY

    def with_network(self, config: TrainConfig, given: Collection[str]) -> TrainConfig:
        """Weights of a YOLOX mean their own network, and a recipe without weights the one it was made for."""
        weights = config.weights
        if "cfg" in given or not (config.recipe or (weights and yolox_of(read_weights(weights).tensors) is not None)):
            return config
        return dataclasses.replace(config, cfg="" if config.weights else read_yolox_recipe(config.recipe).model)

    def complete(self, config: TrainConfig, given: Collection[str]) -> TrainConfig:
        _refuse_for_yolox(config, given)
        _refuse_two_forms(config, given)
        name = config.recipe or default_recipe(_network_of(config))
        recipe = read_yolox_recipe(name, config.recipe_values)
        long_side = max(recipe.input_size)
        usual: dict[str, Any] = {"epochs": recipe.epochs, "batch_size": recipe.batch_size, "img_size": (long_side,)}
        if not (config.plan or config.stage):
            usual["freeze"] = recipe.freeze or (0,)
        changes = {field: value for field, value in usual.items() if field not in given}
        if "img_size" in given:
            changes["img_size"] = tuple(-(-side // _STRIDE) * _STRIDE for side in config.img_size)
        return dataclasses.replace(config, recipe=name, hyp="", **changes)

    def rules(self, config: TrainConfig, hyp: Mapping[str, Any], model: Network) -> "YoloXRules":
        assert isinstance(model, YoloX)
        return YoloXRules(config, model)


class YoloXRules(Rules):
    terms = ("box", "obj", "cls", "l1")
    always_shuffled = True

    def __init__(self, config: TrainConfig, model: YoloX) -> None:
        self.config, self._model, self.recipe = config, model, recipe_of(config, model)
        self.ingredients = self.recipe
        if config.rect or config.image_weights:
            self.recipe.check_beside(rect=config.rect)
        unused = INGREDIENTS.keys() - self.recipe.used.keys()
        self.hyp = {key: value for key, value in dataclasses.asdict(self.recipe).items() if key not in unused}
        if self.recipe.average_last and not self.recipe.ema:
            raise UserError("average_last takes the place of the average, of which there is none", fix="--set ema=true")
        if self.recipe.multi_scale and self.recipe.sizes:
            raise UserError("sizes and multi_scale both change the size of images", fix="--set multi_scale=false")
        self.conf, self.iou = self.recipe.test_conf, self.recipe.nms
        self.average_decay = self.recipe.ema_decay if self.recipe.ema else None
        self.average_ramp = self.recipe.ema_ramp or RAMP
        missing = [] if self.recipe.close_mosaic else ["close_mosaic=true"]
        missing += [] if self.recipe.no_aug_epochs else ["no_aug_epochs=N"]
        self.closing_flag = " ".join(["--set", *missing])
        if (self.conf, self.iou) != (YoloXRecipe.test_conf, YoloXRecipe.nms):
            self.val_flags = f" --conf-thres {self.conf:g} --iou-thres {self.iou:g}"

    @property
    def weight_decay(self) -> float:
        return self.recipe.weight_decay

    @property
    def augmentation(self) -> Augmentation:
        height, width = self.recipe.input_size
        return Augmentation(
            recipe=Recipe.yolox(**self.recipe.augmentation()), height=height, width=width,
            close_mosaic_from=self.recipe.closes_at, most_boxes=self.recipe.max_labels,
            strengths=self.by_epoch(self.recipe.strength),
        )  # fmt: skip

    @property
    def evaluation_shape(self) -> Shape:
        return self.recipe.input_size

    @property
    def size_range(self) -> tuple[Shape, Shape, str] | None:
        if not self.recipe.multi_scale:
            return None
        least, greatest = yolox_range(*self.recipe.input_size, self.recipe.random_size)
        return least, greatest, f"every {YOLOX_EVERY} batches"

    @property
    def largest_input(self) -> Shape:
        return largest_input(self.recipe)

    def losses(self) -> YoloXLosses:
        """With L1 from the epoch on in which mosaic closes."""
        version = SIMOTA_VERSIONS[self.recipe.simota_version]
        return YoloXLosses(
            self._model, self.recipe.closes_at, self.config.faithful, version=version, assigner=self._assigner
        )

    def loss_name(self, epoch: int) -> str:
        return self._assigner + (" + L1" if mosaic_is_closed(self.recipe.closes_at, epoch) else "")

    def schedule(self, batches: int) -> YoloXSchedule:
        one_cycle = self.config.lr_schedule == "one_cycle"
        return YoloXSchedule(
            **self.recipe.schedule(batches, self.config.batch_size), one_cycle=one_cycle,
            update_batches=self.by_epoch(self.recipe.update_batches),
        )  # fmt: skip

    def average(self) -> ModelEma:
        if not self.recipe.ema:
            return NotAveraged(self._model)
        last = self.recipe.average_last
        mean_from = None if last is None else self.recipe.averages_from(self.config.epochs)
        return ModelEma(self._model, self.recipe.ema_decay, self.average_ramp, mean_from)

    def resize(self, batches: int) -> Resize | None:
        as_input, sizes = self._model.inputs.as_input, self.recipe.sizes
        if sizes is not None:
            return GrowingScale(self.by_epoch(sizes), max(self._model.layout.strides), as_input)
        if not self.recipe.multi_scale:
            return None
        height, width = self.recipe.input_size
        return YoloXMultiScale(
            height=height, width=width, steps=self.recipe.random_size, batches=batches, seed=self.config.seed,
            as_input=as_input,
        )  # fmt: skip

    @property
    def lower_rate(self) -> str:
        key = "basic_lr_per_img"
        where = source_of(key, self.config, self.config.recipe)
        return f"lower {key}, which is {self.recipe.basic_lr_per_img:g} {where}"

    def announced(self, plan: FreezePlan) -> Iterator[str]:
        yield described(self.config, self.recipe, plan)
        if word := other_network(self.config, self._model):
            yield f"recipe: {word}"
        yield from super().announced(plan)

    def check_same(self, before: Mapping[str, Any]) -> None:
        check_same_recipe(before, self.hyp)

    def remarks(self, run: Explained) -> Iterator[str]:
        if word := other_network(self.config, self._model):
            yield f"recipe: {word}"
        yield from _of_yolox(run, self.recipe)

    @property
    def _assigner(self) -> str:
        return assigner_for(self.config.assigner or "ota", anchors=False)


def recipe_of(config: TrainConfig, model: YoloX) -> YoloXRecipe:
    """What a run of this network follows, at its length and size."""
    name = config.recipe or default_recipe(model.config)
    recipe = read_yolox_recipe(name, config.recipe_values)
    changed = changed_values(config.recipe_values)
    first, *second = config.img_size  # height and width, or the long side of the recipe's form
    shape = (first, second[0]) if second else shape_in_form(recipe.input_size, first)
    if "input_size" in changed:  # what the recipe says of other sizes was said of its own
        recipe = dataclasses.replace(recipe, input_size=read_yolox_recipe(name).input_size)
    batch = config.batch_size if config.batch_size > 0 else recipe.batch_size
    frozen = tuple(name for name in config.freeze if isinstance(name, str))
    cfg = config.cfg or default_recipe(model.config)
    recipe = dataclasses.replace(recipe, model=cfg, batch_size=batch, freeze=frozen)
    return recipe.for_run(config.epochs, shape, [*changed, *(ENDS if config.faithful else ())])


def default_recipe(network: YoloXConfig) -> str:
    """Small networks have recipes of their own; that of all others is the same under several names."""
    if network.depthwise:
        return "yolox-nano"
    sizes = {0.375: "yolox-tiny", 0.5: "yolox-s", 0.75: "yolox-m", 1.0: "yolox-l"}
    return next((name for width, name in sizes.items() if network.width <= width), "yolox-x")


def other_network(config: TrainConfig, model: YoloX) -> str | None:
    """`nuscenes-clean-v2 is made for yolox-l, this run trains yolox-s`; None if that is the same, or it does not say.

    A recipe's values were tuned for its network. What its file does not say is the default of all recipes and was not
    meant.
    """
    if not config.recipe:
        return None
    meant, runs = read_yaml(find_resource(config.recipe, "recipe")).values.get("model"), default_recipe(model.config)
    if meant not in short_names("recipe") or meant == runs:
        return None
    return f"{config.recipe} is made for {meant}, this run trains {runs}"


def largest_input(recipe: YoloXRecipe) -> tuple[int, int]:
    """Height and width of the largest images the network sees in training."""
    height, width = recipe.input_size
    if not recipe.multi_scale:
        return height, width
    _, greatest = yolox_range(height, width, recipe.random_size)
    return max(greatest[0], height), max(greatest[1], width)


def described(config: TrainConfig, recipe: YoloXRecipe, plan: FreezePlan) -> str:
    """One line of what will happen when; the first phase of a plan may have a warm-up of its own."""
    height, width = recipe.input_size
    closing = "mosaic never closes, no L1"
    if recipe.closes_at is not None:
        closing = f"from epoch {recipe.closes_at + 1} on no mosaic, but L1"
    sizes = f", sizes change every {YOLOX_EVERY} batches" if recipe.multi_scale else ""
    rate = f"{recipe.lr(config.batch_size):g} ({recipe.basic_lr_per_img:g} × {config.batch_size})"
    own = plan.phases[0].warmup_epochs
    warmup = f"{recipe.warmup_epochs if own is None else own:g} of warm-up"
    length = f"{counted(recipe.epochs, 'epoch')}, {warmup}, {recipe.no_aug_epochs} at the lowest rate"
    average = "" if recipe.ema else ", no average of weights"
    return f"recipe: {config.recipe}; {height}×{width}{sizes}; lr {rate}; {length}; {closing}{average}"


def _network_of(config: TrainConfig) -> YoloXConfig:
    if config.cfg:
        return read_yolox(model_file(config.cfg))
    file = read_weights(config.weights)
    graph = file.graph or yolox_of(file.tensors)
    assert graph is not None, "its family was found by it"
    return read_yolox(model_file(graph))


def _refuse_two_forms(config: TrainConfig, given: Collection[str]) -> None:
    if "img_size" in given and len(config.img_size) == 2 and "input_size" in changed_values(config.recipe_values):
        what = f"--img {' '.join(map(str, config.img_size))} and --set input_size both say height and width"
        raise UserError(what, fix="drop one of them; --img with one number is the long side")


def _refuse_for_yolox(config: TrainConfig, given: Collection[str]) -> None:
    """What means nothing for YOLOX, and where the recipe says it: better no run than another."""
    keep, serving = config.close_mosaic, assigners_for(anchors=False)
    refused = {
        "--hyp": ("hyp" in given and bool(config.hyp), "give its values with --recipe FILE or --set KEY=VALUE"),
        "--lr-schedule": (
            config.lr_schedule not in ("auto", "yoloxwarmcos", "one_cycle"),
            "leave it at auto: yoloxwarmcos, or --one-cycle",
        ),
        "--auto-lr": (config.auto_lr, "omit it: the learning rate grows with the batch already"),
        "--style yolov7": (config.style == "yolov7", "leave it at auto"),
        "--close-mosaic": (keep > 0, f"--set close_mosaic=true no_aug_epochs={keep}"),
        f"--assigner {config.assigner}": (config.assigner not in (None, *serving), f"use {' or '.join(serving)}"),
        "--ota-from-epoch": (config.ota_from_epoch is not None, "omit it: SimOTA is used from the start"),
        "--label-smoothing": (config.label_smoothing > 0, "omit it: classes are learnt as overlaps"),
        "--rect": (config.rect, "omit it, or give a form: --set input_size=384,640"),
        "--quad": (config.quad, "omit it"),
        "--multi-scale": (config.multi_scale, "--set multi_scale=true, where the recipe has not got it already"),
        "--class-aware-aug": (config.class_aware_aug, "omit it: it is for networks with several heads (1B4H)"),
    }
    for flag, (is_given, fix) in refused.items():
        if is_given:
            raise UserError(f"{flag} is not for YOLOX", fix=fix)


def _of_yolox(run: Explained, recipe: YoloXRecipe) -> Iterator[str]:
    size = run.config.batch_size
    yield f"learning rate: {recipe.lr(size):.4g} = basic_lr_per_img {recipe.basic_lr_per_img:.4g} × batch {size}"
    if run.is_mostly_new and recipe.basic_lr_per_img <= _FINE * YoloXRecipe().basic_lr_per_img:
        share = YoloXRecipe().basic_lr_per_img / recipe.basic_lr_per_img
        lacking = "most of the network is not in them" if run.config.weights else "none are given"
        yield (
            f"weights: {lacking}; training begins with random values, at 1/{share:.3g} of the learning rate that "
            f"is published for that: give {'those of this network' if run.config.weights else '--weights'}"
        )
    if not run.is_mostly_new and recipe.basic_lr_per_img >= _FROM_SCRATCH * YoloXRecipe().basic_lr_per_img:
        yield (
            "weights: they learn on at the learning rate that is published for random values. The packaged recipes for "
            f"fine-tuning have a tenth of it or less (--set basic_lr_per_img={recipe.basic_lr_per_img / 10:.3g})"
        )
    written = read_yolox_recipe(run.config.recipe, run.config.recipe_values) if run.config.recipe else recipe
    own = run.plan.phases[0].warmup_epochs
    if own is not None and own != written.warmup_epochs:
        yield f"recipe: warmup_epochs {written.warmup_epochs} runs as {own:g}, which the plan says"
    for name in ("warmup_epochs", "no_aug_epochs") if own is None else ("no_aug_epochs",):
        given, runs = getattr(written, name), getattr(recipe, name)
        if given != runs:
            yield f"recipe: {name} {given} runs as {runs}: the run is shorter than the recipe's {written.epochs} epochs"
    length, epochs = run.schedule.base.warmup_epochs, run.config.epochs
    if length >= epochs:  # a plan may give one that does not end
        rate = recipe.lr(size)
        reached = max(lr.last for row in run.rows for lr in row.lr.values()) / rate
        yield f"warm-up: {length:g} epochs, the run has {epochs}: it never gets beyond {reached:.0%} of {rate:.4g}"
    plain, floor = recipe.no_aug_epochs, max(lr.last for lr in run.rows[-1].lr.values())
    if plain and all(math.isclose(lr.first, lr.last) for lr in run.rows[-1].lr.values()):
        early = "an epoch" if plain == 1 else f"{plain} epochs"
        yield f"learning rate: the cosine ends {early} before the run does, and stays at {floor:.3g} from then on"
    if recipe.closes_at is not None and recipe.closes_at == recipe.epochs - plain - 1:
        first = recipe.closes_at + 1
        yield f"mosaic: it closes and L1 starts with epoch {first}, one earlier than no_aug_epochs {plain} says"


TRAINING = YoloXFamily()
