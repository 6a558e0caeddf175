"""How a run begins, without training it."""

import pytest

from yolofast.config.resumed import to_yaml
from yolofast.config.train import TrainConfig
from yolofast.errors import UserError
from yolofast.train.resume import beginning, write_copies


def test_a_default_that_is_not_there_means_from_scratch_and_is_reported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = TrainConfig(weights="yolo7.pt", cfg="yolov7-tiny")
    begun = beginning(config, {})
    assert begun.config.weights == "" and "yolo7.pt (the default) is not here: training from scratch" in begun.note
    with pytest.raises(UserError, match=r"yolo7\.pt"):
        beginning(config, {"weights": "yolo7.pt"})  # whoever names a file wants it


@pytest.fixture
def killed(tmp_path):
    """The folder of a run that was killed in its first epoch."""
    run = tmp_path / "runs" / "exp"
    run.mkdir(parents=True)
    to_yaml(TrainConfig(epochs=7, cfg="mini", resume=True), run / "args.yaml")
    write_copies({"lr0": 1e-5, "anchors": (3, 4)}, {}, run)
    return run


def test_a_run_that_saved_nothing_begins_again(killed):
    begun = beginning(TrainConfig(resume=True, project=str(killed.parent)), {"resume": True, "epochs": 9})
    assert (begun.folder, begun.state, begun.config.epochs, begun.config.cfg) == (killed, None, 9, "mini")
    assert begun.hyp == {"lr0": 1e-5, "anchors": [3, 4]}
    assert f"nothing of {killed} was saved" in begun.note
    assert begun.config.resume is False, "its hours are those of one process"


def test_it_keeps_its_settings(killed):
    with pytest.raises(UserError, match="--batch-size 3 with --resume"):
        beginning(TrainConfig(resume=str(killed)), {"resume": str(killed), "batch_size": 3})
