"""Whether a run's learning rate has come to its end. Such a run cannot simply go on: more epochs need another plan."""

import numpy as np

from yolofast.report.compare.run import ULTRALYTICS, YOLOV7, Run

_LOW = 0.25
"""Of the highest rate. Cosine and linear schedules end at a tenth or a hundredth; a constant one stays at 1."""


def schedule_is_over(run: Run) -> bool:
    rates = run.column("lr")
    rates = rates[np.isfinite(rates)]
    if len(rates):
        return bool(rates[-1] <= _LOW * rates.max())
    # They write no rate, or not always; theirs always falls to the end.
    return run.format in (YOLOV7, ULTRALYTICS) and not run.unfinished
