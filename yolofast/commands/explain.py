"""`yolofast train --explain`: the schedule that would run, printed and drawn instead of run."""

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import nn

from yolofast.config.train import TrainConfig
from yolofast.errors import UserError
from yolofast.files.atomic_file import write_whole
from yolofast.loader.order import mosaic_is_closed
from yolofast.terminal.console import console, folded, table
from yolofast.train.explain.explanation import CHANCES, Explanation, RunSoFar, explain
from yolofast.train.explain.remarks import remarks
from yolofast.train.explain.schedule_picture import explain_picture
from yolofast.train.families.family import EpochFacts, EpochRange
from yolofast.train.finetune.plan_file import PlanSpec
from yolofast.train.finish import nothing_left
from yolofast.train.fitting_batch import with_fitting_batch
from yolofast.train.resume import beginning
from yolofast.words import counted

_MOST_ROWS = 30


def explain_training(config: TrainConfig, given: dict[str, Any]) -> None:
    """`given` is what the user typed, which resuming checks."""
    begun = beginning(config, given)
    past = begun.past
    if past is not None and begun.folder is not None and past.epochs >= begun.config.epochs:
        print(nothing_left(begun.config, begun.folder))
        return
    print_explanation(with_fitting_batch(begun.findable, print), begun.plan, past)


def print_explanation(config: TrainConfig, plan: PlanSpec | None = None, past: RunSoFar | None = None) -> None:
    """`plan` and `past` are those of a resumed run."""
    out = console()
    run = explain(config, out.print, plan, past)
    out.print(f"\n{_title(run)}")
    for name, text in facts(run):
        out.print(f"  {name:<16} {text}")
    _print_phases(out, run)
    _print_epochs(out, run)
    if found := remarks(run):
        out.print("\nworth knowing")
    for remark in found:
        out.print(f"  - {remark}", soft_wrap=True)
    if isinstance(config.explain, str):
        draw(explain_picture(run), Path(config.explain))
        out.print(f"\ndrawn: {config.explain}")


def _title(run: Explanation) -> str:
    config, size = run.config, f"{run.augmentation.height}×{run.augmentation.width}"
    epochs = counted(config.epochs, "epoch")
    if run.past is not None:
        epochs = f"resuming with epoch {run.past.epochs + 1} of {epochs}"
    return f"{config.cfg or config.weights}, {size}, {epochs} of {config.data} (nothing is trained)"


def facts(run: Explanation) -> Iterator[tuple[str, str]]:
    last = run.rows[-1]
    batches = "1 batch" if run.batches == 1 else f"{run.batches:,} batches"
    when = "in all" if run.past is None else "to come"
    yield "images", f"{run.images:,} in {batches} of {run.batch}; {run.images_seen:,} {when}"
    if run.rules.size_range is not None:  # else there is one, which the title says
        *shapes, every = run.rules.size_range
        yield "image sizes", f"{' to '.join(f'{high}×{wide}' for high, wide in shapes)}, drawn anew for {every}"
    several = f" ({last.accumulate.last:g} batches of {run.batch})" if last.accumulate.last > 1 else ""
    images = _images_per_update(run, last).last
    yield "effective batch", f"{images:g} images per update{several}; {counted(run.updates, 'update')} {when}"
    yield "warm-up", _warmup(run)
    rates = [rate for row in run.rows for rate in row.lr.values()]
    highest, lowest = max(rate.last for rate in rates), next(iter(last.lr.values())).last
    momentum = f"{run.config.optimizer}, momentum {last.momentum.last:g}"
    yield "learning rate", f"{highest:.4g} at most, {lowest:.4g} at the end; {momentum}"
    yield "weight decay", f"{run.weight_decay:.4g}, of weights only"
    yield "mosaic", _mosaic(run)
    yield from run.rules.ingredients.words(run.config.epochs).items()
    yield "loss", _losses(run)
    steady = {name: last.chances[name] for name in CHANCES if not _changes(run, name) and last.chances[name]}
    if steady:
        yield "in every epoch", ", ".join(f"{name} {value:.3g}" for name, value in steady.items())


def _warmup(run: Explanation) -> str:
    iterations = run.schedule.base.warmup
    if not iterations:
        return "none"
    if iterations <= run.rows[0].epoch * run.batches:
        return "over"
    epochs, shape = iterations / run.batches, run.schedule.base.warmup_shape
    return f"{counted(iterations, 'iteration')} ({epochs:.2f} epochs), {shape}"


def _mosaic(run: Explanation) -> str:
    close = run.augmentation.close_mosaic_from
    if not run.augmentation.recipe.mosaic:
        return "none"
    share = f"{run.augmentation.recipe.mosaic:.0%} of the images"
    first, last = run.rows[0].epoch, run.rows[-1].epoch
    closes = mosaic_is_closed(close, last)
    return f"{share}; none from epoch {max(close or 0, first) + 1} on" if closes else f"{share}, to the end"


def _losses(run: Explanation) -> str:
    starts = [run.rows[0], *(b for a, b in pairwise(run.rows) if a.loss != b.loss)]
    return ", ".join([starts[0].loss, *(f"{row.loss} from epoch {row.epoch + 1} on" for row in starts[1:])])


