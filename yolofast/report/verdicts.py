"""All that is the matter with a run; nothing where nothing is."""

from yolofast.report.batch_verdicts import causes, oscillation
from yolofast.report.epoch_verdicts import divergence, overfitting, plateau
from yolofast.report.fluctuation import Fluctuation
from yolofast.report.history import History
from yolofast.report.phases import Phase
from yolofast.report.verdict import DIVERGENCE, LEARNING_RATE, Verdict


def find_verdicts(
    history: History, phases: list[Phase], around: Fluctuation | None, epoch_batches: float
) -> list[Verdict]:
    """`epoch_batches` are the values of an epoch in `around`."""
    found = [divergence(history, phases), overfitting(history, phases), plateau(history, phases)]
    found += [*causes(around), oscillation(history, around, epoch_batches)]
    kept = [verdict for verdict in found if verdict is not None]
    if any(verdict.kind == DIVERGENCE for verdict in kept):  # a loss that runs away overfits and fluctuates as well
        return [verdict for verdict in kept if verdict.kind in (DIVERGENCE, LEARNING_RATE)]
    return kept
