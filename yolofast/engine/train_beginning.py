"""How a run begins: anew, from the state of an earlier one, or again, if nothing of that one was saved."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from yolofast.config.args_file import from_yaml
from yolofast.config.flags import from_settings
from yolofast.config.plan_file import PlanSpec
from yolofast.config.resume import resumed
from yolofast.config.train import TrainConfig
from yolofast.engine.checkpoints import PREVIOUS, read_state
from yolofast.engine.explanation import Past
from yolofast.engine.families import completed
from yolofast.engine.hyp_file import read_hyp
from yolofast.engine.kept_copies import with_kept_copies
from yolofast.engine.plan_copy import kept_plan
from yolofast.engine.run_to_resume import SETTINGS_FILE, run_to_resume
from yolofast.runs.layout import RATES


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
    def past(self) -> Past | None:
        """None of a run that begins."""
        state = self.state
        if state is None or not state["rows"]:
            return None
        return Past(
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
