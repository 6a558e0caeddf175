"""A run of training from its settings to its last checkpoint: what `yolofast train` and `Detector.train` call."""

import dataclasses
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

from yolofast.config.resumed import as_text, check_same_classes, saved_config, to_yaml, with_lasting_names
from yolofast.config.train import TrainConfig
from yolofast.errors import UserError, in_one_line
from yolofast.exit_codes import call
from yolofast.ranks import is_first, world
from yolofast.runs.folder import RunLock, forget_earlier_run, new_run_folder
from yolofast.runs.layout import FILES
from yolofast.train.batch_record import BatchRecord, recorded_phases
from yolofast.train.checkpoints import Checkpoints
from yolofast.train.display import Display, quiet_display
from yolofast.train.distributed.join import (
    RankPlace,
    check_devices,
    device_of_rank,
    from_first_rank,
    joined,
    meet_again,
)
from yolofast.train.distributed.launch import Report, launch
from yolofast.train.distributed.restart import after_restart, remember_run
from yolofast.train.finish import (
    end_interrupted,
    end_paused,
    finish_run,
    import_for_the_end,
    mark_stopped,
    nothing_left,
    report_so_far,
    resume_command,
)
from yolofast.train.fitting_batch import with_fitting_batch, with_smaller_batch
from yolofast.train.gears.compiling import compile_report, compile_request
from yolofast.train.gears.gear_box import GearBox
from yolofast.train.guard import (
    Course,
    EpochOutOfMemoryError,
    OnEpoch,
    clean_end_if_device_is_lost,
    fix_if_memory_runs_out,
    refuse_several_devices,
    refuse_several_runs,
)
from yolofast.train.loggers.delivery import LoggerDelivery, choose_loggers
from yolofast.train.loggers.logger import LoggedRun, LoggerRequest
from yolofast.train.loop import Progress, Trainer, gear_of
from yolofast.train.record import NoRecorder, Recorder
from yolofast.train.resume import Beginning, beginning, copies_used, other_data, own_copies, write_copies
from yolofast.train.run import Run, prepare_run
from yolofast.train.run_pictures import RunPictures


def train(config: TrainConfig, given: dict[str, Any], on_epoch: OnEpoch | None = None) -> Path:
    """Trains as configured; `given` is what the user typed, which a resumed run checks. Returns the run's folder.

    One of the processes a launcher has started trains its part; `--device 0,1` starts one for each GPU.
    """
    refuse_several_runs(config)
    course = Course(on_epoch)
    with RunLock() as lock:
        if RankPlace.of_environment().is_launched:
            with joined(device_of_rank(config.device)):
                again = after_restart(config, {"device": config.device, **given})
                return _run(from_first_rank(lambda: beginning(*again, lock.take)), lock, course)
        begun = beginning(config, given, lock.take)
        if len(begun.config.devices) < 2:
            return _run(begun, lock, course)
        refuse_several_devices(begun.config, on_epoch)
    device = check_devices(begun.config)
    return Path(launch(_train_as_rank, (dataclasses.replace(config, device=device), given), len(device.split(","))))


def _train_as_rank(report: Report, config: TrainConfig, given: dict[str, Any]) -> int:
    return call(lambda: report(str(train(config, given))))


def _run(begun: Beginning, lock: RunLock, course: Course) -> Path:
    config, _, state, hyp, note, plan, _ = begun
    display = Display(config.epochs) if is_first() else quiet_display(config.epochs)
    if note:
        display.say(note)
    if config.batch_size == -1:
        config = with_fitting_batch(config, display.say)
    findable = begun._replace(config=config).findable
    for word in copies_used(config, findable):
        display.say(word)
    with fix_if_memory_runs_out("before training began", "make room on the GPU (nvidia-smi), or --cache ram"):
        built = prepare_run(findable, display.say, fresh=state is None, plan=plan)
    # What is written down names the files the run was started with.
    run = dataclasses.replace(built, config=dataclasses.replace(config, img_size=built.config.img_size))
    if state is not None:
        check_same_classes(state["names"], run.data.train.names, config.data)
    if is_first() and begun.folder is not None:
        for word in other_data(begun.folder, state, run.records, config.data):
            display.say(word)
    if hyp is not None:
        run.rules.check_same(hyp)
    if compile_request(config.gear).diagnose:
        return _diagnose_compiling(run, display)
    with clean_end_if_device_is_lost(lambda: resume_command(display.folder or Path())):
        if is_first():
            folder, ran_out = _lead(run, begun, lock, course, display)
        else:
            folder, ran_out = _follow(run, state, course, display)
    if ran_out is not None:
        del run, built  # and with them what they hold on the device
        if config.reduce_batch:
            meet_again()
        smaller = with_smaller_batch(config, display.say)
        again = Beginning(smaller, folder, ran_out, plan=plan, checkpoint=begun.checkpoint)
        return _run(from_first_rank(lambda: again), lock, course)
    return folder


