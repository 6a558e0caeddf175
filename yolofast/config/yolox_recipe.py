"""How YOLOX is trained: what its published experiment files say, and the fine-tuning recipes made from them.

A recipe file says only what it changes; the rest is the published recipe for COCO. YOLOv7's hyper-parameter files are
a different format: they share hardly a key, and none that means the same.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from yolofast.config.ingredients import INGREDIENTS, Ingredients
from yolofast.errors import UserError, nearest, shorten
from yolofast.files.yaml_file import YamlFile, parse_yaml, read_yaml
from yolofast.resources import find_resource

_SHARES = (
    "min_lr_ratio", "momentum", "ema_decay", "mosaic_prob", "mixup_prob", "hsv_prob", "flip_prob", "translate",
    "test_conf", "nms",
)  # fmt: skip
_STEP = 32
ENDS = ("warmup_epochs", "no_aug_epochs")
_POSITIVE = {"epochs": 1e6, "batch_size": 1e6, "basic_lr_per_img": 1.0}
_ENDS_OF_RANGES = {
    "warmup_epochs": 1e6, "no_aug_epochs": 1e6, "warmup_lr": 10, "weight_decay": 10, "degrees": 180, "shear": 89,
}  # fmt: skip
"""From 0. What is beyond is a typing mistake."""
_VERSIONS = ("current", "vendored")
_OWN_FLAGS = {"model": "--cfg", "epochs": "--epochs", "batch_size": "--batch-size", "freeze": "--freeze"}
_LONGEST_ENDS = 0.5
FLAGS_FIRST = "; flags such as name=first stand before --set"
"""What follows `--set` belongs to it."""
"""Of a shortened run: what warm-up and plain epochs may take together before they are shortened too."""


@dataclass(frozen=True, kw_only=True)
class YoloXRecipe(Ingredients):
    """Names are those of the published experiment files where those have one."""

    model: str = "yolox-s"
    input_size: tuple[int, int] = (640, 640)
    """Height and width."""
    random_size: tuple[int, int] | None = None
    """The least and the greatest height, in steps of 32; None: five steps less to five more. The width follows."""
    multi_scale: bool = True
    """Another size every ten batches."""
    freeze: tuple[str, ...] = ()
    """What does not learn, by the names that `--freeze` takes; a `--freeze` or `--plan` that is given goes before."""

    epochs: int = 300
    warmup_epochs: int = 5
    no_aug_epochs: int = 15
    """The last epochs, at the lowest learning rate."""
    close_mosaic: bool = True
    """In them there is no mosaic, and raw boxes are learned too (L1)."""
    batch_size: int = 64
    basic_lr_per_img: float = 0.01 / 64
    """Times the batch size it is the learning rate."""
    warmup_lr: float = 0.0
    min_lr_ratio: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 5e-4
    ema: bool = True
    ema_decay: float = 0.9998

    mosaic_prob: float = 1.0
    mixup_prob: float = 1.0
    hsv_prob: float = 1.0
    flip_prob: float = 0.5
    degrees: float = 10.0
    translate: float = 0.1
    shear: float = 2.0
    mosaic_scale: tuple[float, float] = (0.1, 2.0)
    mixup_scale: tuple[float, float] = (0.5, 1.5)
    max_labels: tuple[int, int] = (50, 120)
    """Boxes an image may have: by itself, and as a mosaic. Those beyond are omitted."""
    simota_version: str = "current"
    """`current`, or `vendored`: the older one that tracking repositories carry."""

    test_conf: float = 0.01
    nms: float = 0.65

    def __post_init__(self) -> None:
        for name, most in (dict.fromkeys(_SHARES, 1.0) | _POSITIVE | _ENDS_OF_RANGES).items():
            value, kind = getattr(self, name), "share" if name in _SHARES else "number"
            if name in _POSITIVE and not 0 < value <= most:
                raise UserError(f"{name} is {value:g}", fix=f"give a number above 0 and at most {most:g}")
            if not 0 <= value <= most:
                raise UserError(f"{name} is {value:g}", fix=f"give a {kind} from 0 to {most:g}")
        if self.warmup_epochs + self.no_aug_epochs > self.epochs:
            what = f"{self.warmup_epochs} epochs of warm-up and {self.no_aug_epochs} without augmentation"
            fix = f"train longer, or shorten {' and '.join(ENDS)}"
            raise UserError(f"{what} do not fit {self.epochs} epochs", fix=fix)
        if self.simota_version not in _VERSIONS:
            fix = f"use {' or '.join(_VERSIONS)}"
            raise UserError(f"simota_version is {shorten(self.simota_version)}", fix=fix)
        for name in ("mosaic_scale", "mixup_scale", "random_size", "max_labels"):
            pair = getattr(self, name)
            if pair is not None and not 0 < pair[0] <= pair[1]:
                raise UserError(f"{name} is {list(pair)}", fix="give two numbers above 0, the smaller first")
        if any(side < _STEP or side % _STEP for side in self.input_size):
            raise UserError(f"input_size is {list(self.input_size)}", fix=f"give multiples of {_STEP}: height, width")

    def for_run(self, epochs: int, shape: tuple[int, int], keep: Sequence[str] = ()) -> "YoloXRecipe":
        """As a run of that length and with inputs of that height and width follows it.

        A shorter run than the recipe's has shorter ends: where warm-up and plain epochs would take more than half of
        it, they are cut in proportion, except for those of `keep`, which the user set.
        """
        ends = {name: getattr(self, name) for name in ENDS}
        if epochs < self.epochs and sum(ends.values()) > _LONGEST_ENDS * epochs:
            least = 1 if epochs > 2 else 0
            cut = {name: min(max(round(n * epochs / self.epochs), least), n) for name, n in ends.items()}
            ends |= {name: n for name, n in cut.items() if name not in keep}
        changes: dict[str, Any] = {"epochs": epochs, "input_size": shape, **ends}
        if self.random_size is not None and "random_size" not in keep:
            share = shape[0] / self.input_size[0]
            changes["random_size"] = tuple(max(round(steps * share), 1) for steps in self.random_size)
        return dataclasses.replace(self, **changes)

    def lr(self, batch_size: int) -> float:
        """For batches of so many images over all GPUs."""
        return self.basic_lr_per_img * batch_size

    @property
    def closes_at(self) -> int | None:
        """The first epoch, from 0, without mosaic and with L1: as published one earlier than the name says."""
        return max(self.epochs - self.no_aug_epochs - 1, 0) if self.close_mosaic and self.no_aug_epochs else None

    def schedule(self, batches: int, batch_size: int) -> dict[str, Any]:
        """What `YoloXSchedule` is made of."""
        return {
            "epochs": self.epochs, "batches": batches, "lr": self.lr(batch_size), "momentum": self.momentum,
            "min_share": self.min_lr_ratio, "warmup_epochs": self.warmup_epochs, "plain_epochs": self.no_aug_epochs,
            "warmup_lr": self.warmup_lr, "warmup_iterations": self.warmup_iterations,
        }  # fmt: skip

    def augmentation(self) -> dict[str, Any]:
        """What `Recipe.yolox` is made of."""
        return {
            "mosaic": self.mosaic_prob, "mixup": self.mixup_prob, "mixup_scale": self.mixup_scale,
            "colour": self.hsv_prob, "fliplr": self.flip_prob, "degrees": self.degrees, "translate": self.translate,
            "scale": self.mosaic_scale, "shear": self.shear,
        }  # fmt: skip


def shape_in_form(form: tuple[int, int], long_side: int) -> tuple[int, int]:
    """Height and width with that long side, of that form as far as steps of 32 allow."""
    share = long_side / max(form)
    height, width = (max(round(side * share / _STEP), 1) * _STEP for side in form)
    return height, width


def read_yolox_recipe(name: str | Path, values: Sequence[str] = (), **changes: Any) -> YoloXRecipe:
    """The recipe of a file, or a packaged one by its name (`yolox-s`, `nuscenes-stable-v3`), with values changed.

    `values` are `key=value`, as `--set` has them.
    """
    file = read_yaml(find_resource(name, "recipe"))
    read = {key: _value(file, key, value) for key, value in file.values.items()}
    changed = changed_values(values)
    try:
        return YoloXRecipe(**{**read, **changed, **changes})
    except UserError as error:
        key = error.what.split()[0]
        where, line = ("--set", None) if key in changed else (file.where, file.line(key))
        raise UserError(error.what, where=where, line=line, fix=error.fix) from error


def changed_values(values: Sequence[str]) -> dict[str, Any]:
    """Of `--set mosaic_prob=0.3 input_size=800,1440`."""
    typed = typed_values(values, _OWN_FLAGS, "mosaic_prob=0.3")
    return {key: _value(YamlFile("--set", {}), key, value) for key, value in typed.items()}


def typed_values(values: Sequence[str], own_flags: Mapping[str, str], example: str) -> dict[str, Any]:
    """Of `--set KEY=VALUE …`, as YAML reads the values. `own_flags` set the same, and are named instead."""
    found: dict[str, Any] = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not equals or not value.strip():
            raise UserError(f"--set {shorten(text)} sets nothing", fix=f"give KEY=VALUE, such as {example}")
        if key in own_flags:
            fix = f"{own_flags[key]} {value.replace(',', ' ')}"
            raise UserError(f"--set {shorten(text)}: this has a flag of its own", fix=fix)
        found[key] = _typed(key, value)
    return found


def _typed(key: str, text: str) -> Any:
    """What was typed as YAML reads it, except that `800,1440` is two numbers."""
    if "," in text and not text.lstrip().startswith("["):
        return [_typed(key, part) for part in text.split(",")]
    return parse_yaml(f"value: {text}", f"--set {key}").values["value"]


def _value(file: YamlFile, key: Any, value: Any) -> Any:
    """In the form of the recipe's own value: two numbers where that is two, a whole number where it is whole."""
    known: Mapping[str, Any] = {field.name: field.default for field in dataclasses.fields(YoloXRecipe)}
    where, line = file.where, file.line(str(key))
    if key not in known:
        what = f"a YOLOX recipe has no {shorten(key)}{nearest(str(key), known)}"
        fix = f"use {', '.join(known)}{FLAGS_FIRST if where == '--set' else ''}"
        raise UserError(what, where=where, line=line, fix=fix)
    if key in INGREDIENTS:
        suits, fix = INGREDIENTS[key].suits(value), f"give {INGREDIENTS[key].takes}"
        return _in_tuples(value) if suits else _refuse(key, value, where, line, fix)
    default = (1, 1) if key == "random_size" else known[key]
    suits, fix = _like(value, default), f"give a value such as {default!r}"
    if key == "freeze":
        suits = isinstance(value, list) and all(isinstance(name, str) and name for name in value)
        fix = "give the names of what does not learn, as `yolofast info` lists them: [backbone, neck]"
    elif isinstance(default, tuple):
        suits = isinstance(value, list) and len(value) == 2 and all(_like(number, default[0]) for number in value)
        fix = f"give two {'whole ' if isinstance(default[0], int) else ''}numbers, such as {list(default)}"
    if not suits:
        _refuse(key, value, where, line, fix)
    return tuple(value) if isinstance(default, tuple) else value


def _refuse(key: str, value: Any, where: str | Path | None, line: int | None, fix: str) -> NoReturn:
    raise UserError(f"{key} is {shorten(value)}", where=where, line=line, fix=fix)


def _in_tuples(value: Any) -> Any:
    return tuple(_in_tuples(item) for item in value) if isinstance(value, list) else value


def _like(value: Any, default: Any) -> bool:
    if isinstance(default, bool | str):
        return type(value) is type(default)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole or (isinstance(default, float) and isinstance(value, float) and abs(value) < 1e9)
