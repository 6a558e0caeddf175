"""`yolofast motion`: words, tables, JSON and pictures."""

import json

import pytest

from tests.motion.training.sequences import write_motion_data
from yolofast.cli import main


@pytest.fixture
def data(tmp_path):
    return str(write_motion_data(tmp_path, length=24))


def test_methods_beside_one_another(data, capsys):
    assert main(["motion", "val", "--data", data, "--horizons", "1,15"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["frames", "ahead", "IoU", "1", "IoU", "15", "off", "by", "1", "off", "by", "15"]
    rows = {line.rsplit(maxsplit=4)[0]: line.split()[-4:] for line in lines[1:4]}
    assert rows["constant velocity"][:2] == ["1.000", "1.000"] and float(rows["last box"][1]) < 0.5
    assert lines[4].split() == ["histories", "72", "16"]


def test_no_track_is_seen_for_so_long(data, capsys):
    assert main(["motion", "val", "--data", data, "--horizons", "1,30"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].split() == ["last", "box", lines[3].split()[2], "–", lines[3].split()[4], "–"]


@pytest.mark.slow
def test_json_and_picture(data, tmp_path, capsys):
    assert main(["motion", "val", "--data", data, "--json", "--plot", str(tmp_path / "some.png")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["horizons"] == [1, 5, 15] and found["histories"][0] == 72
    assert found["methods"]["constant velocity"]["overlap"][14] == pytest.approx(1.0, abs=1e-3)
    assert (tmp_path / "some.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["val"], "no --data is given"),
        (["train"], "no --data is given"),
        (["val", "--data", "nowhere.yaml"], "does not exist"),
        (["val", "--data", "DATA", "--plot", "some.jpg"], "--plot is some.jpg"),
        (["val", "--data", "DATA", "--weights", "nowhere.pt"], "there is no such file"),
        (["val", "--data", "DATA", "--weights", "a/b.pt", "a/b.pt"], "names a file twice"),
    ],
)
def test_mistakes_are_one_message(data, words, message, capsys):
    assert main(["motion", *(data if word == "DATA" else word for word in words)]) == 2
    assert message in capsys.readouterr().err


def test_a_device_that_is_none(data, monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert main(["motion", "val", "--data", data, "--device", "gpu"]) == 2
    assert "--device is gpu, which is none" in capsys.readouterr().err


@pytest.mark.slow
def test_a_command_of_two_words(capsys):
    for words, message in (
        (["motion"], "required"),
        (["motion", "vl"], "did you mean"),
        (["motion", "val", "--jiter"], "did you mean"),
        (["motion", "val", "--horizons", "1,a"], "invalid int value: '1,a'"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 2 and message in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["motion", "--help"])
    assert "how far off predicted boxes are" in capsys.readouterr().out
