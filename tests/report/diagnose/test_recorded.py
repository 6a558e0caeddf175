"""What no file has recorded is not known, which is not the same as nothing."""

import numpy as np
from matplotlib.figure import Figure

from tests.report.diagnose import planted
from tests.report.logs.logs import falling, train_log
from yolofast.report.diagnose.diagnosis import as_json, diagnose
from yolofast.report.diagnose.diagnosis_picture import _draw_causes
from yolofast.report.logs.read_run import read_history


def drawn(found):
    axes = Figure().subplots()
    _draw_causes(axes, found)
    return {label.get_text(): text.get_text() for label, text in zip(axes.get_yticklabels(), axes.texts, strict=True)}


def test_shares_of_a_log_without_contents_are_null(tmp_path):
    (tmp_path / "train_log.txt").write_text(train_log(falling(3000, noise=0.05), np.full(3000, 1e-3), 100))
    found = diagnose(read_history(tmp_path))
    shares = as_json(found)["fluctuation"]["shares"]
    assert shares["mix"] is None and shares["boxes"] is None
    assert shares["image_size"] is not None and shares["period"] == 0, "YOLOX logs the size"
    picture = drawn(found)
    assert picture["mosaic, mixup"] == picture["boxes"] == "not recorded" and picture["period"] == "0%"


def test_what_was_recorded_keeps_its_share():
    found = diagnose(planted.data_mix(np.random.default_rng(0)))
    shares = as_json(found)["fluctuation"]["shares"]
    assert shares["mix"] > 0.5 and shares["boxes"] is not None and shares["image_size"] is None
    assert drawn(found)["mosaic, mixup"] == f"{shares['mix']:.0%}"
