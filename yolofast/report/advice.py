"""What to change, with the effect that is expected of it. Settings are named as the run's own files name them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from yolofast.report import verdict as kinds
from yolofast.report.dialect import BATCH_SIZE, EPOCHS, LR, MIXUP, MOSAIC, PATIENCE, Change, dialect, setting
from yolofast.report.fluctuation import Fluctuation
from yolofast.report.history import History
from yolofast.report.mix_forecast import best_mix_change, varied
from yolofast.report.ship import Choice
from yolofast.report.size_advice import without_sizes
from yolofast.report.verdict import Verdict

_PATIENCE = 10
_DISAGREE = 0.1
"""Of the epochs: so much later the scores are best than the loss."""
_LONGEST_WARM_UP = 3
"""One part in so many of a run: a recipe refuses a warm-up that does not fit."""
_MOSAIC_AND_MIXUP = (("mosaic", MOSAIC), ("mixup", MIXUP))


@dataclass(frozen=True)
class Advice:
    lines: list[str] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    def change(self, key: str, before: Any, after: Any) -> None:
        if before != after and key not in [change.key for change in self.changes]:
            self.changes.append(Change(key, before, after))


def give_advice(history: History, around: Fluctuation | None, verdicts: list[Verdict], choice: Choice | None) -> Advice:
    """`choice` is the epoch to ship: no advice ends a run before it."""
    advice = Advice()
    for verdict in verdicts:
        if verdict.kind in _ENDS_EARLIER:
            _ENDS_EARLIER[verdict.kind](advice, verdict, history, choice)
        else:
            _ANSWERS[verdict.kind](advice, verdict, history, around)
    return advice


def _diverged(advice: Advice, verdict: Verdict, history: History, around: Fluctuation | None) -> None:
    key, before = setting(history, LR)
    epoch = int(verdict.numbers["epoch"])
    onward = "begin anew" if epoch == history.epochs.number[0] else f"go on from before epoch {epoch}"
    advice.lines.append(f"take a third of the learning rate and warm up twice as long; {onward}")
    advice.change(key, before, _scaled(before, 1 / 3))
    if isinstance(warm_up := history.settings.get("warmup_epochs"), int | float):
        longest = history.settings.get(EPOCHS, len(history.epochs)) // _LONGEST_WARM_UP
        advice.change("warmup_epochs", warm_up, max(warm_up, min(2 * warm_up or 3, longest)))


def _overfits(advice: Advice, verdict: Verdict, history: History, choice: Choice | None) -> None:
    epoch = int(verdict.numbers["epoch"])
    end = _earliest_end(epoch, choice)
    if end - epoch > _DISAGREE * len(history.epochs):
        advice.lines.append(
            f"loss and mAP disagree: the validation loss was lowest in epoch {epoch}, the score is best in epoch "
            f"{end}. If boxes count, keep the length of the run; if their confidences have to be right as "
            "well, give it more to learn from: more images, more augmentation, fewer trainable layers"
        )
        return
    advice.lines.append(
        f"stop at epoch {end}: what came after cost {verdict.numbers['val_rise']:.0%} of validation loss; "
        "or give it more to learn from: more images, more augmentation, fewer trainable layers"
    )
    advice.change(EPOCHS, history.settings.get(EPOCHS, len(history.epochs)), end)
    advice.change(PATIENCE, history.settings.get(PATIENCE), _PATIENCE)
    key, before = setting(history, MIXUP)
    if isinstance(before, int | float) and before < 0.15:
        advice.change(key, before, 0.15)


def _earliest_end(epoch: int, choice: Choice | None) -> int:
    """That epoch, or the one to ship if scores say that it is later."""
    return max(epoch, choice.epoch) if choice is not None and choice.score else epoch


def _stands_still(advice: Advice, verdict: Verdict, history: History, choice: Choice | None) -> None:
    epoch = int(verdict.numbers["epoch"])
    changed = f"{verdict.numbers['epochs']:.0f} epochs changed the loss by {verdict.numbers['change']:+.1%}"
    end = _earliest_end(epoch, choice)
    if end - epoch > _DISAGREE * len(history.epochs):
        advice.lines.append(
            f"{changed}, although the score is best in epoch {end}: let the learning rate fall earlier "
            "in a run of the same length, or, if layers are frozen, let more of them learn"
        )
        return
    advice.lines.append(
        f"{changed}: let the learning rate fall earlier (a schedule over {end} epochs), or, if layers are frozen, "
        "let more of them learn"
    )
    advice.change(EPOCHS, history.settings.get(EPOCHS, len(history.epochs)), end)


def _steps_too_long(advice: Advice, verdict: Verdict, history: History, around: Fluctuation | None) -> None:
    assert around is not None
    key, before = setting(history, LR)
    cut = 1 - (1 - around.shares.learning_rate / 2) ** 0.5
    advice.lines.append(
        f"halve {key}: the part that wanders has a variance in proportion to the learning rate, so the standard "
        f"deviation around the course is expected to fall by {cut:.0%}, "
        f"from {around.std:.2%} to {around.std * (1 - cut):.2%}"
    )
    advice.change(key, before, _scaled(before, 0.5))


def _mixes_unevenly(advice: Advice, verdict: Verdict, history: History, around: Fluctuation | None) -> None:
    assert around is not None and history.batches is not None
    given = [setting(history, keys)[1] for _, keys in _MOSAIC_AND_MIXUP]
    found = best_mix_change(around, history.batches.contents, *given)
    share = (
        f"{verdict.numbers['share']:.0%} of the variance is {' and '.join(varied(around))} composition; "
        f"the learning rate explains {around.shares.learning_rate:.0%}"
    )
    if found is None:
        _larger_batch(advice, history, around, f"{share}: fewer of them would not make the loss calmer, but")
        return
    changes = (("mosaic", MOSAIC, found.mosaic), ("mixup", MIXUP, found.mixup))
    words = [f"{word} from {before:g} to {after:g}" for word, _, (before, after) in changes if before != after]
    advice.lines.append(
        f"{share}: lowering {' and '.join(words)} is expected to cut the standard deviation by {found.cut:.0%}, "
        f"from {around.std:.2%} to {around.std * (1 - found.cut):.2%} of the loss. It makes the curve calmer, "
        "not the network better: such images are there to be learned from"
    )
    for _, keys, (before, after) in changes:
        advice.change(setting(history, keys)[0], before, after)


def _changes_sizes(advice: Advice, verdict: Verdict, history: History, around: Fluctuation | None) -> None:
    assert around is not None
    line, change = without_sizes(history, around)
    advice.lines.append(line)
    advice.change(change.key, change.before, change.after)


def _holds_unevenly(advice: Advice, verdict: Verdict, history: History, around: Fluctuation | None) -> None:
    assert around is not None
    why = "batches differ in their boxes, which is no fault of the training: judge it by epochs, or by validation."
    _larger_batch(advice, history, around, f"{why} For a calmer curve,")


def _is_noisy(advice: Advice, verdict: Verdict, history: History, around: Fluctuation | None) -> None:
    assert around is not None
    why = "this is the noise of small samples and no fault: judge by epochs, or by validation."
    _larger_batch(advice, history, around, f"{why} For a calmer curve,")


def _larger_batch(advice: Advice, history: History, around: Fluctuation, why: str) -> None:
    """One line, of which `why` is the beginning."""
    before = history.settings.get(BATCH_SIZE)
    after = 2 * before if isinstance(before, int) and before > 0 else None
    to = "" if after is None else f" ({before} -> {after})"
    faster = "; the learning rate doubles with it" if "YOLOX" in dialect(history) else ""
    advice.lines.append(
        f"{why} a batch twice as large{to} would take the standard deviation from {around.std:.2%} to about "
        f"{around.std / 2**0.5:.2%}, if the memory holds it{faster}"
    )
    if after is not None:
        advice.change(BATCH_SIZE, before, after)


def _oscillates(advice: Advice, verdict: Verdict, history: History, around: Fluctuation | None) -> None:
    period = verdict.numbers["period"]
    if abs(period - 1) < 0.05:
        advice.lines.append(
            "the period is one epoch: images come in the same order every time, easy and hard ones together; "
            "shuffle them"
        )
        return
    key, before = setting(history, LR)
    advice.lines.append(
        f"look for what repeats every {period:.3g} epochs (a cyclic learning rate, the order of the data); if nothing "
        f"does, weights swing: halve {key}"
    )
    advice.change(key, before, _scaled(before, 0.5))


_ANSWERS: dict[str, Callable[[Advice, Verdict, History, Fluctuation | None], None]] = {
    kinds.DIVERGENCE: _diverged,
    kinds.LEARNING_RATE: _steps_too_long,
    kinds.MIX: _mixes_unevenly,
    kinds.SIZE: _changes_sizes,
    kinds.BOXES: _holds_unevenly,
    kinds.NOISE: _is_noisy,
    kinds.OSCILLATION: _oscillates,
}


_ENDS_EARLIER: dict[str, Callable[[Advice, Verdict, History, Choice | None], None]] = {
    kinds.OVERFITTING: _overfits,
    kinds.PLATEAU: _stands_still,
}


def _scaled(value: Any, factor: float) -> Any:
    return float(f"{value * factor:.3g}") if isinstance(value, int | float) else f"{factor:.2g} of it"