def _print_phases(out: Console, run: Explanation) -> None:
    rows = table("phase", "epochs", "learning", ">parameters", ">share", "learning rate", "statistics that stay")
    for phase in run.phases:
        learning = phase.trainable(run.model)
        rates = [
            f"{scope.name} ×{phase.learning[min(scope.layers)].rate:g}"
            for scope in run.scopes
            if min(scope.layers) in phase.learning
        ]
        warmup = phase.warmup_epochs or 0
        rising = "an epoch" if warmup == 1 else f"{warmup:g} epochs"
        rises = phase.first and phase.first + warmup > max(phase.first, run.rows[0].epoch)  # or did so in the past
        again = f", rising for {rising}" if rises else ""
        rows.add_row(
            str(phase.number + 1),
            f"{phase.first + 1}-{phase.end}",
            phase.what,
            f"{learning:,}",
            f"{learning / run.parameters:.1%}",
            ", ".join(rates) + again,
            _frozen_statistics(run, phase.number),
        )
    out.print()
    out.print(folded(rows))


def _frozen_statistics(run: Explanation, number: int) -> str:
    """Those of frozen layers, and of others that the plan names."""
    phase = run.plan.by_number(number)
    own = {layer: until for layer, until in phase.statistics_frozen_until.items() if layer in phase.learning}
    frozen = [run.model.layers[layer].module for layer in phase.statistics_frozen_until if layer not in own]
    parts = (part for module in frozen for part in module.modules())
    words = ["of what is frozen"] if any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in parts) else []
    if always := [layer for layer, until in own.items() if until >= phase.end]:
        words.append(f"of {len(always)} {'layer that learns' if len(always) == 1 else 'layers that learn'}")
    if late := sorted({until for until in own.values() if phase.first < until < phase.end}):
        words.append(f"of others up to epoch {late[0]}")
    return ", ".join(words) or "none"


def _print_epochs(out: Console, run: Explanation) -> None:
    chances = [name for name in CHANCES if _changes(run, name)]
    biases = any(row.bias_lr != next(iter(row.lr.values())) for row in run.rows)
    scopes = [scope.name for scope in run.scopes]
    others = _changing(run)
    rates = [f"lr {name}" for name in (*scopes, *(["biases"] if biases else []))]
    names = [*rates, *others, *chances]
    rows = table(">epoch", ">phase", *(f">{name}" for name in names), "loss")
    for row in _chosen(run):
        rows.add_row(
            str(row.epoch + 1),
            str(row.phase.number + 1),
            *(in_range(row.lr[name]) if name in row.lr else "frozen" for name in scopes),
            *([in_range(row.bias_lr)] if biases else []),
            *(text(row) for text in others.values()),
            *(f"{row.chances[name]:.2g}" for name in chances),
            row.loss,
        )
    out.print()
    out.print(folded(rows))
    some = "epochs in which something changes, and some in between; " * (len(run.rows) > _MOST_ROWS)
    out.print(f"({some}a range is from the first batch of an epoch to its last)")


def _changing(run: Explanation) -> dict[str, Callable[[EpochFacts], str]]:
    """The columns that differ between epochs; what does not is among the facts above the table."""
    possible: dict[str, Callable[[EpochFacts], str]] = {
        "momentum": lambda row: in_range(row.momentum),
        "images per update": lambda row: in_range(_images_per_update(run, row)),
        "updates": lambda row: f"{row.updates:,}",
    }
    return {name: text for name, text in possible.items() if len({text(row) for row in run.rows}) > 1}


def _chosen(run: Explanation) -> list[EpochFacts]:
    """All epochs of a short run; of a long one those around a change, and as many others as there is room for."""
    if len(run.rows) <= _MOST_ROWS:
        return list(run.rows)
    chosen = {0, len(run.rows) - 1}
    for n, (a, b) in enumerate(pairwise(run.rows)):
        if (a.phase, a.chances, a.loss) != (b.phase, b.chances, b.loss):
            chosen |= {n, n + 1}
    for end in _ends_of_warmups(run):
        place = end - run.rows[0].epoch
        chosen |= {place - 1, place} & set(range(len(run.rows)))
    room = max(_MOST_ROWS - len(chosen), 1)
    chosen |= {round(n * (len(run.rows) - 1) / room) for n in range(room)}
    return [run.rows[n] for n in sorted(chosen)]


def _ends_of_warmups(run: Explanation) -> Iterator[int]:
    """The first epoch without it, from 0: that of the run, and of every phase that warms up again."""
    yield math.ceil(run.schedule.base.warmup / run.batches)
    for phase in run.plan.phases[1:]:
        yield min(phase.first + math.ceil(phase.warmup_epochs or 0), phase.end)


def _changes(run: Explanation, name: str) -> bool:
    return len({row.chances[name] for row in run.rows}) > 1


def _images_per_update(run: Explanation, row: EpochFacts) -> EpochRange:
    return EpochRange(first=run.batch * row.accumulate.first, last=run.batch * row.accumulate.last)


def in_range(value: EpochRange) -> str:
    first, last = f"{value.first:.3g}", f"{value.last:.3g}"
    return first if first == last else f"{first} → {last}"


def draw(picture: bytes, path: Path) -> None:
    try:
        write_whole(path, picture)
    except OSError as error:
        what = f"the picture could not be written: {error.strerror or error}"
        fix = "check the folder, its permissions, and that the disk has room"
        raise UserError(what, where=path, fix=fix) from error
