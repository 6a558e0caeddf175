"""What `--data` means, as a user types it, to every command that reads a data set."""

import pytest

from yolofast.cli import main
from yolofast.dataset import named as data_argument
from yolofast.dataset.shapes.made_once import make_shapes


@pytest.fixture(autouse=True)
def built_in(tmp_path, monkeypatch):
    """An empty current folder, and the real built-in data set but for its thousand pictures."""
    folder = tmp_path / "cache" / "few"
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(data_argument, "shapes_data_yaml", lambda: make_shapes(folder, n=12))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


COMMANDS = {
    "check": (),
    "pack": ("--img", "64"),
    "preview": ("--img", "64", "--n", "4", "--out", "preview.jpg"),
    "heads": ("--heads", "2", "--out", "heads.yaml"),
    "anchors": ("--cfg", "yolov7-tiny", "--img", "64"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("data", ["shapes", "data/shapes.yaml"])
def test_every_command_knows_the_built_in_data_set(tmp_path, capsys, command, data):
    (tmp_path / "here" / "shapes").mkdir()  # a folder of that name is no data set
    code = main([command, "--data", data, *COMMANDS[command]])
    assert code == 0, capsys.readouterr().err


def test_a_folder_that_holds_a_data_yaml_is_meant(capsys):
    make_shapes("shapes", n=3)
    make_shapes("few", n=4)
    for data, count in (("shapes", 3), ("few", 4), ("few/data.yaml", 4)):
        assert main(["pack", "--data", data, "--img", "64", "--splits", "train"]) == 0
        assert f"train: {count} images" in capsys.readouterr().out


def test_a_folder_without_one_is_no_data_set(tmp_path, capsys):
    (tmp_path / "here" / "few").mkdir()
    assert main(["pack", "--data", "few"]) == 2
    assert "no such file: 'few'" in capsys.readouterr().err
