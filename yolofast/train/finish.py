"""The end of a run: its best weights made ready, its last pictures and records, and what to type next.

What only the end needs is imported then, unless a thread has done so while a GPU trained.
"""

import shlex
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from yolofast.checkpoint.save import strip_checkpoint
from yolofast.config.train import TrainConfig
from yolofast.detect.accumulator import Evaluated
from yolofast.detect.detector import ImageDetector
from yolofast.files.threads import import_meanwhile
from yolofast.ranks import world
from yolofast.runs.divergence import lost_rows
from yolofast.runs.layout import EPOCH, FILES, MAP, MAP50
from yolofast.runs.reader import RunFolder
from yolofast.train.display import Display
from yolofast.train.guard import TIME_LIMIT
from yolofast.train.loop import Progress, Trainer
from yolofast.train.record import Recorder, summary_of
from yolofast.train.resume import run_to_resume
from yolofast.train.run import Run
from yolofast.train.run_pictures import telling_confidence
from yolofast.words import clock, counted, own_command

_NEEDED = ("yolofast.report.run.run_page", "scipy.special")
"""Half a second in all."""
_WORTH_A_LOOK = (FILES.report, FILES.results, FILES.curves, FILES.predictions)


def import_for_the_end(run: Run) -> None:
    """While a GPU trains; on the CPU training would wait for it."""
    if run.step.precision.device.type == "cuda":
        import_meanwhile(*_NEEDED)


def finish_run(run: Run, trainer: Trainer, folder: Path, display: Display, started: float) -> None:
    """`started` is when this process began the run, by `time.monotonic`."""
    progress, best = trainer.progress, folder / FILES.weights / FILES.best
    if best.exists():
        strip_checkpoint(best)
        # A resumed run that got no better does not have the evaluation of its best weights. One of several ranks could
        # only repeat its part of it.
        if trainer.best_found is None and world() == 1:
            trainer.pictures.attempt("how good the best weights are", lambda: _evaluate_again(run, trainer, best))
    if run.config.plots:
        with display.doing("drawing"):
            trainer.pictures.curves(progress.rows)
            if best.exists():
                trainer.pictures.attempt("what the best weights see", lambda: _draw_best(run, trainer, best))
    summary = summary_of(progress.rows, progress.best_epoch, time.monotonic() - started)
    trainer.recorder.summary(summary)
    _leave_report(run, trainer)
    with display.doing("drawing") if run.config.plots else nullcontext():
        trainer.pictures.finish()
    trainer.recorder.close(complete=True)
    commands = _commands(run, progress, folder / FILES.weights)
    best_is_saved = progress.saved_epoch == progress.best_epoch
    results = _results(summary, folder, best_is_saved)
    if why := _why_useless(run, progress):
        results.insert(-1, f"warning: these weights are of no use, {why}; {run.rules.lower_rate}")
        commands = [f"  {own_command()} diagnose {_quoted(folder)}"]
    display.say("\n".join(["", *results, "", "next:", *commands]))


def end_interrupted(run: Run, recorder: Recorder, display: Display) -> None:
    """Leaves a mark and says how to resume; neither if only the report of a complete run is missing."""
    folder, yolofast = recorder.folder, own_command()
    if recorder.is_complete(run.config.epochs):
        display.insist(f"interrupted; the run is complete. To make its report: {yolofast} report {_quoted(folder)}")
        return
    mark_stopped(run, recorder)
    resume = resume_command(folder)
    is_saved = run_to_resume(str(folder), folder.parent).checkpoint is not None
    again = f"nothing was saved yet. To start again: the same command, or {resume} for the same folder"
    display.insist(f"interrupted; {f'to resume: {resume}' if is_saved else again}")


def end_paused(run: Run, trainer: Trainer, display: Display) -> None:
    """As if it had been interrupted between two epochs, which somebody had planned."""
    config, course, folder = run.config, trainer.course, trainer.recorder.folder
    report_so_far(run, trainer, display)
    trainer.recorder.interrupted(course.paused)
    after = f"paused after epoch {trainer.progress.epoch} of {config.epochs} ({course.why(config)})"
    display.insist(f"{after}; to resume: {resume_command(folder)}")


def mark_stopped(run: Run, recorder: Recorder) -> None:
    """So that nobody takes it for a running one."""
    if not recorder.is_complete(run.config.epochs):
        with suppress(OSError):  # the run is none the worse without
            recorder.interrupted()


def is_paused_for_time(folder: Path) -> bool:
    return RunFolder(folder).entries(FILES.interrupted).get("paused") == TIME_LIMIT


