"""Data yamls and lists whose places are of another machine or program: what is meant is read, and that is said."""

from pathlib import Path

import pytest

from tests.dataset.formats.samples import roboflow
from tests.dataset.make import image, write
from yolofast.cli import main
from yolofast.dataset.shapes.made_once import make_shapes


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.mark.slow
def test_an_export_of_roboflow_is_read_as_it_is(capsys, monkeypatch):
    """`../train/images` leads out of its folder; the folder beside the yaml is meant, and that is said."""
    roboflow(Path("books"))
    assert main(["check", "--data", "books/data.yaml"]) == 1, "a warning: there is no test split"
    out = capsys.readouterr().out
    assert "data: books/data.yaml:1: ../train/images leads nowhere, so " in out and "books/train/images is read" in out
    assert "books/data.yaml: no faults, 1 warning" in out
    image(Path("books/test/images/d.jpg"), seed=9)
    write(Path("books/test/labels/d.txt"), "0 .5 .5 .5 .5\n")
    assert main(["check", "--data", "books"]) == 0
    monkeypatch.chdir("books")
    assert main(["check", "--data", "data.yaml"]) == 0
    image(Path("../train/images/e.jpg"), seed=10)
    capsys.readouterr()
    main(["check", "--data", "data.yaml"])
    assert "train/images leads nowhere" not in capsys.readouterr().out, "where it leads somewhere, that is meant"


def test_a_path_of_another_machine(capsys):
    """What lies beside the yaml is meant, and that is said; where `path` leads somewhere nothing is guessed."""
    data = make_shapes("mine", n=3)
    text = data.read_text().replace("path: .", "path: ../datasets/mine")
    assert "path: ../datasets" in text
    write(data, text)
    assert main(["check", "--data", "mine"]) in (0, 1)
    out = capsys.readouterr().out
    assert "images/train leads nowhere below ../datasets/mine, so " in out and "mine/images/train is read" in out
    assert "mine: no faults" in out
    Path("datasets/mine").mkdir(parents=True)
    assert (
        main(["check", "--data", "mine"]) != 0 and "no such file or folder: 'images/train'" in capsys.readouterr().out
    )


def test_entries_of_another_machine_are_answered_with_what_is_there(capsys):
    data = make_shapes("mine", n=3)
    names = data.read_text()[data.read_text().index("names:") :]
    write(data, f"train: /content/mine/images/train\nval: images/valid\n{names}")
    assert main(["check", "--data", "mine"]) == 1
    out = capsys.readouterr().out
    assert "fix: check the entry, and `path` in the data yaml; 'images/train' is there, beside the yaml" in out
    write(data, f"path: .\nTrain: images/train\nval: images/valid\n{names}")
    assert main(["check", "--data", "mine"]) == 1
    out = capsys.readouterr().out
    assert "mine/images/val'? (tried" in out and "'Train' means nothing here, did you mean 'train'?" in out


def test_lists_as_cvat_writes_them(capsys):
    """Each line begins with `data/`, a folder that is not in the export."""
    data = make_shapes("task", n=3)
    for split in ("train", "val"):
        images = sorted(Path(f"task/images/{split}").iterdir())
        write(Path(f"task/{split}.txt"), "".join(f"data/images/{split}/{image.name}\n" for image in images))
    names = data.read_text()[data.read_text().index("names:") :]
    write(data, f"path: .\ntrain: train.txt\nval: val.txt\n{names}")
    assert main(["check", "--data", "task"]) == 1, "warnings"
    out = capsys.readouterr().out
    assert "task: no faults, 2 warnings" in out
    assert out.count("leads nowhere, so it is read without data/, and lines like it") == 2, "once for each list"


def test_paths_as_windows_writes_them(capsys):
    data = make_shapes("task", n=3)
    names = data.read_text()[data.read_text().index("names:") :]
    write(Path("task/val.txt"), "".join(f".\\images\\val\\{one.name}\n" for one in Path("task/images/val").iterdir()))
    for path in ("", "path: C:\\Users\\me\\task\n"):
        write(data, f"{path}train: ..\\images\\train\nval: val.txt\n{names}".replace("..\\" if path else "§", ""))
        assert main(["check", "--data", "task"]) in (0, 1)
        out = capsys.readouterr().out
        assert "images\\train leads nowhere" in out and "task/images/train is read" in out
        assert "task: no faults" in out, out
