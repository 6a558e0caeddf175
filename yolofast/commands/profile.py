"""`yolofast profile`: where the time of a training step goes, what limits it, and what to change."""

import argparse
import json
import os
import shlex
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

from rich.console import Console

from yolofast.config.flags import from_args, given_settings
from yolofast.config.reports import ProfileConfig
from yolofast.config.train import TrainConfig, demonstration, is_demonstration
from yolofast.errors import UserError
from yolofast.files.atomic_file import write_whole
from yolofast.files.own_file import refuse_foreign, refuse_other_than_trace
from yolofast.profile.bottlenecks import verdicts
from yolofast.profile.measure.meter import (
    LEAST_BLOCKS,
    STEPS_PER_BLOCK,
    Against,
    MeasureRequest,
    Say,
    profile_against,
    profile_run,
)
from yolofast.profile.measure.start_up import StartUp, measure_starts, startup_json, startup_line, startup_rows
from yolofast.profile.output import comparison_json, phase_rows, profile_json, title, usage_rows, verdict_lines
from yolofast.profile.records import Profile
from yolofast.profile.step_statistics import in_words
from yolofast.runs.layout import FILES
from yolofast.terminal.console import console, table
from yolofast.terminal.escaping import SafeConsole
from yolofast.train.explain.against import second_configuration
from yolofast.train.fitting_batch import with_fitting_batch
from yolofast.train.gears.compiling import compile_request
from yolofast.train.guard import fix_if_memory_runs_out, refuse_several_runs
from yolofast.train.resume import beginning
from yolofast.train.run import Run, prepare_run
from yolofast.words import counted

_MADE_BY = "yolofast profile"


def run(args: argparse.Namespace) -> None:
    profile = from_args(ProfileConfig, args)
    request = MeasureRequest(
        steps=profile.steps,
        warm_up=profile.warm_up,
        epoch=None if profile.at_epoch is None else profile.at_epoch - 1,
        trace=None if profile.trace is None else _writable(Path(profile.trace)),
        with_compile_report=profile.compile_report or compile_request("auto").diagnose,
    )
    if request.trace is not None:
        refuse_other_than_trace(request.trace)
    files = [_writable(Path(profile.json))] if profile.json not in (None, "-") else []
    for path in files:
        refuse_foreign(path, _MADE_BY)
    files += [_file_in(Path(profile.output))] if profile.output else []
    # What --json prints has to be read by a program.
    out = SafeConsole(stderr=True, highlight=False, markup=False, soft_wrap=True) if profile.json == "-" else console()
    given = given_settings(TrainConfig, args)
    typed = from_args(TrainConfig, args)
    typed = demonstration(typed) if is_demonstration(given) else typed
    config = _configured(typed, given)
    if profile.startup:
        _refuse_with_startup(profile, typed)
        starts = measure_starts(args.words)
        _deliver(out, profile, files, startup_json(starts), lambda: _print_starts(out, starts))
        return
    if typed.against is None:
        with closing(_prepared(config, request, out.print)) as run, _enough_memory():
            found: Profile | Against = profile_run(run, request, out.print)
    else:
        second, given = second_configuration(typed, given, "yolofast profile")
        found = _against(config, _configured(second, given), request, out.print)
    _deliver(out, profile, files, _as_json(found), lambda: _print(out, found), request.trace)


def _deliver(
    out: Console, profile: ProfileConfig, files: list[Path], content: dict[str, Any], show: Callable[[], None],
    trace: Path | None = None,
) -> None:  # fmt: skip
    """As JSON where that was asked for, else as text."""
    text = json.dumps({"made_by": _MADE_BY, **content}, indent=2)
    for path in files:
        path.parent.mkdir(exist_ok=True)  # the folder of --output
        write_whole(path, text.encode())
    if profile.json == "-":
        print(text)
        return
    show()
    for path in (*files, *([trace] if trace else [])):
        out.print(f"written: {path}", soft_wrap=True)


def _refuse_with_startup(profile: ProfileConfig, config: TrainConfig) -> None:
    asked = {"--against": config.against, "--trace": profile.trace, "--at-epoch": profile.at_epoch}
    asked["--compile-report"] = profile.compile_report or None
    for flag in [flag for flag, value in asked.items() if value is not None]:
        raise UserError(f"{flag} is of the step, and --startup measures the start", fix=f"omit {flag}, or --startup")


