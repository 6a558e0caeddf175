"""How a run begins: new, from the state of an earlier one, or again, if nothing of that one was saved.

A run has its settings in its folder from the first moment on, and a checkpoint after its first epoch. One that was
killed before starts again from its settings, which gives the same run: nothing else went into it.

A resumed run reads its own copies in place of files that have gone. Its folder has `hyp.yaml` (the hyper-parameters or
YOLOX's recipe, all defaults filled in) and `plan.yaml`; a checkpoint has the network and the grouping of its heads. Of
the data set and of per-head augmentation there is no copy: the message says which file is missing.

`plan.yaml` says of how many epochs its shares (`40%`) are. A run that gets more epochs later keeps its phases where
they were, and the last one continues: going back to an earlier phase would freeze again what has been thawed.
"""

import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from yolofast.config.flags import from_settings
from yolofast.config.resumed import from_yaml, is_gone, other_images, resumed
from yolofast.config.settings import settings_of
from yolofast.config.train import RESUME_OR_START, TrainConfig
from yolofast.dataset.changes import SplitRecord, changes_of, encoded, read_records
from yolofast.errors import UserError, nearest_file
from yolofast.files.atomic_file import write_whole
from yolofast.files.yaml_file import dump_yaml, read_yaml
from yolofast.resources import find_resource
from yolofast.runs.folder import Hold
from yolofast.runs.layout import FILES, RATES
from yolofast.train.checkpoints import OF_A_DETECTOR, read_state
from yolofast.train.explain.explanation import RunSoFar
from yolofast.train.families.family import completed
from yolofast.train.finetune.plan_file import PlanSpec, read_plan

_STATES = (FILES.last, FILES.previous)
_FIX = "name a run's folder, or its last.pt: --resume RUN"


@dataclass(frozen=True)
class RunToResume:
    folder: Path
    checkpoint: Path | None
    """None: it starts again."""


def run_to_resume(resume: bool | str, project: str | Path) -> RunToResume:
    """`resume` is a checkpoint, a run's folder, or True for the run that was last written to."""
    if resume is True:
        return _saved_in(_latest_run(Path(project)))
    named = Path(str(resume))
    if named.is_file():
        return RunToResume(_as_typed(named.resolve().parent.parent), named)
    return _saved_in(_folder_meant(named.absolute()))


def _folder_meant(named: Path) -> Path:
    """A `last.pt` that is not there yet means its run."""
    inside = named if named.is_dir() else named.parent
    folder = inside.parent if inside.name == FILES.weights else inside
    if folder.is_dir() and (named.is_dir() or named.name == FILES.last):
        return folder
    raise UserError(f"there is no such file or folder{nearest_file(named)}", where=named, fix=_FIX)


def _saved_in(folder: Path) -> RunToResume:
    folder = _as_typed(folder.resolve())
    weights = folder / FILES.weights
    if any((weights / name).exists() for name in _STATES):
        return RunToResume(folder, weights / FILES.last)
    if not (folder / FILES.settings).is_file():
        what = f"there is no run to resume: no {FILES.weights}/{FILES.last} and no {FILES.settings}"
        raise UserError(what, where=folder, fix=_FIX)
    return RunToResume(folder, None)


def _as_typed(folder: Path) -> Path:
    """From the current folder if it lies below."""
    here = Path.cwd()
    return folder.relative_to(here) if here in folder.parents else folder


def _latest_run(project: Path) -> Path:
    names = (FILES.settings, *(f"{FILES.weights}/{name}" for name in _STATES))
    # Folders with a dot are those that runs are about to be made in.
    found = [path for name in names for path in project.glob(f"[!.]*/{name}")]
    if not found:
        raise UserError("there is no run to resume", where=project, fix=_FIX)
    newest = max(found, key=lambda path: path.stat().st_mtime_ns)
    return newest.parent if newest.name == FILES.settings else newest.parent.parent


