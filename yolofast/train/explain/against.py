"""The second configuration that `--against` means: the first one with flags on top, or with another recipe."""

import dataclasses
import shlex
from pathlib import Path
from typing import Any

from yolofast.config.flags import from_args, given_settings, parse_flags
from yolofast.config.hyp import HYP_KEYS
from yolofast.config.train import TrainConfig
from yolofast.config.yolox_recipe import YoloXRecipe
from yolofast.errors import UserError, nearest, shorten
from yolofast.files.yaml_file import read_yaml
from yolofast.resources import short_names

_KINDS = ("recipe", "plan", "hyp")
"""Of files that a flag of the same name takes."""


def second_configuration(
    config: TrainConfig, given: dict[str, Any], command: str
) -> tuple[TrainConfig, dict[str, Any]]:
    """Of `config.against`, and what is given then; `config` as it was typed, before a recipe has completed it."""
    flags = config.against or ""
    try:
        words = shlex.split(flags)
    except ValueError as error:
        raise UserError(f"--against {shorten(flags)}: {error}", fix="close the quotation mark") from None
    if len(words) == 1 and not words[0].startswith("-"):
        words = [f"--{_kind(words[0])}", words[0]]
    first = dataclasses.replace(config, against=None)
    parsed = parse_flags(TrainConfig, first, words, f"{command} --against")
    changes = given_settings(TrainConfig, parsed)
    if not changes:
        raise UserError("--against names no flag", fix='give what differs: --against "--loader cpu --workers 8"')
    return from_args(TrainConfig, parsed), given | changes


def _kind(name: str) -> str:
    """A packaged file is known by its name, one on the disk by what it says."""
    path, packaged = Path(name), {kind: short_names(kind) for kind in _KINDS}
    if path.is_file():
        keys = read_yaml(path).values.keys()
        of_recipe = {field.name for field in dataclasses.fields(YoloXRecipe)}
        return "plan" if "plan" in keys else "hyp" if len(keys & HYP_KEYS.keys()) > len(keys & of_recipe) else "recipe"
    for kind, names in packaged.items():
        if name.removesuffix(".yaml") in names:
            return kind
    known = [name for names in packaged.values() for name in names]
    what = f"--against {shorten(name)}: there is no such file, recipe, plan or hyper-parameters{nearest(name, known)}"
    raise UserError(what, fix=f'give a file, flags such as "--set mosaic_prob=0.5", or one of: {", ".join(known)}')
