"""`yolofast diagnose`: why a loss does what it does, what to change, and which epoch to ship."""

import argparse
import json
import math
from pathlib import Path

from rich.console import Console

from yolofast.atomic_file import write_whole
from yolofast.commands.console import console, table
from yolofast.errors import UserError
from yolofast.report.as_json import as_json
from yolofast.report.batch_verdicts import LEAST_STD
from yolofast.report.diagnosis import Diagnosis, diagnose
from yolofast.report.dialect import how_to_apply
from yolofast.report.fluctuation import Fluctuation
from yolofast.report.picture import diagnosis_picture
from yolofast.report.read_run import read_history
from yolofast.report.ship import Choice
from yolofast.report.statistics import calmness

_SHARES = {
    "mix": "mosaic and mixup",
    "image_size": "image size (multi-scale)",
    "boxes": "boxes",
    "period": "a period",
    "learning_rate": "learning rate",
    "wandering": "other wandering",
    "rest": "rest",
}


def run(args: argparse.Namespace) -> None:
    found = diagnose(read_history(Path(args.run_or_log)))
    if args.plot is not None:
        _write(Path(args.plot), diagnosis_picture(found))
    if args.json:
        print(json.dumps(as_json(found), indent=2))
        return
    out = console()
    _print_phases(out, found)
    _print_fluctuation(out, found.around)
    _print_verdicts(out, found)
    if found.choice is not None:
        _print_choice(out, found.choice, Path(found.history.source) / "weights")
    if args.plot is not None:
        out.print(f"picture: {args.plot}", soft_wrap=True)


def _write(path: Path, content: bytes) -> None:
    if path.suffix.lower() != ".png":
        raise UserError(f"--plot is {path}", fix="name a picture that ends in .png")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", where=path, fix="name another place") from None


def _print_phases(out: Console, found: Diagnosis) -> None:
    history = found.history
    losses, count = len(history.finest[0]), len(history.epochs)
    values = f"{losses:,} loss{'es' * (losses != 1)}, one per {found.unit}"
    epochs = f"{count} epoch{'s' * (count != 1)}"
    out.print(f"{history.source}: {history.format}, {epochs}, {values}", soft_wrap=True)
    listing = table(
        "epochs",
        "begins with",
        ">mean",
        ">std",
        ">CV",
        ">trend",
        f">noise per {found.unit}",
        ">drift",
        ">gradient norm",
        f"{found.unit} to {found.unit}",
    )
    for report in found.phases:
        curve = report.curve
        numbers = (f"{curve.mean:.4g}", f"{curve.std:.3g}", f"{curve.cv:.1%}", f"{curve.trend:+.1%}")
        norm = "" if math.isnan(report.gradient_norm) else f"{report.gradient_norm:.3g}"
        noise = (f"{curve.noise:.3g}", f"{curve.drift_share:.0%}", norm, calmness(curve.noise / abs(curve.mean or 1)))
        listing.add_row(report.phase.epochs, report.phase.starts_with, *numbers, *noise)
    out.print(listing)


def _print_fluctuation(out: Console, around: Fluctuation | None) -> None:
    if around is None:
        out.print("too few losses (or some not above 0) after the warm-up to say where their fluctuation comes from")
        return
    varies = f"around its smooth course the loss varies by {around.std:.1%}"
    if around.std < LEAST_STD:
        out.print(f"{varies}, too little to ask what it is made of")
        return
    shares = [f"{name} {getattr(around.shares, field):.0%}" for field, name in _SHARES.items()]
    out.print(f"{varies}. Of that variance: {', '.join(shares)}")


def _print_verdicts(out: Console, found: Diagnosis) -> None:
    out.print()
    for verdict in found.verdicts:
        out.print(f"{verdict.kind}: {verdict.text}")
    if not found.verdicts:
        out.print("nothing conspicuous")
    for line in found.advice.lines:
        out.print(f"advice: {line}")
    if found.advice.changes:
        out.print("settings to try:")
    for change in found.advice.changes:
        out.print(f"  {change}")
    if found.advice.changes and (how := how_to_apply(found.history, found.advice.changes)) is not None:
        out.print(f"to try them: {how}", soft_wrap=True)


def _print_choice(out: Console, choice: Choice, weights: Path) -> None:
    others = len(choice.as_good) - 1
    alike = (
        f"; {others} other epoch{'s are' if others > 1 else ' is'} within its noise of {choice.noise:.2g}"
        if others
        else ""
    )
    out.print(f"ship: epoch {choice.epoch} ({choice.criterion}: {choice.value:.4g}{alike})")
    if (weights / "best.pt").exists():
        out.print(f"weights: {_weights(choice, weights)}", soft_wrap=True)


def _weights(choice: Choice, folder: Path) -> str:
    own = folder / f"epoch_{choice.epoch:03}.pt"
    if own.exists():
        return str(own)
    if choice.epoch == choice.best:
        return str(folder / "best.pt")
    return f"{folder / 'best.pt'} (epoch {choice.best}, as good within the noise; --save-period keeps others)"
