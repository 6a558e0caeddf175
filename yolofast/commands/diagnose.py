"""`yolofast diagnose`: why a loss does what it does, what to change, and which epoch to ship."""

import argparse
import json
import math
from pathlib import Path

from rich.console import Console
from rich.table import Table

from yolofast.config.flags import from_args
from yolofast.config.reports import DiagnoseConfig
from yolofast.errors import UserError
from yolofast.files.atomic_file import write_output
from yolofast.report.diagnose.diagnosis import Diagnosis, as_json, diagnose, not_recorded
from yolofast.report.diagnose.diagnosis_picture import diagnosis_picture
from yolofast.report.diagnose.dialect import how_to_apply, planned_epochs
from yolofast.report.diagnose.fluctuation import LEAST
from yolofast.report.diagnose.ship import shipped
from yolofast.report.diagnose.statistics import calmness
from yolofast.report.diagnose.verdicts import LEAST_STD
from yolofast.report.logs.history import History
from yolofast.report.logs.read_run import read_history
from yolofast.runs.layout import FILES
from yolofast.terminal.console import console, folded, table
from yolofast.words import counted

_SHARES = {
    "mix": "mosaic and mixup",
    "image_size": "image size (multi-scale)",
    "boxes": "boxes",
    "period": "a period",
    "learning_rate": "learning rate",
    "wandering": "other wandering",
    "rest": "the rest",
}
_NOTHING = 0.005


def run(args: argparse.Namespace) -> None:
    config = from_args(DiagnoseConfig, args)
    found = diagnose(read_history(Path(config.run_or_log)))
    if config.plot is not None:
        if Path(config.plot).suffix.lower() != ".png":
            raise UserError(f"--plot is {config.plot}", fix="name a picture that ends in .png")
        write_output(config.plot, diagnosis_picture(found))
    if config.json:
        print(json.dumps(as_json(found), indent=2))
        return
    out = console()
    _print_phases(out, found)
    _print_fluctuation(out, found)
    _print_verdicts(out, found)
    if found.ships_nothing:
        out.print(f"ship: nothing, {found.ships_nothing}")
    if found.choice is not None:
        words, file = shipped(found.choice, Path(found.history.source) / FILES.weights)
        out.print(f"ship: {found.history.epochs.unit} {words}", soft_wrap=True)
        if file is not None:
            out.print(f"weights: {file}", soft_wrap=True)
    for line in () if found.history.tracking is None else found.history.tracking.words():
        out.print(f"tracking: {line}", soft_wrap=True)
    if config.plot is not None:
        out.print(f"picture: {config.plot}", soft_wrap=True)


def _print_phases(out: Console, found: Diagnosis) -> None:
    history = found.history
    losses = len(history.finest[0])
    values = f"{losses:,} loss{'es' * (losses != 1)}, one per {found.unit}"
    out.print(f"{history.source}: {history.format}, {_length(history)}, {values}", soft_wrap=True)
    for remark in found.remarks:
        out.print(f"note: {remark}")
    out.print(_phase_table(found))


def _phase_table(found: Diagnosis) -> Table:
    noise, calm = f"noise per {found.unit}", f"{found.unit} to {found.unit}"
    norm = [] if all(math.isnan(report.gradient_norm) for report in found.phases) else ["gradient norm"]
    numbers = ["mean", "std", "CV", "trend", noise, "drift", *norm]
    listing = table(f"{found.history.epochs.unit}s", "begins with", *(f">{name}" for name in numbers), calm)
    for report in found.phases:
        curve = report.curve
        begins = report.phase.starts_with + ", warm-up" * report.phase.warms_up
        level = (f"{curve.mean:.4g}", f"{curve.std:.3g}", f"{curve.cv:.1%}", f"{curve.trend:+.1%}")
        spread = [f"{curve.noise:.3g}", f"{curve.drift_share:.0%}"]
        spread += ["" if math.isnan(report.gradient_norm) else f"{report.gradient_norm:.3g}"] * len(norm)
        relative = calmness(curve.noise / abs(curve.mean or 1)) if curve.values > 1 else ""
        reach = "-".join(str(end) for end in dict.fromkeys([report.phase.first, report.phase.last]))
        listing.add_row(reach, begins, *level, *spread, relative)
    return folded(listing)


def _length(history: History) -> str:
    """With the planned length of a run that is not over or was stopped."""
    count, planned = len(history.epochs), planned_epochs(history)[1]
    is_short = history.epochs.unit == "epoch" and count < planned
    return f"{count} of {planned} epochs" if is_short else history.epochs.lasting(count)


def _print_fluctuation(out: Console, found: Diagnosis) -> None:
    around = found.around
    if found.phases[-1].phase.warms_up:
        out.print("the learning rate is still in its warm-up: too early to explain the fluctuation")
        return
    if around is None:
        out.print(
            f"no phase has {LEAST} losses after the warm-up and the first tenth of the run (or some are not above 0). "
            "That is too few to explain their fluctuation"
        )
        return
    without = "" if around.spikes is None else f", without {counted(len(around.spikes), 'spike')}"
    varies = f"around its smooth course the loss varies by {around.std:.1%}{without}"
    if around.std < LEAST_STD:
        out.print(f"{varies}, too little to explain")
        return
    shares = {field: getattr(around.shares, field) for field in _SHARES}
    unknown = not_recorded(found.history)
    some = [f"{_SHARES[field]} {share:.0%}" for field, share in shares.items() if share >= _NOTHING]
    none = [_SHARES[field] for field, share in shares.items() if share < _NOTHING and field not in unknown]
    nothing = f"; nothing from {', '.join(none)}" if none else ""
    missing = f"; not recorded: {', '.join(_SHARES[field] for field in unknown)}" if unknown else ""
    out.print(f"{varies}. Of that variance: {', '.join(some)}{nothing}{missing}")


def _print_verdicts(out: Console, found: Diagnosis) -> None:
    out.print()
    for verdict in found.verdicts:
        out.print(f"{verdict.kind}: {verdict.text}")
    if not found.verdicts:
        out.print(found.nothing)
    for line in found.advice.lines:
        out.print(f"advice: {line}")
    if changes := found.advice.changes:
        out.print("settings to try:", *map(str, changes), sep="\n  ")
    if changes and (how := how_to_apply(found.history, changes)) is not None:
        out.print(f"to try them, with the run's other flags: {how}", soft_wrap=True)
