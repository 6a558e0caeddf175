"""Hyper-parameter files: found by the paths users type, every key known and every value of its kind.

`HYP_KEYS` says of every key what it means, which values it takes, and its default, published for YOLOv7 (p5). Keys
without one are optional: they are passed on only if given. Upper bounds are generous: what is beyond them is a typing
mistake, and would end in a NaN loss.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yolofast.config.flags import python_name
from yolofast.config.ingredients import INGREDIENTS, Ingredients
from yolofast.config.settings import settings_of
from yolofast.config.train import TrainConfig
from yolofast.config.yolox_recipe import FLAGS_FIRST, YoloXRecipe, typed_values
from yolofast.errors import UserError, nearest, shorten
from yolofast.extensions import ASSIGNERS
from yolofast.files.yaml_file import YamlFile, read_yaml
from yolofast.resources import find_resource

_NAMES = ", ".join(f"`{name}`" for name in ASSIGNERS)
_P6 = ("w6", "e6", "d6", "e6e")
_OWN_FLAGS = {
    "label_smoothing": "--label-smoothing", "ignore_other_heads": "--ignore-other-heads",
    "ignore_weight": "--ignore-weight",
}  # fmt: skip


@dataclass(frozen=True)
class HypKey:
    meaning: str
    default: float | None
    suits: Callable[[Any], bool]
    takes: str
    """In words, for messages."""


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers(suits: Callable[[float], bool], takes: str, default: float | None, meaning: str) -> HypKey:
    return HypKey(meaning, default, lambda value: _number(value) and suits(value), f"a number {takes}")


def _from_0_to(most: float, default: float | None, meaning: str) -> HypKey:
    return _numbers(lambda value: 0 <= value <= most, f"from 0 to {most:g}", default, meaning)


def _from_0_to_below(end: float, default: float | None, meaning: str) -> HypKey:
    return _numbers(lambda value: 0 <= value < end, f"from 0 to below {end:g}", default, meaning)


def _above(end: float, most: float, default: float | None, meaning: str) -> HypKey:
    return _numbers(lambda value: end < value <= most, f"above {end:g} and at most {most:g}", default, meaning)


def _switch(meaning: str) -> HypKey:
    return HypKey(meaning, None, lambda value: isinstance(value, bool), "true or false")


def _whole(most: int, meaning: str) -> HypKey:
    return HypKey(
        meaning, None, lambda value: type(value) is int and 1 <= value <= most, f"a whole number from 1 to {most}"
    )


def _one_of(values: tuple[Any, ...], default: float | None, meaning: str) -> HypKey:
    return HypKey(meaning, default, lambda value: value in values, " or ".join(map(str, values)))


def _assigner(value: Any) -> bool:
    """Its form only: `train/losses` checks the names and the order of the epochs."""
    steps = value if isinstance(value, list) else [[0, value]]
    return bool(steps) and all(
        isinstance(step, list) and len(step) == 2 and type(step[0]) is int and isinstance(step[1], str)
        for step in steps
    )


HYP_KEYS: dict[str, HypKey] = {
    "lr0": _above(0, 10, 0.01, "first learning rate"),
    "lrf": _from_0_to(100, 0.1, "last learning rate, as a share of lr0"),
    "momentum": _from_0_to_below(1, 0.937, "of SGD; Adam's β1"),
    "weight_decay": _from_0_to(10, 0.0005, "per update of 64 images; scaled with the batch"),
    "nbs": _whole(1_000_000, "images of an update: smaller batches are added up to it"),
    "warmup_epochs": _from_0_to(1000, 3.0, "epochs in which the learning rate rises; 1,000 batches at least, 0: none"),
    "warmup_momentum": _from_0_to_below(1, 0.8, "momentum at its start"),
    "warmup_bias_lr": _from_0_to(10, 0.1, "learning rate of biases at its start"),
    "box": _from_0_to(1000, 0.05, "gain of the box loss"),
    "cls": _from_0_to(1000, 0.3, "gain of the class loss"),
    "cls_pw": _from_0_to(1000, 1.0, "weight of positives in the class loss"),
    "obj": _from_0_to(1000, 0.7, "gain of the objectness loss"),
    "obj_pw": _from_0_to(1000, 1.0, "weight of positives in the objectness loss"),
    "iou_t": _from_0_to(1, 0.2, "not used; published files have it"),
    "anchor_t": _above(1, 1000, 4.0, "largest ratio of a box's side to an anchor's"),
    "fl_gamma": _from_0_to(100, 0.0, "focal loss above 0"),
    "hsv_h": _from_0_to(100, 0.015, "hue, ± share"),
    "hsv_s": _from_0_to(100, 0.7, "saturation, ± share"),
    "hsv_v": _from_0_to(100, 0.4, "brightness, ± share"),
    "degrees": _from_0_to(180, 0.0, "rotation, ±"),
    "translate": _from_0_to(100, 0.2, "shift, ± share of the image"),
    "scale": _from_0_to_below(1, 0.9, "size, from 1 - scale to 1.1 + scale"),
    "shear": _from_0_to_below(90, 0.0, "± degrees"),
    "perspective": _from_0_to(0.001, 0.0, "± share"),
    "flipud": _from_0_to(1, 0.0, "probability of upside down"),
    "fliplr": _from_0_to(1, 0.5, "probability of mirrored"),
    "mosaic": _from_0_to(1, 1.0, "probability of a mosaic of four images, or nine"),
    "mixup": _from_0_to(1, 0.15, "probability of blending two mosaics"),
    "copy_paste": _from_0_to(1, 0.0, "probability of mirrored copies of objects; needs polygons"),
    "paste_in": _from_0_to(1, 0.15, "probability of pasting objects of other images; needs polygons"),
    "loss_ota": _one_of((1, 0), 1, "1: OTA assigns boxes to anchors; 0: their ratios do"),
    "assigner": HypKey(
        f"instead of loss_ota: {_NAMES}, or `[[0, anchor], [70, ota]]` by epoch",
        None,
        _assigner,
        "a name, or a list of epochs and names: [[0, anchor], [70, ota]]",
    ),
    "anchors": _whole(100, "anchors per level, to be fitted to the data, instead of those of the model"),
    "label_smoothing": _from_0_to(1, None, "as `--label-smoothing`"),
    "gr": _from_0_to(1, None, "how much the objectness target follows the overlap"),
    "cls_gr": _from_0_to(
        1, None, "how much the class target follows the overlap; the loss then has no kernels of its own"
    ),
    "autobalance": _switch("let the levels' objectness weights follow their losses"),
    "ignore_other_heads": _switch("as `--ignore-other-heads`"),
    "ignore_weight": _from_0_to(1, None, "as `--ignore-weight`"),
    "simota_version": _one_of(("current", "vendored"), None, "YOLOX: `current` or `vendored`"),
    "use_l1": _switch("YOLOX: the L1 term from the start"),
    "ema_decay": _from_0_to_below(1, None, "of the average of the weights (published: 0.9999)"),
    **{name: HypKey(one.meaning, None, one.suits, one.takes) for name, one in INGREDIENTS.items()},
}


SETTABLE = frozenset(HYP_KEYS) | {field.name for field in dataclasses.fields(YoloXRecipe)}
"""What `--set` may set, for one family or another."""


def read_hyp(path: str | Path | None, cfg_defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The values of a file; keys it lacks are those of `cfg_defaults`, then the published ones.

    So a file may say only what it changes. None is no file. Optional keys that are not given are absent.
    """
    published = {key: known.default for key, known in HYP_KEYS.items() if known.default is not None}
    file = YamlFile(None, {}) if path is None else read_yaml(find_resource(path, "hyp"))
    for key, value in file.values.items():
        _check(key, value, file)
    return {**published, **(cfg_defaults or {}), **file.values}


