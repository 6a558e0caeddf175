"""What a run that goes on reads in place of files that have gone: its own copies.

Its folder has the hyper-parameters and the plan, a checkpoint has the network and the grouping of its heads. Of the
data set and of per-head augmentation there is no copy; then the message says which file is missing and how to name
another.

`plan.yaml` of a run's folder: the plan as it was when the run began, so that the run can go on without the file.

It says of how many epochs its shares (`40%`) are: a run that gets more of them later keeps its phases where they were,
and the last one goes on. Going back to a phase that is over would freeze again what has been thawed.

`hyp.yaml` of a run's folder: the hyper-parameters that ran, or YOLOX's recipe, all defaults filled in.

Given back as `--hyp` (`--recipe`) it repeats them.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from yolofast.config.resumed import is_gone
from yolofast.config.settings import settings_of
from yolofast.config.train import TrainConfig
from yolofast.errors import UserError
from yolofast.files.atomic_file import write_whole
from yolofast.files.yaml_file import dump_yaml, read_yaml
from yolofast.resources import find_resource
from yolofast.runs.layout import FILES
from yolofast.train.finetune.plan_file import PlanSpec, read_plan

PLAN_FILE = FILES.plan


def plan_text(config: TrainConfig) -> bytes:
    """Of a run with `--plan`. What `--freeze` and `--stage` say is among the settings."""
    values = read_yaml(find_resource(config.plan, "plan")).values
    return dump_yaml({"epochs": config.epochs, **values}).encode()


def kept_plan(config: TrainConfig, folder: Path) -> PlanSpec | None:
    """The plan of a run that goes on; None if it has none of its own. The file it came from may be gone by now."""
    path = folder / PLAN_FILE
    if not config.plan or not path.is_file():
        return None
    own = read_plan(path)
    given = _still_there(config.plan)
    if given is not None and given.written != own.written:
        fix = f"restore it (the run's folder has a copy, {PLAN_FILE}), or start a new run with --weights last.pt"
        raise UserError("the plan says something else than when the run was started", where=config.plan, fix=fix)
    return own


def _still_there(name: str) -> PlanSpec | None:
    try:
        find_resource(name, "plan")
    except UserError:
        return None
    return read_plan(name)


HYP_FILE = FILES.hyp


def hyp_text(hyp: Mapping[str, Any]) -> bytes:
    return dump_yaml(hyp).encode()


def write_hyp(hyp: Mapping[str, Any], folder: Path) -> None:
    path = folder / HYP_FILE
    try:
        write_whole(path, hyp_text(hyp))
    except OSError as error:
        what = f"the hyper-parameters could not be written: {error.strerror or error}"
        raise UserError(what, where=path, fix="check permissions and that the disk has room") from error


def read_hyp(folder: Path) -> Mapping[str, Any] | None:
    """None if the run had not written them yet."""
    path = folder / HYP_FILE
    return read_yaml(path).values if path.is_file() else None


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
