"""A run from its numbers to what is the matter with it, what to change, and which epoch to keep."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from yolofast.files.known_numbers import without_nan
from yolofast.report.diagnose.advice import Advice, give_advice
from yolofast.report.diagnose.dialect import flags
from yolofast.report.diagnose.fluctuation import Fluctuation, LossSeries, fluctuation
from yolofast.report.diagnose.phases import Phase, find_phases
from yolofast.report.diagnose.ship import ShipChoice, choose_epoch
from yolofast.report.diagnose.spikes import Spikes
from yolofast.report.diagnose.statistics import CurveStatistics, describe
from yolofast.report.diagnose.verdicts import (
    DIVERGENCE,
    LEAST_EPOCHS,
    Verdict,
    early_validation,
    find_verdicts,
    where_spiked,
)
from yolofast.report.logs.history import BOXES, MIX, SIZE, History
from yolofast.runs.tracking import as_values

_SETTLING = 0.1
"""Of the run: where losses still fall steeply no smooth course can be told from them."""
_NEEDS = {"mix": MIX, "image_size": (SIZE,), "boxes": BOXES}
"""A share by the name it has in `Shares`: the contents of batches of which at least one has to be known."""


@dataclass(frozen=True)
class PhaseReport:
    phase: Phase
    curve: CurveStatistics
    gradient_norm: float
    """Median over the updates; nan if it was not recorded."""


@dataclass(frozen=True)
class Diagnosis:
    history: History
    unit: str
    """What the losses are of: `batch` or `epoch`."""
    phases: list[PhaseReport]
    around: Fluctuation | None
    verdicts: list[Verdict]
    advice: Advice
    choice: ShipChoice | None
    remarks: tuple[str, ...] = ()
    """What to know beside the verdicts, and is no fault of the training."""

    @property
    def ships_nothing(self) -> str:
        """Why no epoch is worth keeping; empty if one is, or nothing is known of them."""
        if self.choice is not None:
            return ""
        if self.history.lost[-1]:
            return "every epoch is of a network that had diverged"
        return "the run diverged, and no epoch of it finds anything" if _diverged(self.verdicts) else ""

    @property
    def nothing(self) -> str:
        """What is said where there is no verdict."""
        if self.around is None and len(self.history.epochs) < LEAST_EPOCHS:
            count = len(self.history.finest[0])
            losses = f"{count} loss{'es are' if count != 1 else ' is'}"
            return f"{losses} too little to judge by: {LEAST_EPOCHS} {self.history.epochs.unit}s are the least"
        is_all = self.remarks == self.history.remarks  # those are about the log
        return "nothing conspicuous" + " except the first validation losses" * (not is_all)


def diagnose(history: History) -> Diagnosis:
    phases = find_phases(history)
    _, _, epoch, unit = history.finest
    reports = [_report(history, phase) for phase in phases]
    around = fluctuation(_settled(history, phases))
    verdicts = find_verdicts(history, phases, around, len(epoch) / len(np.unique(epoch)))
    choice = None if _diverged(verdicts) and _finds_nothing(history) else choose_epoch(history.comparable)
    advice = give_advice(history, around, verdicts, choice)
    early = None if history.lost[-1] else early_validation(history.one_validation)
    remarks = (*history.remarks, *([] if early is None else [early]))
    return Diagnosis(history, unit, reports, around, verdicts, advice, choice, remarks)


def _diverged(verdicts: list[Verdict]) -> bool:
    return any(one.kind == DIVERGENCE for one in verdicts)


def _finds_nothing(history: History) -> bool:
    """Every score that was measured is 0: a low validation loss, of empty pictures, recommends no epoch then."""
    fitness = history.comparable.fitness
    return bool(np.isfinite(fitness).any()) and float(np.nanmax(fitness)) == 0


def _report(history: History, phase: Phase) -> PhaseReport:
    loss, _, epoch, _ = history.finest
    inside = (epoch >= phase.first) & (epoch <= phase.last)
    norms = None if history.batches is None else history.batches.gradient_norm
    measured = np.zeros(0) if norms is None else norms[inside & np.isfinite(norms)]
    return PhaseReport(phase, describe(loss[inside]), float(np.median(measured)) if len(measured) else float("nan"))


def _settled(history: History, phases: list[Phase]) -> LossSeries:
    """The finest losses there are, without the warm-up and the steep beginning."""
    loss, lr, epoch, _ = history.finest
    part = np.array([next((i for i, p in enumerate(phases) if int(n) in p), -1) for n in np.unique(epoch)])
    part = part[np.searchsorted(np.unique(epoch), epoch)]
    warm = [i for i, phase in enumerate(phases) if phase.warms_up]
    contents = {} if history.batches is None else history.batches.contents
    chosen = np.isfinite(loss) & ~np.isin(part, warm) & (np.arange(len(loss)) >= _SETTLING * len(loss))
    return LossSeries(loss, lr, part, np.arange(len(loss)), contents).where(chosen)


def not_recorded(history: History) -> list[str]:
    contents = {} if history.batches is None else history.batches.contents
    return [share for share, names in _NEEDS.items() if not any(name in contents for name in names)]


def as_json(found: Diagnosis) -> dict[str, Any]:
    """Epochs count from 1; where no file says them, a remark says which parts take their place."""
    history = found.history
    values = {
        "source": history.source,
        "format": history.format,
        "epochs": len(history.epochs) if history.epochs.unit == "epoch" else None,
        "remarks": list(found.remarks),
        "losses_are_of": found.unit,
        "losses": len(history.finest[0]),
        "phases": [
            {
                "first": r.phase.first,
                "last": r.phase.last,
                "starts_with": r.phase.starts_with,
                **asdict(r.curve),
                "gradient_norm": r.gradient_norm,
            }
            for r in found.phases
        ],
        "fluctuation": None if found.around is None else _fluctuation(found.around, history),
        "verdicts": [asdict(verdict) for verdict in found.verdicts],
        "advice": found.advice.lines,
        "changes": [asdict(change) for change in found.advice.changes],
        "flags": flags(history, found.advice.changes),
        "ship": None if found.choice is None else asdict(found.choice),
        "tracking": None if history.tracking is None else as_values(history.tracking),
    }
    return without_nan(values)


def _fluctuation(around: Fluctuation, history: History) -> dict[str, Any]:
    return {
        "std": around.std,
        "values": around.values,
        "shares": asdict(around.shares) | dict.fromkeys(not_recorded(history)),
        "slopes": dict(around.effects.slopes),
        "sizes": {f"{size:g}": level for size, level in around.effects.sizes.items()},
        "slope_ratio": around.slope_ratio,
        "period": None if around.period is None else asdict(around.period),
        "spikes": None if around.spikes is None else _spikes(around.spikes, history),
    }


def _spikes(spikes: Spikes, history: History) -> dict[str, Any]:
    return {"count": len(spikes), "share": spikes.share, "highest": spikes.highest, "at": where_spiked(history, spikes)}
