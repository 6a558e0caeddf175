"""`yolofast dataset shapes` as a user types it."""

import pytest

from yolofast.cli import main


def run(capsys, *args):
    try:
        code = main([str(arg) for arg in args])
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_makes_the_data_set_and_says_what_is_next(tmp_path, capsys):
    folder = tmp_path / "my shapes"
    code, out, _ = run(capsys, "dataset", "shapes", "--out", folder, "--n", 6, "--seed", 1)
    assert code == 0
    assert "made 6 images to train on, 1 to validate, 8 classes" in out
    assert f"yolofast check --data '{folder / 'data.yaml'}'" in out
    assert len(list((folder / "images" / "train").iterdir())) == 6

    code, out, _ = run(capsys, "dataset", "shapes", "--out", folder, "--n", 6, "--seed", 1)
    assert code == 0
    assert "already there" in out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("dataset",), "name"),
        (("dataset", "shaps", "--out", "x"), "did you mean 'shapes'?"),
        (("dataset", "shapes"), "--out"),
        (("dataset", "shapes", "--out", "x", "--n", "0"), "from 1 to"),
        (("dataset", "shapes", "--out", "x", "--n", "many"), "--n"),
        (("dataset", "shapes", "--out", "x", "--sed", "1"), "did you mean '--seed'?"),
    ],
)
def test_mistakes(args, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, *args)
    assert code == 2
    assert message in err
    assert not list(tmp_path.iterdir())


def test_an_occupied_folder(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    code, _, err = run(capsys, "dataset", "shapes", "--out", tmp_path, "--n", 1)
    assert code == 2
    assert "is not empty" in err
    assert "fix: name a new folder" in err
