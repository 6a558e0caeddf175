"""A run of `motion train`: how it begins, anew or resumed, and how it ends.

Its folder, records and report are those of a detector's run, written by the same code.
"""

import dataclasses
import json
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch

from yolofast.checkpoint.foreign import FORMAT, VERSION
from yolofast.checkpoint.save import save_checkpoint
from yolofast.config.flags import from_settings
from yolofast.config.motion import MotionTrainConfig
from yolofast.config.resumed import as_text, changed, from_yaml, to_yaml
from yolofast.config.settings import in_form
from yolofast.errors import UserError, in_one_line
from yolofast.evaluate.drawing import draw_course
from yolofast.files.atomic_file import write_whole
from yolofast.motion.training.horizons import SIMPLE, as_json, judged, learned, questions
from yolofast.motion.training.samples import Samples, TrackAugmentation
from yolofast.motion.training.step import MotionStep
from yolofast.motion.training.tracks import read_split
from yolofast.motion.training.trainer import MotionTrainer, MotionValidation, progress_of
from yolofast.motion.weights import model_of, read_motion, stated
from yolofast.precision import device_of
from yolofast.report.run.run_page import leave_report
from yolofast.runs.folder import RunLock, forget_earlier_run, new_run_folder
from yolofast.runs.layout import FILES, MOTION_HORIZONS, MOTION_METRICS
from yolofast.train.checkpoints import Checkpoints, is_whole, read_state
from yolofast.train.display import Display
from yolofast.train.record import Recorder, summary_of
from yolofast.train.resume import run_to_resume
from yolofast.words import clock, counted, own_command

NAME = "TrackSSM"


class _Beginning(NamedTuple):
    config: MotionTrainConfig
    folder: Path | None = None
    state: dict[str, Any] | None = None
    note: str = ""


def train_motion(config: MotionTrainConfig, given: Mapping[str, Any]) -> Path:
    """Trains as configured; `given` is what the user typed, which a resumed run checks. Returns the run's folder."""
    with RunLock() as lock:
        return _train(_beginning(config, given, lock), lock)


def _train(begun: _Beginning, lock: RunLock) -> Path:
    config, display = begun.config, Display(begun.config.epochs)
    if begun.note:
        display.say(begun.note)
    device = device_of(config.device)
    trained, validation, words = _built(config, device)
    for word in words:
        display.say(word)
    folder = begun.folder
    if folder is None:
        files = {FILES.settings: as_text(_with_absolute_paths(config)).encode()}
        folder = new_run_folder(config.project, config.name, config.exist_ok, files, lock.take)
        forget_earlier_run(folder)
    else:
        to_yaml(_with_absolute_paths(config), folder / FILES.settings)
    if begun.state is not None:
        _restore(trained, begun.state, display)
    progress = progress_of(begun.state)
    display.folder = folder
    display.say(f"run: {folder}{_resumes(progress.epoch, config.epochs, folder) if begun.state is not None else ''}")
    recorder = Recorder(folder, progress.rows)
    recorder.environment()
    (folder / FILES.interrupted).unlink(missing_ok=True)
    trainer = MotionTrainer(
        config=_with_absolute_paths(config), step=trained, validation=validation,
        checkpoints=Checkpoints(folder / FILES.weights), recorder=recorder, display=display, progress=progress,
    )  # fmt: skip
    started = time.monotonic()
    try:
        with _products(config):
            trainer.fit()
            _finish(trainer, folder, time.monotonic() - started)
    except KeyboardInterrupt:
        with suppress(OSError):  # the run is none the worse without
            recorder.interrupted()
        display.insist(f"interrupted; to resume: {own_command()} motion train --resume {shlex.quote(str(folder))}")
        raise
    return folder


def _beginning(config: MotionTrainConfig, given: Mapping[str, Any], lock: RunLock) -> _Beginning:
    if not config.resume:
        return _Beginning(config)
    run = run_to_resume(config.resume, config.project)
    lock.take(run.folder)
    changes = {name: in_form(MotionTrainConfig, name, value) for name, value in given.items() if name != "resume"}
    if Path(config.project).resolve() == run.folder.resolve().parent:
        changes.pop("project", None)
    for name in ("data", "val", "weights"):  # by whichever path
        if changes.get(name):
            changes[name] = str(Path(changes[name]).absolute())
    if run.checkpoint is None:
        stored = changed(from_yaml(MotionTrainConfig, run.folder / FILES.settings), changes)
        note = f"nothing of {run.folder} was saved before it stopped: it starts again, with the same settings"
        return _Beginning(dataclasses.replace(stored, resume=False), run.folder, None, note)
    state, warning = read_state(run.checkpoint)
    if "motion" not in state:
        raise UserError("this is the run of a detector", where=run.folder, fix=f"{own_command()} train --resume")
    stored = changed(from_settings(MotionTrainConfig, state["config"]), changes)
    return _Beginning(stored, run.folder, state, f"warning: {warning}" if warning else "")


