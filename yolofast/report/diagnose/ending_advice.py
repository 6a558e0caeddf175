"""How long a run should be, and from where one that broke is resumed. No advice ends a run before the epoch to ship.

Where nothing was validated, no shorter run is proposed: a training loss does not say when a network is good enough.
"""

import numpy as np

from yolofast.report.diagnose.dialect import LR, MIXUP, PATIENCE, Change, dialect, planned_epochs, scaled, setting
from yolofast.report.diagnose.ship import BY_SCORE, BY_TRAINING, ShipChoice
from yolofast.report.diagnose.verdicts import Verdict
from yolofast.report.logs.history import History

_PATIENCE = 10
_DISAGREE = 0.1
"""Of the epochs: so much later another measure is best."""
_LONGEST_WARM_UP = 3
"""One part in so many of a run: a recipe refuses a warm-up that does not fit."""
_WARM_UP = "warmup_epochs"
_MORE_TO_LEARN = "more images, more augmentation, fewer trainable layers"
_NOT_THE_RATE = (
    "the loss of the first batch was NaN already, before any update, so it is not the learning rate: look for "
    "NaN values in the weights it starts from, and for faults in the images and labels; begin anew"
)

Proposal = tuple[str, list[Change]]
"""A line of advice, and the settings that go with it."""


def after_divergence(verdict: Verdict, history: History, choice: ShipChoice | None) -> Proposal:
    if _was_broken_before_any_update(history):
        return _NOT_THE_RATE, []
    key, before = setting(history, LR)
    words, warm_up = _longer_warm_up(history)
    line = f"take a third of the learning rate{words}; {_onward(verdict, history, choice)}"
    return line, [Change(key, before, scaled(before, 1 / 3)), *warm_up]


def _was_broken_before_any_update(history: History) -> bool:
    batches = history.batches
    return batches is not None and batches.from_the_first and bool(np.isinf(batches.loss[0]))


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
    if epoch == epochs.number[0]:
        onward = "begin anew"
    elif rose and choice is not None and not is_later:
        onward = f"go on from {epochs.unit} {choice.epoch}"
    else:
        onward = f"go on from before {epochs.unit} {epoch}"
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
            f"{choice.epoch}. If boxes count, keep the length of the run; if their confidences have to be right as "
            f"well, give it more to learn from: {_MORE_TO_LEARN}"
        )
    alone = "" if choice is None else f"; that of epoch {choice.epoch} alone is lower, which may be luck"
    return (
        f"the course of the validation loss was lowest in epoch {epoch}{alone}: keep the length of the run, and "
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
        why = ": without a validation nobody knows whether a shorter run is as good, so"
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
