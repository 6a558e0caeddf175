"""What to change, with the effect that is expected of it. Settings are named as the run's own files name them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from yolofast.report import verdict as kinds
from yolofast.report.fluctuation import Fluctuation
from yolofast.report.history import History
from yolofast.report.mix_forecast import best_mix_change
from yolofast.report.verdict import Verdict

_LR_KEYS, _MOSAIC_KEYS, _MIXUP_KEYS = (
    ("basic_lr_per_img", "lr0", "lr"),
    ("mosaic_prob", "mosaic"),
    ("mixup_prob", "mixup"),
)
_PATIENCE = 10


@dataclass(frozen=True)
class Change:
    """An entry of the settings, before and after; `before` is None where the files do not say it."""

    key: str
    before: Any
    after: Any


@dataclass(frozen=True)
class Advice:
    lines: list[str] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    def change(self, key: str, before: Any, after: Any) -> None:
        if before != after and key not in [change.key for change in self.changes]:
            self.changes.append(Change(key, before, after))


def give_advice(history: History, around: Fluctuation | None, verdicts: list[Verdict]) -> Advice:
    advice = Advice()
    for verdict in verdicts:
        _ANSWERS[verdict.kind](advice, verdict, history, around)
    return advice


def _diverged(advice: Advice, verdict: Verdict, history: History, around: Fluctuation | None) -> None:
    key, before = setting(history.settings, _LR_KEYS)
    advice.lines.append(
        "take a third of the learning rate and warm up twice as long; "
        f"go on from before epoch {verdict.numbers['epoch']:.0f}"
    )
    advice.change(key, before, _scaled(before, 1 / 3))
    if isinstance(warm_up := history.settings.get("warmup_epochs"), int | float):
        advice.change("warmup_epochs", warm_up, 2 * warm_up or 3)


def _overfits(advice: Advice, verdict: Verdict, history: History, around: Fluctuation | None) -> None:
    epoch = int(verdict.numbers["epoch"])
    advice.lines.append(
        f"stop at epoch {epoch}: what came after cost {verdict.numbers['val_rise']:.0%} of validation loss; "
        "or give it more to learn from: more images, more augmentation, fewer trainable layers"
    )
    advice.change("epochs", history.settings.get("epochs", len(history.epochs)), epoch)
    advice.change("patience", history.settings.get("patience"), _PATIENCE)
    key, before = setting(history.settings, _MIXUP_KEYS)
    if isinstance(before, int | float) and before < 0.15:
        advice.change(key, before, 0.15)


def _stands_still(advice: Advice, verdict: Verdict, history: History, around: Fluctuation | None) -> None:
    epoch, epochs = int(verdict.numbers["epoch"]), history.settings.get("epochs", len(history.epochs))
    advice.lines.append(
        f"{verdict.numbers['epochs']:.0f} epochs changed the loss by {verdict.numbers['change']:+.1%}: let the "
        f"learning rate fall earlier (a schedule over {epoch} epochs), or, if layers are frozen, let more of them learn"
    )
    advice.change("epochs", epochs, epoch)


def _steps_too_long(advice: Advice, verdict: Verdict, history: History, around: Fluctuation | None) -> None:
    assert around is not None
    key, before = setting(history.settings, _LR_KEYS)
    cut = 1 - (1 - around.shares.learning_rate / 2) ** 0.5
    advice.lines.append(
        f"halve {key}: the part that wanders has a variance in proportion to the learning rate, so the standard "
        f"deviation around the course is expected to fall by {cut:.0%}, "
        f"from {around.std:.2%} to {around.std * (1 - cut):.2%}"
    )
    advice.change(key, before, _scaled(before, 0.5))


def _mixes_unevenly(advice: Advice, verdict: Verdict, history: History, around: Fluctuation | None) -> None:
    assert around is not None and history.batches is not None
    found = best_mix_change(around, history.batches.contents)
    share = (
        f"{verdict.numbers['share']:.0%} of the variance is mosaic and mixup composition; "
        f"the learning rate explains {around.shares.learning_rate:.0%}"
    )
    if found is None:
        advice.lines.append(f"{share}: fewer of them would not make the loss calmer")
        _larger_batch(advice, history, around)
        return
    changes = (("mosaic", _MOSAIC_KEYS, found.mosaic), ("mixup", _MIXUP_KEYS, found.mixup))
    words = [f"{word} from {before:g} to {after:g}" for word, _, (before, after) in changes if before != after]
    advice.lines.append(
        f"{share}: lowering {' and '.join(words)} is expected to cut the standard deviation by {found.cut:.0%}, "
        f"from {around.std:.2%} to {around.std * (1 - found.cut):.2%} of the loss. It makes the curve calmer, "
        "not the network better: mosaics are there to be learned from"
    )
    for _, keys, (measured, after) in changes:
        if measured != after:
            key, before = setting(history.settings, keys)
            advice.change(key, measured if before is None else before, after)


def _holds_unevenly(advice: Advice, verdict: Verdict, history: History, around: Fluctuation | None) -> None:
    assert around is not None
    advice.lines.append(
        "batches differ in their boxes, which is no fault of the training: judge it by epochs, or by validation"
    )
    _larger_batch(advice, history, around)


def _is_noisy(advice: Advice, verdict: Verdict, history: History, around: Fluctuation | None) -> None:
    assert around is not None
    advice.lines.append(
        "this is the noise of small samples: judge the run by epochs, or by validation; nothing has to be changed"
    )
    _larger_batch(advice, history, around)


def _larger_batch(advice: Advice, history: History, around: Fluctuation) -> None:
    before = history.settings.get("batch_size")
    to = f" ({before} -> {2 * before})" if isinstance(before, int) else ""
    calmer = around.std / 2**0.5
    advice.lines.append(f"a batch twice as large{to} would take {around.std:.2%} to about {calmer:.2%}")


def _oscillates(advice: Advice, verdict: Verdict, history: History, around: Fluctuation | None) -> None:
    period = verdict.numbers["period"]
    if abs(period - 1) < 0.05:
        advice.lines.append(
            "the period is one epoch: images come in the same order every time, easy and hard ones together; "
            "shuffle them"
        )
        return
    key, before = setting(history.settings, _LR_KEYS)
    advice.lines.append(
        f"look for what repeats every {period:.3g} epochs (a cyclic learning rate, the order of the data); if nothing "
        f"does, weights swing: halve {key}"
    )
    advice.change(key, before, _scaled(before, 0.5))


_ANSWERS: dict[str, Callable[[Advice, Verdict, History, Fluctuation | None], None]] = {
    kinds.DIVERGENCE: _diverged,
    kinds.OVERFITTING: _overfits,
    kinds.PLATEAU: _stands_still,
    kinds.LEARNING_RATE: _steps_too_long,
    kinds.MIX: _mixes_unevenly,
    kinds.BOXES: _holds_unevenly,
    kinds.NOISE: _is_noisy,
    kinds.OSCILLATION: _oscillates,
}


def setting(settings: Mapping[str, Any], keys: tuple[str, ...]) -> tuple[str, Any]:
    """The first of these names the run's files have, and its value; otherwise YOLOv7's name and None."""
    found = next((key for key in keys if key in settings), None)
    return (found, settings[found]) if found is not None else (keys[1], None)


def _scaled(value: Any, factor: float) -> Any:
    return float(f"{value * factor:.3g}") if isinstance(value, int | float) else f"{factor:.2g} of it"
