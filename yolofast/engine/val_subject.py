"""What is evaluated on what: networks, a split and settings, opened once and then asked at one or several sizes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from yolofast.config.val import ValConfig
from yolofast.config.yolox_recipe import shape_in_form
from yolofast.engine.data_file import data_yaml_of, told_split
from yolofast.engine.devices import device_of
from yolofast.engine.precision import Precision
from yolofast.engine.predictor import Predictor
from yolofast.engine.thresholds import Thresholds, to_validate
from yolofast.engine.trained_model import TrainedModel, shape_of
from yolofast.engine.whole_strides import in_strides
from yolofast.errors import UserError
from yolofast.image_index import ImageIndex
from yolofast.loader.validation import ValidationBatches, validation_batches
from yolofast.store.choose import Kind
from yolofast.store.opening import open_images
from yolofast.store.room import usable_cores

Say = Callable[[str], None]

_SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Subject:
    config: ValConfig
    index: ImageIndex
    predictor: Predictor
    shape: tuple[int, int]
    """Height and width, multiples of the stride."""
    say: Say

    @property
    def thresholds(self) -> Thresholds:
        config = self.config
        return to_validate(self.predictor.models[0], config.conf_thres, config.iou_thres, config.max_det)

    def shape_at(self, long_side: int) -> tuple[int, int]:
        """In the same form."""
        return shape_in_form(self.shape, long_side)

    def batches(self, shape: tuple[int, int]) -> ValidationBatches:
        config, inputs, (height, width) = self.config, self.predictor.inputs, shape
        cache = "auto" if config.cache == "gpu" else config.cache
        images, _ = open_images(
            self.index, width, height, cache, among=_caches(config), augmented=inputs.linear, say=self.say
        )
        return validation_batches(
            self.index, images, config.batch_size, (width, height), self.predictor.stride,
            rect=config.rect, inputs=inputs, threads=max(1, min(config.workers, usable_cores())),
        )  # fmt: skip


def open_subject(config: ValConfig, trained: Sequence[TrainedModel], say: Say) -> Subject:
    split = config.task if config.task in _SPLITS else "val"
    index = told_split(
        data_yaml_of(config.data, say), split, say, single_cls=config.single_cls, fraction=config.fraction,
        skip_bad=config.skip_bad,
    )  # fmt: skip
    first = trained[0]
    if first.model.nc != len(index.names) and not config.single_cls:
        what = f"{first.path} knows {first.model.nc} classes, but the data set has {len(index.names)}"
        raise UserError(what, fix="evaluate it on the data it was trained for, or --single-cls")
    precision = Precision.choose(config.precision, device_of(config.device))
    predictor = Predictor([one.model for one in trained], precision)
    asked_by = "--img" if config.img_size else "the network's image size"
    height, width = in_strides(shape_of(trained, config.img_size), predictor.stride, say, asked_by)
    return Subject(config, index, predictor, (height, width), say)


def _caches(config: ValConfig) -> tuple[Kind, ...]:
    """To choose among. Images that are looked at once per size are not worth packing, JPEG would change the result."""
    return ("off",) if config.task in ("speed", "study") else ("disk", "off")