class Beginning(NamedTuple):
    config: TrainConfig
    folder: Path | None = None
    """That of the run to resume; a new run makes its own."""
    state: dict[str, Any] | None = None
    """None: from the first epoch on."""
    hyp: Mapping[str, Any] | None = None
    """The hyper-parameters that the run had so far."""
    note: str | None = None
    """For the user."""
    plan: PlanSpec | None = None
    """That of the run to resume, if it has a copy of one."""
    checkpoint: Path | None = None
    """Where the state comes from."""

    @property
    def findable(self) -> TrainConfig:
        """The settings to build the run from: where files they name have gone, the run's own copies."""
        if self.folder is None:
            return self.config
        return with_saved_copies(self.config, self.folder, self.checkpoint)

    @property
    def past(self) -> RunSoFar | None:
        """None of a run that begins."""
        state = self.state
        if state is None or not state["rows"]:
            return None
        return RunSoFar(
            epochs=state["next_epoch"],
            planned=state["config"]["epochs"],
            lr=state["rows"][-1][RATES[0].name],
            lr_factor=state["lr_factor"],
        )


def beginning(config: TrainConfig, given: dict[str, Any], hold: Hold = lambda folder: None) -> Beginning:
    """`given` is what the user typed, which a resumed run checks. `hold` first gets a folder that is there."""
    config, given = _resumed_or_started(config, given)
    if not config.resume:
        if config.exist_ok and (folder := Path(config.project) / config.name).is_dir():
            hold(folder)
        config, note = _with_weights_that_exist(config, given)
        if "workers" not in given:  # the published number is more than many machines have cores for
            config = dataclasses.replace(config, workers=None)
        return Beginning(completed(config, given), note=note)
    run = run_to_resume(config.resume, config.project)
    hold(run.folder)
    if Path(config.project).resolve() == run.folder.resolve().parent:  # it says where to look, from wherever that is
        given = {name: value for name, value in given.items() if name != "project"}
    if run.checkpoint is None:
        stored = resumed(from_yaml(TrainConfig, run.folder / FILES.settings), given)
        config = dataclasses.replace(stored, resume=False)  # by which others know that its hours are all there were
        note = f"nothing of {run.folder} was saved before it stopped: it starts again, with the same settings"
        plan = saved_plan(config, run.folder)
        return Beginning(config, run.folder, hyp=read_hyp(run.folder), note=note, plan=plan)
    state, warning = read_state(run.checkpoint, OF_A_DETECTOR)
    config = resumed(_with_data_that_moved(from_settings(TrainConfig, state["config"]), run.folder), given)
    note = f"warning: {warning}" if warning else None
    read = run.checkpoint.with_name(FILES.previous) if warning else run.checkpoint
    return Beginning(config, run.folder, state, state["hyp"], note, saved_plan(config, run.folder), read)


def _resumed_or_started(config: TrainConfig, given: dict[str, Any]) -> tuple[TrainConfig, dict[str, Any]]:
    """`--resume auto`: the same command continues its run, or begins it, in a folder whose name is not counted up."""
    if config.resume != RESUME_OR_START:
        return config, given
    folder = Path(config.project) / config.name
    try:
        _saved_in(folder)
    except UserError:
        return dataclasses.replace(config, resume=False, exist_ok=True), given
    given = {name: value for name, value in given.items() if name != "resume"}
    return dataclasses.replace(config, resume=str(folder)), given


def _with_data_that_moved(config: TrainConfig, folder: Path) -> TrainConfig:
    """A resume with `--data NEW` that had nothing to train wrote no state: the place is in the settings alone."""
    if is_gone(config, "data"):
        with suppress(UserError):
            return dataclasses.replace(config, data=from_yaml(TrainConfig, folder / FILES.settings).data)
    return config


