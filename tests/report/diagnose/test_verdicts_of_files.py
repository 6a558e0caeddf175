"""What was planted into a run is found in its files, as far as their format holds it; otherwise nothing is said."""

import numpy as np
import pytest

from tests.report.diagnose import planted
from tests.report.diagnose.test_verdicts import kinds
from tests.report.logs import written
from yolofast.report.logs.read_run import read_history

BATCHES = {"run_folder", "yolox", "csv_of_batches"}
VALIDATED = {"run_folder", "yolov7", "csv_of_epochs"}
ALL = BATCHES | VALIDATED
VISIBLE = [
    (planted.clean, "", ALL),
    (planted.noise_only, "batch noise", BATCHES),
    (planted.lr_too_high, "learning rate", BATCHES),
    (planted.lr_too_high_throughout, "learning rate", BATCHES - {"yolox"}),  # it wanders from one line to the next
    (planted.data_mix, "data mix", {"run_folder"}),
    (planted.overfit, "overfitting", VALIDATED),
    (planted.plateau, "plateau", ALL),
    (planted.diverges, "divergence", ALL),
    (planted.oscillates, "oscillation", BATCHES),
]


@pytest.mark.slow
@pytest.mark.parametrize("write", written.FORMATS, ids=lambda write: write.__name__)
@pytest.mark.parametrize(("plant", "cause", "formats"), VISIBLE, ids=[plant.__name__ for plant, _, _ in VISIBLE])
def test_the_planted_cause_is_found_where_it_can_be_seen(tmp_path, plant, cause, formats, write):
    for seed in range(3):
        found = kinds(read_history(write(plant(np.random.default_rng(seed)), tmp_path)))
        assert found == ([cause] if cause and write.__name__ in formats else []), seed