def _built(config: MotionTrainConfig, device: torch.device) -> tuple[MotionStep, MotionValidation, list[str]]:
    split = read_split(config.data, config.val or None, faithful=config.faithful)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        model = model_of(config).to(device)
    shape = model.shape
    samples = Samples(split.train, shape, ignore_gaps=config.faithful)
    held = Samples(split.val, shape, ignore_gaps=config.faithful)
    asked = questions(split.val, config.val_samples)
    what = "no track is seen in seven frames in a row, of which a sample is made"
    if not len(held) or not len(asked.last):  # a comparison begins with five boxes, also where shorter ones are learnt
        what += ", in what is validated on" if len(samples) else ""
        raise UserError(what, where=config.val or config.data, fix="give longer tracks, or others with --val")
    if not len(samples):
        raise UserError(what, where=config.data, fix="give sequences with longer tracks, or --true-padding")
    augmentation = TrackAugmentation(jitter=config.jitter, dropout=config.dropout, time_scale=config.time_scale)
    step = MotionStep(model, samples.to(device), augmentation, giou=config.giou, seed=config.seed)
    words = [
        f"{NAME}, {counted(shape.blocks, 'block')}, {sum(p.numel() for p in model.parameters()):,} parameters",
        f"{counted(len(split.train.starts) - 1, 'track')}, {counted(len(samples), 'sample')}; {split.about}",
    ]
    return step, MotionValidation(held.to(device), asked, config.val_samples), words


def _restore(step: MotionStep, state: dict[str, Any], display: Display) -> None:
    try:
        step.model.load_state_dict(state["model"])
        step.load_state_dict(state["step"])
    except (LookupError, TypeError, AttributeError, RuntimeError, ValueError, ArithmeticError) as error:
        what = f"the state does not fit the run: {in_one_line(error)}"
        raise UserError(what, fix="start a new run with --weights last.pt") from error
    if (before := state.get("samples")) != len(step.samples) and is_whole(before, 0):
        display.say(f"warning: there are {len(step.samples):,} samples, the run began with {before:,}")


def _resumes(epoch: int, epochs: int, folder: Path) -> str:
    if epoch < epochs:
        return f", resumes with epoch {epoch + 1} of {epochs}"
    command = f"{own_command()} motion train --resume {shlex.quote(str(folder))} --epochs {2 * epochs}"
    return f", has all its {counted(epochs, 'epoch')}: only its end is made again; to continue: {command}"


@contextmanager
def _products(config: MotionTrainConfig) -> Iterator[None]:
    """TF32 for products of float32 on a GPU, while a run lasts."""
    how, before = torch.backends.cuda.matmul, torch.backends.cuda.matmul.allow_tf32
    wanted = config.precision == "tf32" or (config.precision == "auto" and not config.faithful)
    if wanted == before:
        yield
        return
    how.allow_tf32 = wanted
    try:
        yield
    finally:
        how.allow_tf32 = before


def _finish(trainer: MotionTrainer, folder: Path, seconds: float) -> None:
    progress, display, step = trainer.progress, trainer.display, trainer.step
    best = folder / FILES.weights / FILES.best
    model = read_motion(best)
    content = {"format": FORMAT, "version": VERSION, "model": model.state_dict(), "motion": stated(model.shape)}
    save_checkpoint(best, {**content, "epoch": progress.best_epoch})
    asked = trainer.validation.asked
    methods = {NAME: learned(model.to(step.device)), **SIMPLE}
    figures = as_json(asked, judged(asked, methods, max(MOTION_HORIZONS)), MOTION_HORIZONS)
    write_whole(folder / FILES.motion, (json.dumps(figures, indent=1) + "\n").encode())
    if trainer.config.plots:
        try:
            draw_course(folder / FILES.curves, progress.rows)
        except Exception as error:  # noqa: BLE001 - no picture is worth a run
            display.say(f"warning: {FILES.curves} could not be drawn: {type(error).__name__}: {error}")
    summary = summary_of(progress.rows, progress.best_epoch, seconds)
    trainer.recorder.summary(summary)
    leave_report(folder, None, (), display.say)
    trainer.recorder.close(complete=True)
    pace = f"{summary['images_per_second']:,.0f} samples/s"
    found = (summary["best"][one.name] for one in MOTION_METRICS)
    overlaps = ", ".join("–" if one is None else f"{one:.3f}" for one in found)  # where no run is so long
    where, data = shlex.quote(str(best)), shlex.quote(trainer.config.val or trainer.config.data)
    frames = ", ".join(map(str, MOTION_HORIZONS))
    learnt = "" if trainer.config.val else "  # most of it was learnt from: others tell more"
    display.say(
        f"\ntrained {counted(summary['epochs'], 'epoch')} in {clock(summary['train_seconds'])}, {pace}\n"
        f"best: epoch {summary['best_epoch']}, IoU after {frames} frames {overlaps}; {best}\n"
        f"look at: {folder / FILES.report}\n\nnext:\n"
        f"  {own_command()} motion val --weights {where} --data {data}{learnt}\n"
        f"  {own_command()} track --source VIDEO --tracker bytetrack --track motion=trackssm motion_weights={where}"
    )


def _with_absolute_paths(config: MotionTrainConfig) -> MotionTrainConfig:
    """As a run stores it, so that it is resumed from any folder."""
    names = {name: getattr(config, name) for name in ("data", "val", "weights")}
    changes: dict[str, Any] = {name: str(Path(path).absolute()) for name, path in names.items() if path}
    return dataclasses.replace(config, **changes)
