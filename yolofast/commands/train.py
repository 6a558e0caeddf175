"""`yolofast train`: a run from its settings to its last checkpoint."""

import dataclasses
from pathlib import Path
from typing import Any

from yolofast.checkpoint.save import strip_checkpoint
from yolofast.config.args_file import as_text, to_yaml
from yolofast.config.environment import compile_request
from yolofast.config.resume import resumed
from yolofast.config.train import TrainConfig
from yolofast.config.unused import unused_flags
from yolofast.engine.checkpoints import BEST, LAST, Checkpoints, read_state
from yolofast.engine.display import Display
from yolofast.engine.gears import choose_gear
from yolofast.engine.record import Recorder
from yolofast.engine.run_folder import latest_checkpoint, new_run_folder
from yolofast.engine.setup import Run, prepare_run
from yolofast.engine.trainer import Progress, Trainer


def train(config: TrainConfig, given: dict[str, Any]) -> Path:
    """Trains as configured; `given` are the settings the user typed, which a resumed run checks. Returns the folder."""
    state: dict[str, Any] | None = None
    display = Display(config.epochs)
    if config.resume:
        last = latest_checkpoint(config.project) if config.resume is True else Path(str(config.resume))
        state, warning = read_state(last)
        config = resumed(TrainConfig(**state["config"]), given)
        folder = last.resolve().parent.parent
        display = Display(config.epochs)
        if warning:
            display.say(f"warning: {warning}")
    else:
        folder = new_run_folder(config.project, config.name, config.exist_ok)
    for flag in unused_flags(config):
        display.say(f"warning: {flag} is accepted but not used yet")
    run = prepare_run(config, display.say)
    progress = _restore(run, state) if state else Progress()
    to_yaml(config, folder / "args.yaml")
    recorder = Recorder(folder, progress.rows)
    recorder.environment()
    _fit(run, folder, progress, recorder, display)
    return folder
