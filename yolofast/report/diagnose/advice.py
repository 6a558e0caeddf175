"""What to change, with the effect that is expected of it. Settings are named as the run's own files name them.

No advice ends a run before the epoch to ship. Where nothing was validated, no shorter run is proposed: a training loss
does not say when a network is good enough.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from yolofast.report.diagnose import verdicts as kinds
from yolofast.report.diagnose.dialect import (
    BATCH_SIZE,
    LR,
    MIXUP,
    MOSAIC,
    MULTI_SCALE,
    PATIENCE,
    Change,
    dialect,
    planned_epochs,
    scaled,
    setting,
)
from yolofast.report.diagnose.fluctuation import Fluctuation
from yolofast.report.diagnose.forecast import best_mix_change, varied
from yolofast.report.diagnose.ship import BY_SCORE, BY_TRAINING, ShipChoice
from yolofast.report.diagnose.verdicts import Verdict, where_spiked
from yolofast.report.logs.history import History

_STEP = 32
_PATIENCE, _SPIKES_NAMED = 10, 5
_DISAGREE = 0.1
"""Of the epochs: so much later another measure is best."""
_LONGEST_WARM_UP = 3
"""One part in so many of a run: a recipe refuses a warm-up that does not fit."""
_WARM_UP = "warmup_epochs"
_MORE_TO_LEARN = "more images, more augmentation, fewer trainable layers"
_NOT_THE_RATE = (
    "the loss of the first batch was NaN already, before any update, so it is not the learning rate. Look for "
    "NaN values in the weights it starts from, and for faults in the images and labels; begin anew"
)

_NO_FAULTS = {
    kinds.BOXES: "batches differ in their boxes, which is no fault of the training",
    kinds.NOISE: "this is the noise of small samples and no fault",
}
Proposal = tuple[str, list[Change]]
"""A line of advice, and the settings that go with it."""


@dataclass(frozen=True)
class Advice:
    lines: list[str] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)


def give_advice(
    history: History, around: Fluctuation | None, verdicts: list[Verdict], choice: ShipChoice | None
) -> Advice:
    """`choice` is the epoch to ship: no advice ends a run before it. A setting is changed once."""
    advice = Advice()
    for verdict in verdicts:
        if verdict.kind in _ENDINGS:
            line, changes = _ENDINGS[verdict.kind](verdict, history, choice)
        elif verdict.kind == kinds.OSCILLATION:
            line, changes = _oscillates(verdict, history)
        else:
            assert around is not None, "these verdicts are about it"
            line, changes = _CAUSES[verdict.kind](verdict, history, around)
        advice.lines.append(line)
        for change in changes:
            if change.before != change.after and change.key not in [one.key for one in advice.changes]:
                advice.changes.append(change)
    return advice


def _steps_too_long(verdict: Verdict, history: History, around: Fluctuation) -> Proposal:
    key, before = setting(history, LR)
    cut = 1 - (1 - around.shares.learning_rate / 2) ** 0.5
    line = (
        f"halve {key}: the part that wanders has a variance in proportion to the learning rate. The standard "
        f"deviation around the course is expected to fall by {cut:.0%}, "
        f"from {around.std:.2%} to {around.std * (1 - cut):.2%}"
    )
    return line, [Change(key, before, scaled(before, 0.5))]


def _mixes_unevenly(verdict: Verdict, history: History, around: Fluctuation) -> Proposal:
    assert history.batches is not None
    found = best_mix_change(around, history.batches.contents, setting(history, MOSAIC)[1], setting(history, MIXUP)[1])
    share = (
        f"{verdict.numbers['share']:.0%} of the variance is {' and '.join(varied(around))} composition; "
        f"the learning rate explains {around.shares.learning_rate:.0%}"
    )
    if found is None:
        return _larger_batch(history, around, f"{share}. Fewer of them would not make the loss calmer, but")
    changes = (("mosaic", MOSAIC, found.mosaic), ("mixup", MIXUP, found.mixup))
    words = [f"{word} from {before:g} to {after:g}" for word, _, (before, after) in changes if before != after]
    line = (
        f"{share}. Lowering {' and '.join(words)} is expected to cut the standard deviation by {found.cut:.0%}, "
        f"from {around.std:.2%} to {around.std * (1 - found.cut):.2%} of the loss. It makes the curve calmer, "
        "not the network better: such images are there to be learned from"
    )
    return line, [Change(setting(history, keys)[0], before, after) for _, keys, (before, after) in changes]


def without_sizes(verdict: Verdict, history: History, around: Fluctuation) -> Proposal:
    """How much calmer the loss would be if images kept their size, or changed it less."""
    calm = around.std * (1 - around.shares.image_size) ** 0.5
    line = (
        f"multi-scale training shows in the loss: at one size the standard deviation would be {calm:.2%} instead of "
        f"{around.std:.2%}{_narrower(history, around, calm)}. This makes the curve calmer, not the network better: "
        "several sizes are there to be learned from, and are no fault by themselves"
    )
    if dialect(history) == "YOLOX":
        return line, [Change("multiscale_range", history.settings.get("multiscale_range"), 0)]
    return line, [Change(MULTI_SCALE, history.settings.get(MULTI_SCALE, True), False)]


def _narrower(history: History, around: Fluctuation, calm: float) -> str:
    """The half of the sizes that lies in the middle; a recipe counts heights in steps of 32."""
    sizes = sorted(around.effects.sizes)
    middle = sizes[len(sizes) // 4 : len(sizes) - len(sizes) // 4]
    shape = history.settings.get("input_size")
    if dialect(history) != "our YOLOX" or not shape or not 1 < len(middle) < len(sizes):
        return ""
    spread = float(np.std([around.effects.sizes[size] for size in middle]))
    least, most = (round(size * shape[0] / max(shape) / _STEP) for size in (middle[0], middle[-1]))
    return f", and {(calm**2 + spread**2) ** 0.5:.2%} with random_size={least},{most}"


def _no_fault(verdict: Verdict, history: History, around: Fluctuation) -> Proposal:
    why = f"{_NO_FAULTS[verdict.kind]}: judge by epochs, or by validation. For a calmer curve,"
    return _larger_batch(history, around, why)


def _look_at_spikes(verdict: Verdict, history: History, around: Fluctuation) -> Proposal:
    assert around.spikes is not None, "the verdict is about them"
    found = where_spiked(history, around.spikes)
    places = [" ".join(f"{what} {number}" for what, number in at.items()) for at in found]
    more = f" and {len(places) - _SPIKES_NAMED} more" if len(places) > _SPIKES_NAMED else ""
    return (
        f"look at what came there: {', '.join(places[:_SPIKES_NAMED])}{more}. Labels of the wrong size or class, and "
        "images unlike all others, do that (`yolofast check`). If the loss comes back at once, they do little harm; "
        "if it takes long, take a lower learning rate or warm up longer. A larger batch would only hide them"
    ), []


def _larger_batch(history: History, around: Fluctuation, why: str) -> Proposal:
    """The line begins with `why`."""
    before = history.settings.get(BATCH_SIZE)
    after = 2 * before if isinstance(before, int) and before > 0 else None
    to = "" if after is None else f" ({before} -> {after})"
    faster = "; the learning rate doubles with it" if "YOLOX" in dialect(history) else ""
    line = (
        f"{why} a batch twice as large{to} would take the standard deviation from {around.std:.2%} to about "
        f"{around.std / 2**0.5:.2%}, if the memory holds it{faster}"
    )
    return line, [] if after is None else [Change(BATCH_SIZE, before, after)]


def _oscillates(verdict: Verdict, history: History) -> Proposal:
    period = verdict.numbers["period"]
    if history.epochs.unit == "epoch" and abs(period - 1) < 0.05:
        return (
            "the period is one epoch: images come in the same order every time, easy and hard ones together; "
            "shuffle them"
        ), []
    key, before = setting(history, LR)
    line = (
        f"look for what repeats every {history.epochs.lasting(period)} (a cyclic learning rate, the order of the "
        f"data). If nothing does, weights swing: halve {key}"
    )
    return line, [Change(key, before, scaled(before, 0.5))]


def after_divergence(verdict: Verdict, history: History, choice: ShipChoice | None) -> Proposal:
    batches = history.batches
    if batches is not None and batches.from_the_first and np.isinf(batches.loss[0]):
        return _NOT_THE_RATE, []
    key, before = setting(history, LR)
    words, warm_up = _longer_warm_up(history)
    part, factor = ("a tenth", 0.1) if "lost" in verdict.numbers else ("a third", 1 / 3)
    line = f"take {part} of the learning rate{words}; {_onward(verdict, history, choice)}"
    return line, [Change(key, before, scaled(before, factor)), *warm_up]


def _longer_warm_up(history: History) -> Proposal:
    given = history.settings.get(_WARM_UP)
    if not isinstance(given, int | float):
        return " and warm up twice as long", [Change(_WARM_UP, None, "twice as long")]
    longest = planned_epochs(history)[1] // _LONGEST_WARM_UP
    after = max(given, min(2 * given or 3, longest))
    if after == given:
        return "", []
    how_long = "twice as long" if after == 2 * given else f"for {after:g} epochs"
    return f" and warm up {how_long}", [Change(_WARM_UP, given, after)]


def _onward(verdict: Verdict, history: History, choice: ShipChoice | None) -> str:
    """The loss rose after the verdict's epoch, or was NaN in it."""
    epochs, epoch, rose = history.epochs, int(verdict.numbers["epoch"]), "rise" in verdict.numbers
    # Where a loss begins to rise is known to some epochs only; where it was NaN, to the epoch.
    latest = epoch + _DISAGREE * len(epochs) if rose else epoch - 1
    is_later = choice is not None and choice.epoch > latest
    if epoch == epochs.number[0] or choice is None:
        onward = "begin anew"
    elif rose and choice is not None and not is_later:
        onward = f"continue from {epochs.unit} {choice.epoch}"
    else:
        onward = f"continue from before {epochs.unit} {epoch}"
    if choice is None or not is_later:
        return onward
    return (
        f"{onward}. They disagree: the {choice.measure} is best in {epochs.unit} {choice.epoch}, which is later. "
        "Keep that one to ship until the run at the lower rate is better"
    )