def _print_starts(out: Console, starts: tuple[StartUp, ...]) -> None:
    rows = table("stage", ">begins s", ">first s", ">again s")
    for row in startup_rows(starts):
        rows.add_row(*row)
    out.print(rows)
    out.print(f"\n{startup_line(starts)}", soft_wrap=True)


def _file_in(folder: Path) -> Path:
    """Of `--output`."""
    if folder.exists() and not folder.is_dir():
        raise UserError("is not a folder", where=folder, fix=f"name a folder, for {FILES.profile} in it")
    path = _writable(folder / FILES.profile) if folder.exists() else _writable(folder) / FILES.profile
    # That of a training is its own, and made of far more steps.
    refuse_foreign(path, _MADE_BY, "name another folder, or remove that file")
    return path


def _writable(path: Path) -> Path:
    """Asked before minutes are spent on measuring. Folders above are not made: they may be mistyped."""
    if not path.parent.is_dir():
        fix = f"mkdir -p {shlex.quote(str(path.parent))}"
        raise UserError("cannot be written: there is no such folder", where=path, fix=fix)
    if (path.exists() and not path.is_file()) or not os.access(path.parent, os.W_OK):
        raise UserError("cannot be written", where=path, fix="name a place in a folder of yours")
    return path


def _configured(config: TrainConfig, given: dict[str, Any]) -> TrainConfig:
    """As `train` understands it."""
    if config.resume:
        raise UserError("--resume: a profile starts from settings, not from a run", fix="give the flags of that run")
    if len(config.devices) > 1:
        raise UserError(f"--device {config.device}: one GPU is profiled", fix=f"--device {config.devices[0]}")
    refuse_several_runs(config)
    return beginning(config, given).config


def _prepared(config: TrainConfig, request: MeasureRequest, say: Say) -> Run:
    if request.epoch is not None and request.epoch >= config.epochs:
        text = f"--at-epoch {request.epoch + 1}: the run has {counted(config.epochs, 'epoch')}"
        raise UserError(text, fix=f"give an epoch from 1 to {config.epochs}, or more --epochs")
    config = with_fitting_batch(config, say)
    with fix_if_memory_runs_out("before anything was measured", "a smaller --batch-size, or --cache ram"):
        return prepare_run(config, say)


def _against(config: TrainConfig, other: TrainConfig, request: MeasureRequest, say: Say) -> Against:
    say(f"first: as given; second: with {config.against}")
    steps = max(request.steps // STEPS_PER_BLOCK, LEAST_BLOCKS) * STEPS_PER_BLOCK
    if steps != request.steps:
        blocks = f"blocks of {STEPS_PER_BLOCK}, {LEAST_BLOCKS} of each at least"
        say(f"--steps {request.steps}: {steps} of each, because they are measured in turn, in {blocks}")
    with (
        closing(_prepared(config, request, say)) as first,
        closing(_prepared(other, request, say)) as second,
        _enough_memory(),
    ):
        return profile_against(first, second, request, say)


def _enough_memory() -> AbstractContextManager[None]:
    return fix_if_memory_runs_out("while measuring", "a smaller --batch-size")


def _as_json(found: Profile | Against) -> dict[str, Any]:
    if isinstance(found, Profile):
        return profile_json(found)
    second, comparison = profile_json(found.second), comparison_json(found.comparison)
    return {**profile_json(found.first), "against": second, "comparison": comparison}


def _print(out: Console, found: Profile | Against) -> None:
    if isinstance(found, Profile):
        _print_profile(out, found)
        return
    for name, profile in (("first", found.first), ("second", found.second)):
        out.print(f"\n{name}")
        _print_profile(out, profile)
    out.print(f"\n{in_words(found.comparison)}")


def _print_profile(out: Console, profile: Profile) -> None:
    out.print(f"\n{title(profile.setup)}", soft_wrap=True)
    rows = table("phase", ">ms", ">share", "")
    for row in phase_rows(profile):
        rows.add_row(*row)
    out.print(rows)
    out.print(f"phases by {profile.measured_by}" + (f"; parts by {profile.split_by}" if profile.split else "") + "\n")
    for name, text in usage_rows(profile):
        out.print(f"{name:<18} {text}", soft_wrap=True)
    for verdict in verdicts(profile):
        out.print()
        for line in verdict_lines(verdict):
            out.print(line, soft_wrap=True)
    if profile.compile_report:
        out.print(f"\n{profile.compile_report}", soft_wrap=True)