def published_hyp(cfg: str) -> str:
    """The recipe published for a model, by the name of its file: tiny, p6 or p5."""
    parts = Path(cfg).stem.lower().replace("_", "-").split("-")
    kind = "tiny" if "tiny" in parts else "p6" if any(part in _P6 for part in parts) else "p5"
    return f"data/hyp.scratch.{kind}.yaml"


def hyp_of(config: TrainConfig) -> dict[str, Any]:
    """The hyper-parameters of a run: the file's, the model's where it says nothing, changed by `--set` and flags."""
    hyp = read_hyp(config.hyp or None, read_hyp(published_hyp(config.cfg or config.weights)))
    if not config.sets_recipe:
        hyp |= changed_hyp(config.recipe_values)
    flags = {name: getattr(config, name) for name in ("label_smoothing", "ignore_other_heads", "ignore_weight")}
    hyp |= {name: value for name, value in flags.items() if value}
    if config.ota_from_epoch is not None and "assigner" in hyp:
        what = "--ota-from-epoch and assigner in the hyper-parameters both set the assigner"
        raise UserError(what, where=config.hyp, fix="drop one of them")
    if config.assigner is not None:
        hyp["assigner"] = config.assigner
    return hyp


def ingredients_of(hyp: Mapping[str, Any]) -> Ingredients:
    """Those among hyper-parameters, which are checked already."""
    return Ingredients(**{name: _frozen(hyp[name]) for name in INGREDIENTS if name in hyp})


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list | tuple) else value


