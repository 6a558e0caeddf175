"""The scripts at the root of the repository, with the commands that people have in their notes."""

import runpy
from pathlib import Path

import pytest
import torch
import yaml

from tests.detect.seeing import picture, save_seeing
from tests.model.small import small_cfg
from tests.train.small_run import flags
from tests.train.test_resume import assert_same_state
from yolofast.files.yaml_file import read_yaml
from yolofast.resources import find_resource

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
TRAIN = (
    "--workers 2 --batch-size 2 --epochs 1 --nosave --data data/shapes.yaml --img 320 "
    "--cfg cfg/training/yolov7-tiny.yaml"
)
LOADERS = ("", "--fast-dataloader")
"""The second is `--persistent-workers` and `--worker-tensor`."""
CUSTOM_AND_USUAL = ("yolov7-custom", "yolov7")


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


def explained(script, words, monkeypatch, capsys):
    """What a script would train, by the names of `--explain`."""
    run_script(script, [*words, "--explain"], monkeypatch)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    return dict(line.split("  ", 1) for line in lines if "  " in line)


def test_train_aux_always_assigns_by_ota(smaller, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "aux.yaml").write_text(yaml.safe_dump(small_cfg("IAuxDetect")))
    (tmp_path / "hyp.yaml").write_text("loss_ota: 0\n")
    words = [*smaller, "--cfg", "aux.yaml", "--hyp", "hyp.yaml", "--weights", ""]
    for script, assigner in (("train.py", "anchor"), ("train_aux.py", "ota")):
        assert explained(script, words, monkeypatch, capsys)["loss"].strip() == assigner
    run_script("train_aux.py", [*words, "--max-steps", "1"], monkeypatch)
    state = torch.load(tmp_path / "runs" / "exp" / "weights" / "last.pt", weights_only=True)
    assert any(".m2." in name for name in state["model"]), "the auxiliary maps"


def test_the_custom_graph_is_yolov7_with_the_classes_of_the_data():
    custom, usual = (read_yaml(find_resource(f"cfg/training/{name}.yaml", "cfg")) for name in CUSTOM_AND_USUAL)
    assert custom.values == usual.values


def test_torch_hub_gives_a_detector(tmp_path):
    save_seeing(tmp_path / "best.pt", img_size=64)
    detector = torch.hub.load(str(ROOT), "custom", str(tmp_path / "best.pt"), source="local", device="cpu")
    (found,) = detector.predict(picture(0))
    assert len(found) and detector.size == 64