def _with_weights_that_exist(config: TrainConfig, given: Mapping[str, Any]) -> tuple[TrainConfig, str | None]:
    """The published default names a file few people have."""
    if "weights" in given or not config.weights or Path(config.weights).exists():
        return config, None
    note = f"weights: none were named, and {config.weights} (the default) is not here: training from scratch"
    return dataclasses.replace(config, weights=""), note


Records = Mapping[str, SplitRecord]


def other_data(folder: Path, state: Mapping[str, Any] | None, records: Records, data: str) -> list[str]:
    """What has changed since the run was last started; of the runs of older versions only the number is known."""
    if not records:  # the files are trusted
        return []
    before = read_records(folder / FILES.images, records)
    if before is not None:
        return changes_of(before, records)
    return other_images((state or {}).get("images"), len(records["train"].names), data)


def own_copies(config: TrainConfig, hyp: Mapping[str, Any], records: Records) -> dict[str, bytes]:
    """Files of a new run; what `--freeze` and `--stage` say is among the settings."""
    copies = {FILES.hyp: dump_yaml(hyp).encode(), **_images(records)}
    if config.plan:
        plan = read_yaml(find_resource(config.plan, "plan")).values
        copies[FILES.plan] = dump_yaml({"epochs": config.epochs, **plan}).encode()
    return copies


def _images(records: Records) -> dict[str, bytes]:
    return {FILES.images: encoded(records)} if records else {}


def saved_plan(config: TrainConfig, folder: Path) -> PlanSpec | None:
    """The plan of a resumed run; None if it has none of its own. The file it came from may be gone by now."""
    path = folder / FILES.plan
    if not config.plan or not path.is_file():
        return None
    own = read_plan(path)
    if not is_gone(config, "plan") and read_plan(config.plan).written != own.written:
        fix = f"restore it (the run's folder has a copy, {FILES.plan}), or start a new run with --weights last.pt"
        raise UserError("the plan says something else than when the run was started", where=config.plan, fix=fix)
    return own


def write_copies(hyp: Mapping[str, Any], records: Records, folder: Path) -> None:
    for name, content in {FILES.hyp: dump_yaml(hyp).encode(), **_images(records)}.items():
        try:
            write_whole(folder / name, content)
        except OSError as error:
            what = f"the run's own copies could not be written: {error.strerror or error}"
            raise UserError(what, where=folder / name, fix="check permissions and that the disk has room") from error


def read_hyp(folder: Path) -> Mapping[str, Any] | None:
    """None if the run had not written them yet."""
    path = folder / FILES.hyp
    return read_yaml(path).values if path.is_file() else None


_OF_THE_NETWORK = ("cfg", "weights", "head_config")
_WITH_COPY = (*_OF_THE_NETWORK, "hyp", "recipe", "plan")
_ONLY_IN_RECIPES = "input_size"


def with_saved_copies(config: TrainConfig, folder: Path, checkpoint: Path | None) -> TrainConfig:
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
            changes[name] = str(folder / FILES.hyp)
    if is_gone(config, "plan") and (folder / FILES.plan).is_file():
        changes["plan"] = str(folder / FILES.plan)
    found = dataclasses.replace(config, **changes)
    without_copy = ("data", "head_params") if config.class_aware_aug else ("data",)
    for name in (*without_copy, *_WITH_COPY):
        if is_gone(found, name):
            flag = settings_of(TrainConfig)[name].flag
            what = f"the run was started with {flag} {getattr(found, name)}, which is not there any more"
            fix = f"put it back, or name it where it is now: --resume {folder} {flag} NEW"
            raise UserError(what, where=folder, fix=fix)
    return found


def copies_used(config: TrainConfig, found: TrainConfig) -> list[str]:
    """Of `with_saved_copies`: what there is to tell about each file that has gone."""
    declared = settings_of(TrainConfig)
    gone = [name for name in _WITH_COPY if is_gone(config, name) and not is_gone(found, name)]
    words = "is not there any more: the run's own copy is used"
    return [f"{declared[name].flag} {getattr(config, name)} {words}" for name in gone]
