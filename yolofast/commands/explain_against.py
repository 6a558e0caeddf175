"""`yolofast train --explain --against …`: what two configurations would do differently, side by side, before a run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from yolofast.commands.explain import draw, facts, in_range
from yolofast.config.train import TrainConfig
from yolofast.errors import UserError
from yolofast.terminal.console import console, folded, table
from yolofast.train.explain.against import second_configuration
from yolofast.train.explain.explanation import Explanation, explain
from yolofast.train.explain.schedule_picture import against_picture
from yolofast.train.families.family import EpochFacts
from yolofast.train.finetune.freeze_plan import FreezePhase
from yolofast.train.fitting_batch import with_fitting_batch
from yolofast.train.resume import beginning

_MOST_EPOCHS = 12
_NAMING = ("recipe", "hyp", "plan")
_SHOWN_ANYWAY = ("model", "epochs", "input_size", "freeze")
"""Values of a recipe that are among the facts under another name."""
_NOTHING = "–"

Pair = tuple[str, str]


def explain_against(config: TrainConfig, given: dict[str, Any]) -> None:
    """`config` as it was typed, `given` what was."""
    out, other = console(), second_configuration(config, given, "yolofast train")
    if config.resume or other[0].resume:
        what = "--against compares runs that begin, and --resume continues one"
        raise UserError(what, fix="omit --against to see what the run still has to come")
    first, second = _explained(config, given, out.print), _explained(*other, lambda text: None)
    names = _names(first.config, second.config, str(config.against))
    out.print(f"\n{names[0]} against {names[1]}, on {config.data} (nothing is trained)\n")
    same = _print_differences(out, names, (_facts(first), _facts(second)), "what runs")
    values = _values(first), _values(second)
    same += _print_differences(out, names, values, "values")
    _print_epochs(out, names, (first, second))
    out.print(f"the same in both: {', '.join(same) or 'nothing'}", soft_wrap=True)
    if isinstance(config.explain, str):
        draw(against_picture(dict(zip(names, (first, second), strict=True))), Path(config.explain))
        out.print(f"\ndrawn: {config.explain}")


def _explained(config: TrainConfig, given: dict[str, Any], say: Callable[[str], None]) -> Explanation:
    return explain(with_fitting_batch(beginning(config, given).config, say), say)


def _names(first: TrainConfig, second: TrainConfig, against: str) -> Pair:
    """By what they follow, where that is the difference."""
    for setting in _NAMING:
        files = getattr(first, setting), getattr(second, setting)
        if all(files) and files[0] != files[1]:
            return Path(files[0]).stem, Path(files[1]).stem
    return "as given", against


def _facts(run: Explanation) -> dict[str, str]:
    several = len(run.phases) > 1
    return {
        "data": run.config.data,
        "network": f"{run.config.cfg or run.config.weights}, {run.parameters:,} parameters",
        "image size": f"{run.augmentation.height}×{run.augmentation.width}",
        "epochs": str(run.config.epochs),
        "learning": "\n".join(_learning(run, phase, several) for phase in run.phases),
        **dict(facts(run)),
        "average": "none" if run.rules.average_decay is None else f"decay {run.rules.average_decay:g}",
    }


def _learning(run: Explanation, phase: FreezePhase, several: bool) -> str:
    count = phase.trainable(run.model)
    when = f"epochs {phase.first + 1}-{phase.end}: " if several else ""
    return f"{when}{phase.what}: {count:,} parameters ({count / run.parameters:.1%})"


def _values(run: Explanation) -> dict[str, str]:
    return {key: _shown(value) for key, value in run.rules.hyp.items() if key not in _SHOWN_ANYWAY}


def _shown(value: Any) -> str:
    if isinstance(value, tuple | list):
        return " to ".join(map(_shown, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _print_differences(out: Console, names: Pair, both: tuple[dict[str, str], dict[str, str]], title: str) -> list[str]:
    """Only what differs; returns the names of what does not."""
    first, second = both
    rows, same = table(title, *names), []
    for name in {**first, **second}:
        cells = first.get(name, _NOTHING), second.get(name, _NOTHING)
        if cells[0] == cells[1]:
            same.append(name)
        else:
            rows.add_row(name, *cells)
    if rows.row_count:
        out.print(folded(rows))
        out.print()
    return same


def _print_epochs(out: Console, names: Pair, runs: tuple[Explanation, Explanation]) -> None:
    """The course of what changes in the one or the other, where the two differ in it."""
    length = max(len(run.rows) for run in runs)
    ends = {len(run.rows) for run in runs}
    shown = sorted({1, *ends, *np.linspace(1, length, min(_MOST_EPOCHS, length)).round().astype(int).tolist()})
    columns: dict[str, list[str]] = {}
    for what, text in _COURSES.items():
        cells = [[text(run.rows[n - 1]) if n <= len(run.rows) else _NOTHING for n in shown] for run in runs]
        changes = any(len({text(row) for row in run.rows}) > 1 for run in runs)
        if changes and cells[0] != cells[1]:
            columns |= {f"{what} {name}": column for name, column in zip(names, cells, strict=True)}
    if not columns:
        return
    rows = table(">epoch", *(f">{name}" for name in columns))
    for place, epoch in enumerate(shown):
        rows.add_row(str(epoch), *(column[place] for column in columns.values()))
    out.print(folded(rows))
    out.print()


_COURSES: dict[str, Callable[[EpochFacts], str]] = {
    "lr": lambda row: in_range(max(row.lr.values(), key=lambda rate: rate.last)),
    "learning": lambda row: row.phase.what,
    "mosaic": lambda row: f"{row.chances['mosaic']:.2g}",
    "loss": lambda row: row.loss,
}
