"""The scripts at the root of the repository, with the commands that people have in their notes."""

import runpy
from pathlib import Path

import pytest
import torch

from tests.train.small_run import flags
from tests.train.test_resume import assert_same_state

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
TRAIN = (
    "--workers 2 --batch-size 2 --epochs 1 --nosave --data data/shapes.yaml --img 320 "
    "--cfg cfg/training/yolov7-tiny.yaml"
)
LOADERS = ("", "--fast-dataloader")
"""The second is `--persistent-workers` and `--worker-tensor`."""


def run_script(name, words, monkeypatch):
    monkeypatch.setattr("sys.argv", [name, *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / name), run_name="__main__")
    assert not ended.value.code


@pytest.fixture
def smaller(tmp_path):
    """What is typed again counts: the same command for a network and images that a test has time for."""
    return flags(tmp_path, batch_size=8, epochs=1, workers=2)


def test_train_with_both_loaders_then_test_and_detect(smaller, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for loader in LOADERS:
        run_script("train.py", [*TRAIN.split(), *loader.split(), *smaller], monkeypatch)
    states = [torch.load(path, weights_only=True) for path in sorted(tmp_path.glob("runs/exp*/weights/last.pt"))]
    assert len(states) == len(LOADERS)
    for state in states[1:]:
        assert_same_state(state, states[0])
    weights = ["--weights", "runs/exp/weights/best.pt", "--img", 64, "--device", "cpu"]
    run_script("test.py", [*weights, "--data", tmp_path / "shapes" / "data.yaml", "--project", "tested"], monkeypatch)
    run_script("detect.py", [*weights, "--source", tmp_path / "shapes" / "images" / "val"], monkeypatch)
    assert (tmp_path / "tested" / "exp").is_dir() and any((tmp_path / "runs" / "detect" / "exp").glob("*.jpg"))