def _lead(
    run: Run, begun: Beginning, lock: RunLock, course: Course, display: Display
) -> tuple[Path, dict[str, Any] | None]:
    """What the first rank does, who writes. Its folder, and the state to continue from if memory ran out.

    An interrupt leaves its mark from the moment the folder has changed.
    """
    state, folder, trainer = begun.state, begun.folder, None
    try:
        folder = _folder_with_settings(run, folder, lock)  # only now: a run that cannot start leaves nothing behind
        if world() > 1:
            remember_run(folder)
        trainer = _ready_trainer(run, folder, state, course, display)
        started = time.monotonic()
        if state is None:
            trainer.pictures.labels(run.data.train)
        trainer.fit()
        if course.paused:
            end_paused(run, trainer, display)
        else:
            finish_run(run, trainer, folder, display, started)
    except EpochOutOfMemoryError as error:
        assert folder is not None and trainer is not None
        mark_stopped(run, trainer.recorder)  # until it continues
        return folder, error.state
    except KeyboardInterrupt:
        if folder is not None:
            rows = [] if state is None else state["rows"]
            end_interrupted(run, Recorder(folder, rows) if trainer is None else trainer.recorder, display)
        if trainer is not None:
            report_so_far(run, trainer, display)
        raise
    except Exception:
        if trainer is not None:
            mark_stopped(run, trainer.recorder)
        raise
    finally:
        if trainer is not None and isinstance(trainer.gear, GearBox):
            trainer.gear.close()
        run.close()
        if trainer is not None:
            trainer.pictures.close()
            trainer.recorder.close()
    return folder, None


def _ready_trainer(run: Run, folder: Path, state: dict[str, Any] | None, course: Course, display: Display) -> Trainer:
    config, display.folder = run.config, folder
    if state is None:
        forget_earlier_run(folder)
    progress = _restore(run, state) if state else Progress()
    resumes = f", resumes with epoch {progress.epoch + 1} of {config.epochs}"
    display.say(f"run: {folder}{resumes if 0 < progress.epoch < config.epochs else ''}")
    if progress.epoch >= config.epochs:
        display.say(nothing_left(config, folder))
    trainer = _trainer(run, folder, progress, course, display)
    trainer.recorder.environment(run.network_facts)
    (folder / FILES.interrupted).unlink(missing_ok=True)  # last: until here an error leaves the run stopped, as it was
    return trainer


def _folder_with_settings(run: Run, folder: Path | None, lock: RunLock) -> Path:
    """A new folder has its settings from the moment it appears, so that a run can be resumed at any."""
    config = with_lasting_names(run.config)
    if folder is None:
        files = {FILES.settings: as_text(config).encode(), **own_copies(config, run.hyp, run.records)}
        return new_run_folder(config.project, config.name, config.exist_ok, files, lock.take)
    to_yaml(config, folder / FILES.settings)
    write_copies(run.hyp, run.records, folder)
    return folder


def _diagnose_compiling(run: Run, display: Display) -> Path:
    """Instead of training: what would be compiled."""
    run.start_epoch(0)
    batch = run.step.on_device(next(run.batches.epoch(0)))
    display.say(compile_report(run.step, batch))
    run.close()
    return Path()


def _follow(
    run: Run, state: dict[str, Any] | None, course: Course, display: Display
) -> tuple[Path, dict[str, Any] | None]:
    """What ranks after the first do, as `_lead`; they have no folder."""
    trainer = None
    try:
        trainer = _trainer(run, None, _restore(run, state) if state else Progress(), course, display)
        trainer.fit()
    except EpochOutOfMemoryError as error:
        return Path(), error.state
    finally:
        if trainer is not None and isinstance(trainer.gear, GearBox):
            trainer.gear.close()
        run.close()
    return Path(), None


def _restore(run: Run, state: dict[str, Any]) -> Progress:
    try:
        run.model.load_state_dict(state["model"])
    except RuntimeError as error:
        what = "the network is not the one the run has trained"
        fix = "restore the file, or start a new run with --weights last.pt"
        raise UserError(what, where=run.config.cfg or None, fix=fix) from error
    try:
        run.step.ema.model.load_state_dict(state["ema"])
        run.load_state_dict(state["run"])
        run.step.load_state_dict(state["step"])
    except (LookupError, TypeError, AttributeError, RuntimeError, ValueError, ArithmeticError) as error:
        if isinstance(error, UserError):
            raise
        what = f"the state does not fit the run: {in_one_line(error)}"
        raise UserError(what, fix="start a new run with --weights last.pt") from error
    names = ("best_fitness", "best_epoch", "lr_factor", "rows")
    saved = state.get("kept_epoch", state["best_epoch"])  # older checkpoints do not say
    return Progress(epoch=state["next_epoch"], saved_epoch=saved, **{name: state[name] for name in names})


def _trainer(run: Run, folder: Path | None, progress: Progress, course: Course, display: Display) -> Trainer:
    """Without a folder nothing is written: another rank does that."""
    config = run.config
    end = min(config.epochs, config.until_epoch or config.epochs)
    gear = gear_of(run, max(end - progress.epoch, 0) * len(run.batches), display.say)
    recorder = NoRecorder() if folder is None else _recorder(run, folder, progress, display)
    pictures = RunPictures(
        folder if config.plots else None, run.data.val.names, run.model.inputs, display.say,
        apart=run.step.precision.device.type == "cuda",
    )  # fmt: skip
    return Trainer(
        run=run,
        gear=gear,
        checkpoints=None if folder is None else Checkpoints(folder / FILES.weights),
        recorder=recorder,
        display=display,
        progress=progress,
        pictures=pictures,
        course=course,
        meanwhile=(lambda: None) if folder is None else partial(import_for_the_end, run),
        batch_record=None if folder is None else BatchRecord(run.step, len(run.batches), folder, progress.epoch),
        sampler=recorded_phases(run, gear, folder, progress.epoch),
    )


def _recorder(run: Run, folder: Path, progress: Progress, display: Display) -> Recorder:
    logged = LoggedRun(folder=folder, settings={**saved_config(run.config), "hyp": run.hyp}, next_epoch=progress.epoch)
    splits = run.data.train, run.data.val
    request = LoggerRequest(config=run.config, splits=splits, environment=os.environ, say=display.say)
    return Recorder(folder, progress.rows, LoggerDelivery(choose_loggers(request), logged, display.say))