def against_overfitting(verdict: Verdict, history: History, choice: ShipChoice | None) -> Proposal:
    epoch = int(verdict.numbers["epoch"])
    end = _shorter(epoch, history, choice)
    if end is None:
        return _against_a_shorter_run(epoch, choice), []
    line = (
        f"stop at epoch {end}: what came after cost {verdict.numbers['val_rise']:.0%} of validation loss; "
        f"or give it more to learn from: {_MORE_TO_LEARN}"
    )
    key, planned = planned_epochs(history)
    changes = [Change(key, planned, end)]
    if PATIENCE in history.settings or "our" in dialect(history):
        changes.append(Change(PATIENCE, history.settings.get(PATIENCE), _PATIENCE))
    key, before = setting(history, MIXUP)
    if isinstance(before, int | float) and before < 0.15:
        changes.append(Change(key, before, 0.15))
    return line, changes


def _against_a_shorter_run(epoch: int, choice: ShipChoice | None) -> str:
    if choice is not None and choice.measure == BY_SCORE:
        return (
            f"loss and mAP disagree: the validation loss was lowest in epoch {epoch}, the score is best in epoch "
            f"{choice.epoch}. If boxes count, keep the length of the run. If their confidences have to be right as "
            f"well, give it more to learn from: {_MORE_TO_LEARN}"
        )
    alone = "" if choice is None else f"; that of epoch {choice.epoch} alone is lower, which may be luck"
    return (
        f"the course of the validation loss was lowest in epoch {epoch}{alone}. Keep the length of the run, and "
        f"give it more to learn from: {_MORE_TO_LEARN}"
    )


