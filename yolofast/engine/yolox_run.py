"""The parts of a run that YOLOX makes differently, each from its recipe; `setup.py` joins them with the others."""

from collections.abc import Callable

from yolofast.augment.multi_scale import YOLOX_EVERY, yolox_range
from yolofast.config.train import TrainConfig
from yolofast.config.yolox_recipe import YoloXRecipe
from yolofast.engine.build_loss import SIMOTA_VERSIONS
from yolofast.engine.multi_scale import as_it_is
from yolofast.engine.plan import Plan
from yolofast.engine.yolox_losses import YoloXLosses
from yolofast.engine.yolox_scale import YoloXMultiScale
from yolofast.extensions import assigner_for
from yolofast.model.network import Network
from yolofast.optim.ema import ModelEma, NotAveraged
from yolofast.optim.schedule import YoloXSchedule
from yolofast.structures import Batch


def yolox_losses(config: TrainConfig, recipe: YoloXRecipe, model: Network) -> YoloXLosses:
    """With L1 from the epoch on in which mosaic closes."""
    version = SIMOTA_VERSIONS[recipe.simota_version]
    assigner = assigner_for(config.assigner or "ota", anchors=False)
    return YoloXLosses(model, recipe.closes_at, config.faithful, version=version, assigner=assigner)


def yolox_average(recipe: YoloXRecipe, model: Network) -> ModelEma:
    return ModelEma(model, recipe.ema_decay) if recipe.ema else NotAveraged(model)


def yolox_schedule(config: TrainConfig, recipe: YoloXRecipe, batches: int) -> YoloXSchedule:
    return YoloXSchedule(**recipe.schedule(batches, config.batch_size))


def yolox_resize(
    config: TrainConfig, recipe: YoloXRecipe, model: Network, batches: int
) -> Callable[[Batch, int, int], Batch]:
    if not recipe.multi_scale:
        return as_it_is
    height, width = recipe.input_size
    return YoloXMultiScale(
        height=height, width=width, steps=recipe.random_size, batches=batches, seed=config.seed,
        as_input=model.inputs.as_input,
    )  # fmt: skip


def largest_input(recipe: YoloXRecipe) -> tuple[int, int]:
    """Height and width of the largest images the network sees in training."""
    height, width = recipe.input_size
    if not recipe.multi_scale:
        return height, width
    _, greatest = yolox_range(height, width, recipe.random_size)
    return max(greatest[0], height), max(greatest[1], width)


def described(config: TrainConfig, recipe: YoloXRecipe, plan: Plan) -> str:
    """One line of what will happen when; the first phase of a plan may have a warm-up of its own."""
    height, width = recipe.input_size
    closing = "mosaic never closes, no L1"
    if recipe.closes_at is not None:
        closing = f"from epoch {recipe.closes_at + 1} on no mosaic, but L1"
    sizes = f", sizes change every {YOLOX_EVERY} batches" if recipe.multi_scale else ""
    rate = f"{recipe.lr(config.batch_size):g} ({recipe.basic_lr_per_img:g} × {config.batch_size})"
    own = plan.phases[0].warmup_epochs
    warmup = f"{recipe.warmup_epochs if own is None else own:g} of warm-up"
    epochs = f"{recipe.epochs} {'epoch' if recipe.epochs == 1 else 'epochs'}"
    length = f"{epochs}, {warmup}, {recipe.no_aug_epochs} at the lowest rate"
    average = "" if recipe.ema else ", no average of weights"
    return f"recipe: {config.recipe}; {height}×{width}{sizes}; lr {rate}; {length}; {closing}{average}"
