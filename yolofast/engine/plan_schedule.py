"""The schedule of a run with a plan: the run's own, times what the plan says of each part and phase."""

import dataclasses
from dataclasses import dataclass

from yolofast.engine.plan import Phase, Plan
from yolofast.optim.schedule import RunSchedule, StepSettings


@dataclass(frozen=True)
class PlannedSchedule:
    """A learning rate for every group of every pace, in the order in which `PhasedTraining` groups parameters."""

    base: RunSchedule
    plan: Plan
    batches: int
    """Of an epoch."""

    def at(self, epoch: int, batch: int) -> StepSettings:
        settings, phase = self.base.at(epoch, batch), self.plan.at(epoch)
        risen = self.risen(phase, epoch, batch)
        lr = tuple(lr * pace.rate * risen for pace in phase.paces for lr in settings.lr)
        return dataclasses.replace(settings, lr=lr)

    def risen(self, phase: Phase, epoch: int, batch: int) -> float:
        """The share a warm-up that restarts with the phase has reached; that of the first phase is the run's own."""
        if not phase.first or not phase.warmup_epochs:
            return 1.0
        return min(((epoch - phase.first) * self.batches + batch) / (phase.warmup_epochs * self.batches), 1.0)


def planned(schedule: RunSchedule, plan: Plan) -> PlannedSchedule:
    """The first phase may say how long the run's warm-up is."""
    own = plan.phases[0].warmup_epochs
    base = schedule if own is None else dataclasses.replace(schedule, warmup_epochs=own)
    return PlannedSchedule(base, plan, schedule.batches)
