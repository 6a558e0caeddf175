"""`yolofast train`: a run from its settings to its last checkpoint."""

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from yolofast.checkpoint.save import strip_checkpoint
from yolofast.config.args_file import to_yaml
from yolofast.config.environment import compile_request
from yolofast.config.flags import from_args, given_settings
from yolofast.config.from_settings import from_settings
from yolofast.config.resume import resumed
from yolofast.config.train import TrainConfig
from yolofast.config.unused import unused_flags
from yolofast.engine.checkpoints import BEST, Checkpoints, read_state
from yolofast.engine.display import Display
from yolofast.engine.gears import choose_gear
from yolofast.engine.record import Recorder
from yolofast.engine.run_folder import latest_checkpoint, new_run_folder
from yolofast.engine.setup import Run, prepare_run, refuse_unbuilt
from yolofast.engine.trainer import Progress, Trainer


def run(args: argparse.Namespace) -> None:
    train(from_args(TrainConfig, args), given_settings(TrainConfig, args))


def train(config: TrainConfig, given: dict[str, Any]) -> Path:
    """Trains as configured; `given` is what the user typed, which a resumed run checks. Returns the run's folder."""
    if "weights" not in given and config.weights and not Path(config.weights).exists():
        config = dataclasses.replace(config, weights="")  # the published default names a file few people have
    if not config.resume:
        return _run(config, None, None, Display(config.epochs))
    last = latest_checkpoint(config.project) if config.resume is True else Path(str(config.resume))
    state, warning = read_state(last)
    config = resumed(from_settings(TrainConfig, state["config"]), given)
    display = Display(config.epochs)
    if warning:
        display.say(f"warning: {warning}")
    return _run(config, last.resolve().parent.parent, state, display)


def _run(config: TrainConfig, folder: Path | None, state: dict[str, Any] | None, display: Display) -> Path:
    refuse_unbuilt(config)
    for flag in unused_flags(config):
        display.say(f"warning: {flag} is accepted but not used yet")
    run = prepare_run(config, display.say)
    if folder is None:  # only now: a run that cannot start leaves nothing behind
        folder = new_run_folder(config.project, config.name, config.exist_ok)
    display.say(f"run: {folder}")
    progress = _restore(run, state) if state else Progress()
    to_yaml(config, folder / "args.yaml")
    trainer = _trainer(run, folder, progress, display)
    if state is None:
        trainer.checkpoints.forget_earlier_run()
    trainer.recorder.environment()
    try:
        trainer.fit()
    finally:
        run.close()
        trainer.recorder.close()
    _finish(trainer, folder, display)
    return folder


def _restore(run: Run, state: dict[str, Any]) -> Progress:
    run.model.load_state_dict(state["model"])
    run.step.ema.model.load_state_dict(state["ema"])
    run.step.load_state_dict(state["step"])
    names = ("best_fitness", "best_epoch", "lr_factor", "rows")
    return Progress(epoch=state["next_epoch"], **{name: state[name] for name in names})


def _trainer(run: Run, folder: Path, progress: Progress, display: Display) -> Trainer:
    config = run.config
    gear = choose_gear(compile_request(config.gear).gear, run.step, config.batch_size, display.say)
    return Trainer(
        step=run.step,
        gear=gear,
        batches=run.batches,
        schedule=run.schedule,
        evaluate=run.evaluate,
        start_epoch=run.start_epoch,
        checkpoints=Checkpoints(folder / "weights"),
        recorder=Recorder(folder, progress.rows),
        display=display,
        epochs=config.epochs,
        progress=progress,
        settings={"config": _plain(config), "hyp": run.hyp},
        evaluate_every_epoch=not config.notest,
        save_every_epoch=not config.nosave,
        save_period=config.save_period,
        patience=config.patience,
        max_steps=config.max_steps,
    )


def _plain(config: TrainConfig) -> dict[str, Any]:
    values = dataclasses.asdict(config)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _finish(trainer: Trainer, folder: Path, display: Display) -> None:
    progress = trainer.progress
    best = folder / "weights" / BEST
    best_row = next((row for row in progress.rows if row["epoch"] == progress.best_epoch), {})
    trainer.recorder.summary({"epochs": progress.epoch, "best_epoch": progress.best_epoch, **best_row})
    if best.exists():
        strip_checkpoint(best)
    if best_row:
        display.say(f"best: epoch {progress.best_epoch + 1}, mAP50 {best_row['metrics/mAP50(B)']:.3f}; {best}")
