import json

import numpy as np
import pytest

from tests.evaluate.made_up import found, truth
from yolofast.errors import UserError
from yolofast.evaluate.result_files import per_class_table, save_per_class_ap
from yolofast.evaluate.v7_metrics import V7Metrics

NAMES = ("cat", "dog", "Käfer")


def result():
    metrics = V7Metrics()
    detections = found((0.9, 0, 0, 0, 50, 50), (0.6, 2, 0, 0, 9, 9))
    metrics.add([detections], [truth((0, 0, 0, 50, 50), (2, 100, 0, 150, 50), (2, 200, 0, 250, 50))])
    return metrics.result("v5")


def test_a_row_per_class_that_occurs():
    first, second = per_class_table(result(), NAMES)
    assert (first.id, first.name, first.boxes, second.id, second.name, second.boxes) == (0, "cat", 1, 2, "Käfer", 2)
    assert (first.precision, first.recall, first.f1) == pytest.approx((1, 1, 1))
    assert (second.recall, second.ap50, second.ap) == (0, 0, 0)


def test_the_saved_file(tmp_path):
    file = save_per_class_ap(tmp_path / "new" / "ap.json", result(), NAMES)
    content = json.loads(file.read_text(encoding="utf-8"))
    assert set(content) == {"map50", "map", "per_class"}
    assert set(content["per_class"]) == {"0", "2"}
    assert content["per_class"]["2"] == {"ap50": 0.0, "ap": 0.0, "name": "Käfer"}
    assert content["map50"] == pytest.approx(np.mean([one["ap50"] for one in content["per_class"].values()]))
    assert [path.name for path in file.parent.iterdir()] == ["ap.json"]


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        save_per_class_ap(tmp_path / "file" / "ap.json", result(), NAMES)
