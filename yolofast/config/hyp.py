"""Hyper-parameter files: found by the paths users type, every key known and every value of its kind."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from yolofast.config.hyp_keys import HYP_KEYS
from yolofast.config.train import TrainConfig
from yolofast.errors import UserError, nearest, shorten
from yolofast.resources import find_resource
from yolofast.yaml_file import YamlFile, read_yaml

_P6 = ("w6", "e6", "d6", "e6e")


def read_hyp(path: str | Path | None, cfg_defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The values of a file; keys it lacks are those of `cfg_defaults`, then the published ones.

    So a file may say only what it changes. None is no file. Optional keys nobody gives are absent.
    """
    table = {key: known.default for key, known in HYP_KEYS.items() if known.default is not None}
    given: Mapping[str, Any] = {}
    if path is not None:
        file = read_yaml(find_resource(path, "hyp"))
        for key, value in file.values.items():
            _check(key, value, file)
        given = file.values
    return {**table, **(cfg_defaults or {}), **given}


def published_hyp(cfg: str) -> str:
    """The recipe published for a model, by the name of its file: tiny, p6 or p5."""
    parts = Path(cfg).stem.lower().replace("_", "-").split("-")
    kind = "tiny" if "tiny" in parts else "p6" if any(part in _P6 for part in parts) else "p5"
    return f"data/hyp.scratch.{kind}.yaml"


def hyp_of(config: TrainConfig) -> dict[str, Any]:
    """The hyper-parameters of a run: the file's, the model's where it says nothing, changed by flags."""
    hyp = read_hyp(config.hyp or None, read_hyp(published_hyp(config.cfg or config.weights)))
    flags = {name: getattr(config, name) for name in ("label_smoothing", "ignore_other_heads", "ignore_weight")}
    hyp |= {name: value for name, value in flags.items() if value}
    if config.ota_from_epoch is not None and "assigner" in hyp:
        what = "--ota-from-epoch and assigner in the hyper-parameters both set the assigner"
        raise UserError(what, where=config.hyp, fix="drop one of them")
    if config.assigner is not None:
        hyp["assigner"] = config.assigner
    return hyp


def _check(key: Any, value: Any, file: YamlFile) -> None:
    line = file.line(str(key))
    if key not in HYP_KEYS:
        what = f"there is no hyper-parameter {shorten(key)}{nearest(str(key), HYP_KEYS)}"
        raise UserError(what, where=file.where, line=line, fix="docs/flags.md lists them")
    known = HYP_KEYS[key]
    if not known.suits(value):
        raise UserError(f"{key} is {shorten(value)}", where=file.where, line=line, fix=_fix(key, value))


def _fix(key: str, value: Any) -> str:
    """A number in quotes is text."""
    try:
        number = float(value) if isinstance(value, str) else None
    except ValueError:
        number = None
    takes = f"give {HYP_KEYS[key].takes}"
    return takes if number is None or not HYP_KEYS[key].suits(number) else f"{takes}: `{key}: {_plain(number)}`"


def _plain(number: float) -> str:
    return f"{number:.12f}".rstrip("0").rstrip(".")