def resume_command(folder: Path) -> str:
    return f"{own_command()} train --resume {_quoted(folder)}"


def report_so_far(run: Run, trainer: Trainer, display: Display) -> None:
    """Of an interrupted run, if it has something to report. Another interrupt ends it at once."""
    folder, found = trainer.recorder.folder, trainer.best_found
    if not trainer.progress.rows or trainer.recorder.is_complete(run.config.epochs):
        return
    if run.config.plots and found is not None:
        with display.doing("drawing"):
            _draw_worst(run, trainer, folder, found)
    _leave_report(run, trainer)


def nothing_left(config: TrainConfig, folder: Path) -> str:
    """Of a run that is resumed after its last epoch."""
    command = f"{resume_command(folder)} --epochs {2 * config.epochs}"
    return f"the run has all its {counted(config.epochs, 'epoch')}: only its end is made again; to continue: {command}"


def _evaluate_again(run: Run, trainer: Trainer, best: Path) -> None:
    detector = ImageDetector(best, device=str(run.step.precision.device))
    trainer.best_found = run.evaluation.of_all_ranks(detector.predictor.models[0], trainer.progress.saved_epoch)


def _draw_best(run: Run, trainer: Trainer, best: Path) -> None:
    """Of what is in the file, read as a user would read it."""
    index, found = run.data.val, trainer.best_found
    detector = ImageDetector(best, device=str(run.step.precision.device))
    if found is not None:
        trainer.pictures.scores(found)
        _draw_worst(run, trainer, best.parent.parent, found)
    trainer.pictures.validation(detector, run.evaluation.batches, index)
    trainer.pictures.predictions(detector, index, telling_confidence(found))


def _leave_report(run: Run, trainer: Trainer) -> None:
    from yolofast.report.run.run_page import leave_report

    leave_report(trainer.recorder.folder, trainer.best_found, run.data.val.names, trainer.display.say)


def _draw_worst(run: Run, trainer: Trainer, folder: Path, found: Evaluated) -> None:
    from yolofast.report.run.evaluation_files import save_samples

    trainer.pictures.attempt("the worst misses", lambda: save_samples(folder, run.data.val, found.faults, found.epoch))


def _why_useless(run: Run, progress: Progress) -> str:
    """Where the losses of the best epoch say that the run had diverged; empty if they do not."""
    lost = zip(progress.rows, lost_rows(progress.rows, run.config.epochs), strict=True)
    return next((why for row, why in lost if row[EPOCH.name] == progress.best_epoch), "")


def _results(summary: dict[str, Any], folder: Path, best_is_saved: bool) -> list[str]:
    """`best_is_saved`: `best.pt` has the best weights; with `--nosave` they are the last epoch's."""
    epochs, speed = summary["epochs"], summary["images_per_second"]
    lines = [f"trained {counted(epochs, 'epoch')} in {clock(summary['train_seconds'])}, {speed:,.0f} img/s"]
    if best := summary["best"]:
        scores = ", ".join(f"{one.title} {best[one.name]:.3f}" for one in (MAP50, MAP))
        where = str(folder / FILES.weights / FILES.best)
        where = where if best_is_saved else f"its weights were not saved, those in {where} are the last epoch's"
        lines.append(f"best: epoch {summary['best_epoch']}, {scores}; {where}")
    shown = [str(folder / name) for name in _WORTH_A_LOOK if (folder / name).exists()]
    return [*lines, f"look at: {', '.join(shown)}"]


def _commands(run: Run, progress: Progress, weights: Path) -> list[str]:
    commands, config, yolofast, best = [], run.config, own_command(), weights / FILES.best
    if best.exists():
        more = run.rules.val_flags + (" --single-cls" if config.single_cls else "")
        commands.append(f"  {yolofast} val --weights {_quoted(best)} --data {_quoted(config.data)}{more}")
        images = run.data.val.path(0).parent
        if images.is_dir():  # not one in a tar file
            commands.append(f"  {yolofast} predict --weights {_quoted(best)} --source {_quoted(images)}")
    if (weights / FILES.last).exists() and config.max_steps is None:
        command = f"  {resume_command(weights.parent)}"
        longer = f"{command} --epochs {2 * config.epochs}"
        in_phases = len(run.phases.plan.phases) > 1
        longer += "  # the plan's last phase continues" if in_phases else ""
        if progress.epoch < config.epochs:  # stopped early: by `on_epoch`, or where more epochs would not be begun
            longer = f"{command} --patience {2 * config.patience}" if config.patience else command
        commands.append(longer)
    return commands


def _quoted(path: str | Path) -> str:
    return shlex.quote(str(path))