def changed_hyp(values: Sequence[str]) -> dict[str, Any]:
    """Of `--set lr0=0.001 mosaic=0.5`."""
    found = typed_values(values, _OWN_FLAGS, "lr0=0.001") if values else {}
    for key, value in found.items():
        _check(key, value, YamlFile("--set", {}))
    return found


def source_of(key: str, config: TrainConfig, file: str) -> str:
    """Where the value of a hyper-parameter was read, in words; `file` is that of a run's hyper-parameters or recipe."""
    if any(value.partition("=")[0].strip() == key for value in config.recipe_values):
        return "by --set"
    return f"in {file}" if file else "as published"


def with_set_values(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of `train` among which hyper-parameters and values of recipes may stand: those are what `--set` sets."""
    known = {
        *settings_of(TrainConfig),
        *(python_name(f) for one in settings_of(TrainConfig).values() for f in one.flags),
    }
    values = {key: settings[key] for key in settings if key not in known and key in SETTABLE}
    flags = {key: value for key, value in settings.items() if key not in values}
    if not values:
        return flags
    given = flags.pop("set", flags.pop("recipe_values", ()))
    given = [given] if isinstance(given, str) else given
    return {**flags, "recipe_values": (*given, *(f"{key}={json.dumps(value)}" for key, value in values.items()))}


def _check(key: Any, value: Any, file: YamlFile) -> None:
    line = file.line(str(key))
    if key not in HYP_KEYS:
        what = f"there is no hyper-parameter {shorten(key)}{nearest(str(key), HYP_KEYS)}"
        fix = f"docs/flags.md lists them{FLAGS_FIRST if file.where == '--set' else ''}"
        raise UserError(what, where=file.where, line=line, fix=fix)
    if not HYP_KEYS[key].suits(value):
        raise UserError(f"{key} is {shorten(value)}", where=file.where, line=line, fix=_fix(key, value))


def _fix(key: str, value: Any) -> str:
    """A number in quotes is text."""
    try:
        number = float(value) if isinstance(value, str) else None
    except ValueError:
        number = None
    fix = f"give {HYP_KEYS[key].takes}"
    if number is not None and HYP_KEYS[key].suits(number):
        fix += f": `{key}: {f'{number:.12f}'.rstrip('0').rstrip('.')}`"
    return fix