def against_plateau(verdict: Verdict, history: History, choice: ShipChoice | None) -> Proposal:
    epochs, epoch = history.epochs, int(verdict.numbers["epoch"])
    changed = f"{epochs.lasting(verdict.numbers['epochs'])} changed the loss by {verdict.numbers['change']:+.1%}"
    frozen = "or, if layers are frozen, let more of them learn"
    end = _shorter(epoch, history, choice)
    if end is not None:
        line = f"{changed}: let the learning rate fall earlier (a schedule over {end} epochs), {frozen}"
        key, planned = planned_epochs(history)
        return line, [Change(key, planned, end)]
    if choice is None or choice.measure == BY_TRAINING:
        why = ". Without a validation nobody knows whether a shorter run is as good. So"
    else:
        why = f", although the {choice.measure} is best in epoch {choice.epoch}:"
    return f"{changed}{why} let the learning rate fall earlier in a run of the same length, {frozen}", []


def _shorter(epoch: int, history: History, choice: ShipChoice | None) -> int | None:
    """Where a run that needs no more than this epoch may end; None if it should keep its length."""
    if choice is None or choice.measure == BY_TRAINING:
        return None
    end = max(epoch, choice.epoch)
    is_late = end - epoch > _DISAGREE * len(history.epochs) or end >= history.epochs.number[-1]
    return None if is_late else end


_CAUSES: dict[str, Callable[[Verdict, History, Fluctuation], Proposal]] = {
    kinds.LEARNING_RATE: _steps_too_long,
    kinds.MIX: _mixes_unevenly,
    kinds.SIZE: without_sizes,
    kinds.BOXES: _no_fault,
    kinds.NOISE: _no_fault,
    kinds.SPIKES: _look_at_spikes,
}
_ENDINGS: dict[str, Callable[[Verdict, History, ShipChoice | None], Proposal]] = {
    kinds.DIVERGENCE: after_divergence,
    kinds.OVERFITTING: against_overfitting,
    kinds.PLATEAU: against_plateau,
}
