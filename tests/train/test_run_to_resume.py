"""Which run `--resume` means."""

import os

import pytest

from yolofast.errors import UserError
from yolofast.train.resume import RunToResume, run_to_resume


@pytest.fixture
def project(tmp_path):
    """`saved` is older than `begun`, which has nothing but its settings; a third was about to be made."""
    for age, name in enumerate(("saved/weights/last.pt", "saved/args.yaml", "begun/args.yaml", ".exp.1.tmp/args.yaml")):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        os.utime(path, (1000 + age, 1000 + age))
    return tmp_path


def test_the_latest_run_is_the_one_last_written_to(project):
    assert run_to_resume(True, project) == RunToResume(project / "begun", None)
    last = project / "saved" / "weights" / "last.pt"
    os.utime(last, (2000, 2000))
    assert run_to_resume(True, project) == RunToResume(project / "saved", last)
    last.rename(last.with_name("last.previous.pt"))  # killed between two renames
    assert run_to_resume(True, project) == RunToResume(project / "saved", last)


@pytest.mark.parametrize("named", ["saved", "saved/weights", "saved/weights/last.pt"])
def test_a_run_by_its_folder_or_checkpoint(project, named):
    assert run_to_resume(str(project / named), "elsewhere").folder == project / "saved"
    assert run_to_resume(str(project / named), "elsewhere").checkpoint == project / "saved" / "weights" / "last.pt"


def test_a_checkpoint_that_is_not_there_yet_means_its_run(project):
    for named in ("begun", "begun/weights/last.pt"):
        assert run_to_resume(str(project / named), "elsewhere") == RunToResume(project / "begun", None)


def test_another_checkpoint_of_the_run(project):
    epoch = project / "saved" / "weights" / "epoch_004.pt"
    epoch.write_text("")
    assert run_to_resume(str(epoch), "elsewhere") == RunToResume(project / "saved", epoch)


def test_folders_are_named_as_they_would_be_typed(project, monkeypatch):
    monkeypatch.chdir(project.parent)
    assert str(run_to_resume(True, project.name).folder) == f"{project.name}/begun"


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("none/weights/last.pt", "no such file or folder"),
        ("saved/weights/epoch_009.pt", "no such file or folder"),
        (".", "there is no run to resume: no weights/last.pt and no args.yaml"),
    ],
)
def test_what_is_no_run(project, named, message):
    with pytest.raises(UserError, match=message):
        run_to_resume(str(project / named), project)


def test_a_project_without_runs(tmp_path):
    with pytest.raises(UserError, match="there is no run to resume"):
        run_to_resume(True, tmp_path)
