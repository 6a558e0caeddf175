"""Which run `--resume` means, and whether it has been saved.

A run has its settings in its folder from the first moment on, and a checkpoint after its first epoch. One that was
killed before starts again from its settings, which comes to the same bits: nothing else went into it.

How a run begins: anew, from the state of an earlier one, or again, if nothing of that one was saved.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from yolofast.config.flags import from_settings
from yolofast.config.resumed import from_yaml, resumed
from yolofast.config.train import TrainConfig
from yolofast.errors import UserError, nearest_file
from yolofast.runs.layout import FILES, RATES
from yolofast.train.checkpoints import LAST, PREVIOUS, read_state
from yolofast.train.explain.explanation import RunSoFar
from yolofast.train.families.table import completed
from yolofast.train.finetune.plan_file import PlanSpec
from yolofast.train.kept_files import kept_plan, read_hyp, with_kept_copies

SETTINGS_FILE = FILES.settings
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
    if folder.is_dir() and (named.is_dir() or named.name == LAST):
        return folder
    raise UserError(f"there is no such file or folder{nearest_file(named)}", where=named, fix=_FIX)


def _saved_in(folder: Path) -> RunToResume:
    folder = _as_typed(folder.resolve())
    weights = folder / FILES.weights
    if (weights / LAST).exists() or (weights / PREVIOUS).exists():
        return RunToResume(folder, weights / LAST)
    if not (folder / SETTINGS_FILE).is_file():
        raise UserError(
            f"there is no run to resume: no {FILES.weights}/{LAST} and no {SETTINGS_FILE}", where=folder, fix=_FIX
        )
    return RunToResume(folder, None)


def _as_typed(folder: Path) -> Path:
    """From the current folder if it lies below."""
    here = Path.cwd()
    return folder.relative_to(here) if here in folder.parents else folder


def _latest_run(project: Path) -> Path:
    names = (SETTINGS_FILE, f"{FILES.weights}/{LAST}", f"{FILES.weights}/{PREVIOUS}")
    # Folders with a dot are those that runs are about to be made in.
    found = [path for name in names for path in project.glob(f"[!.]*/{name}")]
    if not found:
        raise UserError("there is no run to resume", where=project, fix=_FIX)
    newest = max(found, key=lambda path: path.stat().st_mtime_ns)
    return newest.parent if newest.name == SETTINGS_FILE else newest.parent.parent


class Beginning(NamedTuple):
    config: TrainConfig
    folder: Path | None = None
    """That of the run to go on with; a new run makes its own."""
    state: dict[str, Any] | None = None
    """None: from the first epoch on."""
    hyp: Mapping[str, Any] | None = None
    """The hyper-parameters that the run had so far."""
    note: str | None = None
    """To be told."""
    plan: PlanSpec | None = None
    """That of the run to go on with, if it has kept one."""
    checkpoint: Path | None = None
    """Where the state comes from."""

    @property
    def findable(self) -> TrainConfig:
        """The settings to build the run from: where files they name have gone, those the run has kept."""
        if self.folder is None:
            return self.config
        return with_kept_copies(self.config, self.folder, self.checkpoint)

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


def beginning(config: TrainConfig, given: dict[str, Any]) -> Beginning:
    """`given` is what the user typed, which a resumed run checks."""
    if not config.resume:
        config, note = _with_weights_that_exist(config, given)
        return Beginning(completed(config, given), note=note)
    run = run_to_resume(config.resume, config.project)
    if Path(config.project).resolve() == run.folder.resolve().parent:  # it says where to look, from wherever that is
        given = {name: value for name, value in given.items() if name != "project"}
    if run.checkpoint is None:
        stored = resumed(from_yaml(TrainConfig, run.folder / SETTINGS_FILE), given)
        config = dataclasses.replace(stored, resume=False)  # by which others know that its hours are all there were
        note = f"nothing of {run.folder} was saved before it stopped: it starts again, with the same settings"
        plan = kept_plan(config, run.folder)
        return Beginning(config, run.folder, hyp=read_hyp(run.folder), note=note, plan=plan)
    state, warning = read_state(run.checkpoint)
    config = resumed(from_settings(TrainConfig, state["config"]), given)
    note = f"warning: {warning}" if warning else None
    read = run.checkpoint.with_name(PREVIOUS) if warning else run.checkpoint
    return Beginning(config, run.folder, state, state["hyp"], note, kept_plan(config, run.folder), read)


def _with_weights_that_exist(config: TrainConfig, given: Mapping[str, Any]) -> tuple[TrainConfig, str | None]:
    """The published default names a file few people have."""
    if "weights" in given or not config.weights or Path(config.weights).exists():
        return config, None
    note = f"weights: none were named, and {config.weights} (the default) is not here: training from scratch"
    return dataclasses.replace(config, weights=""), note
