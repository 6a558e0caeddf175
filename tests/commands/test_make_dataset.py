"""`yolofast dataset` as a user types it."""

import pytest

from yolofast.cli import main


def run(capsys, *args):
    try:
        code = main([str(arg) for arg in args])
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.slow
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
        (("dataset",), "required: COMMAND"),
        (("dataset", "shaps", "--out", "x"), "did you mean 'shapes'?"),
        (("dataset", "shapes"), "--out"),
        (("dataset", "shapes", "--out", "x", "--n", "0"), "from 1 to"),
        (("dataset", "shapes", "--out", "x", "--n", "many"), "--n"),
        (("dataset", "shapes", "--out", "x", "--sed", "1"), "did you mean '--seed'?"),
        (("dataset", "shapes", "--out", "x", "--fps", "12"), "unknown argument --fps"),
        (("dataset", "shapes-video", "--out", "x", "--n", "12"), "unknown argument --n"),
        (("dataset", "shapes-video", "--out", "x", "--size", "320"), "--size 320x240"),
        (("dataset", "shapes-video", "--out", "x", "--size", "32x32"), "from 64 to"),
        (("dataset", "shapes-video", "--out", "x", "--drop", "1"), "from 0 to 0.95"),
        (("dataset", "shapes-video", "--out", "x", "--seed", "-1"), "the seed"),
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


def test_sequences_are_made_and_the_next_step_is_told(tmp_path, capsys):
    folder = tmp_path / "moving"
    words = ("dataset", "shapes-video", "--out", folder, "--sequences", 1, "--frames", 3, "--size", "96x64", "--video")
    code, out, _ = run(capsys, *words)
    assert code == 0
    assert "made 1 sequence of 3 frames, 96×64 at 30 fps, 6 shapes each" in out
    assert f"track --source {folder / 'SHAPES-01.mp4'}" in out
    assert "already there" in run(capsys, *words)[1]
    code, _, err = run(capsys, *words, "--seed", 1)
    assert code == 2 and "made with other settings" in err


def test_what_follows_a_video_names_no_file_that_is_not_there(tmp_path, capsys):
    """The newest detector is taken."""
    sizes = ("--sequences", 1, "--frames", 2, "--objects", 1)
    code, out, _ = run(capsys, "dataset", "shapes-video", "--out", tmp_path / "moving", *sizes)
    assert code == 0 and out.splitlines()[-1].endswith(f"track --source {tmp_path}/moving/SHAPES-01/img1")
