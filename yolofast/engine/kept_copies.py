"""What a run that goes on reads in place of files that have gone: its own copies.

Its folder has the hyper-parameters and the plan, a checkpoint has the network and the grouping of its heads. Of the
data set and of per-head augmentation there is no copy; then the message says which file is missing and how to name
another.
"""

import dataclasses
from pathlib import Path
from typing import Any

from yolofast.config.named_files import is_gone
from yolofast.config.settings import settings_of
from yolofast.config.train import TrainConfig
from yolofast.engine.hyp_file import HYP_FILE, read_hyp
from yolofast.engine.plan_copy import PLAN_FILE
from yolofast.errors import UserError

_OF_THE_NETWORK = ("cfg", "weights", "head_config")
_WITH_COPY = (*_OF_THE_NETWORK, "hyp", "recipe", "plan")
_ONLY_IN_RECIPES = "input_size"


def with_kept_copies(config: TrainConfig, folder: Path, checkpoint: Path | None) -> TrainConfig:
    """The settings to build the run of `folder` from; `checkpoint` is what its state was read from, if it has one."""
    changes: dict[str, Any] = {}
    if checkpoint is not None and any(is_gone(config, name) for name in _OF_THE_NETWORK):
        changes |= {"cfg": "", "weights": str(checkpoint), "head_config": ""}
    hyp = read_hyp(folder)
    if hyp is not None:
        of_recipe = _ONLY_IN_RECIPES in hyp
        name = "recipe" if of_recipe else "hyp"
        # Without a file, YOLOv7's hyper-parameters follow from the name of the model file.
        if is_gone(config, name) or ("cfg" in changes and not of_recipe and not config.hyp):
            changes[name] = str(folder / HYP_FILE)
    if is_gone(config, "plan") and (folder / PLAN_FILE).is_file():
        changes["plan"] = str(folder / PLAN_FILE)
    found = dataclasses.replace(config, **changes)
    without_copy = ("data", "head_params") if config.class_aware_aug else ("data",)
    for name in (*without_copy, *_WITH_COPY):
        if is_gone(found, name):
            raise _missing(found, name, folder)
    return found


def copies_used(config: TrainConfig, found: TrainConfig) -> list[str]:
    """Of `with_kept_copies`: what there is to tell about each file that has gone."""
    declared = settings_of(TrainConfig)
    gone = [name for name in _WITH_COPY if is_gone(config, name) and not is_gone(found, name)]
    words = "is not there any more: the run's own copy is used"
    return [f"{declared[name].flag} {getattr(config, name)} {words}" for name in gone]


def _missing(config: TrainConfig, name: str, folder: Path) -> UserError:
    flag = settings_of(TrainConfig)[name].flag
    what = f"the run was started with {flag} {getattr(config, name)}, which is not there any more"
    return UserError(what, where=folder, fix=f"put it back, or name it where it is now: --resume {folder} {flag} NEW")
