"""A run is resumed from any folder, and without files it was started with."""

import dataclasses
import shutil

import pytest
import torch

from tests.train.small_run import NETWORK, flags
from tests.train.test_resume import assert_same_state
from yolofast.cli import main
from yolofast.config.resumed import from_yaml, is_gone, with_lasting_names
from yolofast.config.train import TrainConfig
from yolofast.errors import UserError
from yolofast.resources import find_resource
from yolofast.train.resume import beginning, copies_used, with_saved_copies

pytestmark = pytest.mark.slow

FILES = ("net.yaml", "hyp.yaml")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With a run of one epoch, started from files of its own by relative names."""
    folder = tmp_path_factory.mktemp("start")
    shutil.copy(NETWORK, folder / "net.yaml")
    # Neither is what would be taken without the file.
    (folder / "hyp.yaml").write_text("lr0: 0.003\nloss_ota: 0\n")
    with pytest.MonkeyPatch.context() as here:
        here.chdir(folder)
        words = flags(folder, cfg="net.yaml", hyp="hyp.yaml", data="shapes/data.yaml", project="runs", epochs=1)
        assert main(["train", *words]) == 0
    return folder


@pytest.fixture
def copied(folder, tmp_path, monkeypatch):
    """All of it somewhere else, as the run's own paths do not say; and another folder to type commands in."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(folder / "runs" / "exp", tmp_path / "exp")


@pytest.fixture
def without(folder):
    """Takes files away; they come back."""
    hidden = []

    def hide(*names):
        for name in names:
            (folder / name).rename(folder / f"{name}.hidden")
            hidden.append(name)

    yield hide
    for name in hidden:
        (folder / f"{name}.hidden").rename(folder / name)


def resume(run, *words, epochs=2):
    return main(["train", "--resume", str(run), "--epochs", str(epochs), *words])


def state_of(run):
    return torch.load(run / "weights" / "last.pt", weights_only=True)


def test_with_its_files_and_with_its_own_copies_it_learns_the_same(folder, copied, without, capsys):
    again = shutil.copytree(copied, copied.with_name("again"))
    assert resume(copied) == 0
    assert "own copy" not in capsys.readouterr().out
    without(*FILES)
    assert resume(again / "weights" / "last.pt") == 0
    said = capsys.readouterr().out
    for flag, name in (("--cfg", "net.yaml"), ("--hyp", "hyp.yaml")):
        assert f"{flag} {folder / name} is not there any more: the run's own copy is used" in said
    assert "again, resumes with epoch 2 of 2\n" in said
    assert "weights:" not in said, "a resumed run has its own"
    assert_same_state(state_of(again), state_of(copied))
    kept = from_yaml(TrainConfig, again / "args.yaml")
    assert (kept.cfg, kept.hyp, kept.weights) == (str(folder / "net.yaml"), str(folder / "hyp.yaml"), "")


def test_a_damaged_checkpoint_is_no_copy_of_the_network(copied, without, capsys):
    """The one before it is."""
    assert resume(copied, epochs=2) == 0
    expected, last = state_of(copied), copied / "weights" / "last.pt"
    last.write_bytes(last.read_bytes()[:2000])
    without("net.yaml")
    assert resume(copied, epochs=2) == 0
    said = capsys.readouterr().out
    assert "the run continues from last.previous.pt" in said and "the run's own copy is used" in said
    assert_same_state(state_of(copied), expected)


def test_saying_the_same_again_from_the_same_folder(folder, without, monkeypatch):
    monkeypatch.chdir(folder)
    without("hyp.yaml")
    given = {"resume": True, "hyp": "hyp.yaml", "data": "shapes/data.yaml", "project": "runs"}
    begun = beginning(TrainConfig(resume=True, project="runs"), given)
    assert begun.config.hyp == str(folder / "hyp.yaml")
    assert begun.findable.hyp.endswith("exp/hyp.yaml")


def test_the_project_says_where_to_look(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    project = str(folder / "runs")
    assert beginning(TrainConfig(resume=True, project=project), {"resume": True, "project": project}).state
    with pytest.raises(UserError, match="--project elsewhere with --resume"):
        beginning(TrainConfig(resume=f"{project}/exp", project="elsewhere"), {"project": "elsewhere"})


def test_before_the_first_checkpoint_there_is_no_copy_of_the_network(copied, without):
    shutil.rmtree(copied / "weights")
    without("hyp.yaml")
    begun = beginning(TrainConfig(resume=str(copied)), {})
    assert begun.state is None and begun.findable.hyp == str(begun.folder / "hyp.yaml")
    without("net.yaml")
    with pytest.raises(UserError, match=r"--cfg .*net\.yaml, which is not there any more(.|\n)*--cfg NEW"):
        _ = begun.findable


def test_a_plan_that_has_gone(folder, copied):
    config = from_yaml(TrainConfig, copied / "args.yaml")
    config = dataclasses.replace(config, plan=str(folder / "plan.yaml"))
    with pytest.raises(UserError, match=r"--plan .*plan\.yaml, which is not there any more(.|\n)*--plan NEW"):
        with_saved_copies(config, copied, None)
    (copied / "plan.yaml").write_text("plan: [{train: [head]}]\n")
    found = with_saved_copies(config, copied, None)
    assert found == dataclasses.replace(config, plan=str(copied / "plan.yaml"))
    assert copies_used(config, found) == [f"--plan {config.plan} is not there any more: the run's own copy is used"]


def test_a_data_set_that_has_moved(folder, copied, without, capsys):
    assert resume(copied, "--data", "other.yaml") == 2
    assert f"--data other.yaml with --resume: the run was started with {folder}" in capsys.readouterr().err
    without("shapes")
    assert resume(copied) == 2
    said = capsys.readouterr().err
    assert f"--data {folder / 'shapes' / 'data.yaml'}, which is not there any more" in said and "--data NEW" in said
    moved = folder / "shapes.hidden"
    other = moved / "other.yaml"
    other.write_text((moved / "data.yaml").read_text().replace("circle", "disc"))
    assert resume(copied, "--data", str(other)) == 2
    assert "other classes than the run: 'disc' instead of 'circle'" in capsys.readouterr().err
    other.unlink()
    assert resume(copied, "--data", str(moved), epochs=1) == 0  # nothing is left to train, so no state is written
    assert from_yaml(TrainConfig, copied / "args.yaml").data == str(moved)
    assert state_of(copied)["config"]["data"] != str(moved)
    assert resume(copied) == 0, "the new place is remembered"
    assert state_of(copied)["config"]["data"] == str(moved)


@pytest.mark.parametrize("version", ["present", "older"])
def test_images_and_labels_edited_since_are_reported(folder, copied, without, capsys, version):
    images = sorted((folder / "shapes" / "images" / "train").iterdir())
    without(images[0].relative_to(folder))
    label = folder / "shapes" / "labels" / "train" / f"{images[1].stem}.txt"
    before = label.read_text()
    label.write_text(before + "0 0.5 0.5 0.25 0.25\n")
    boxes = before.count("\n")
    if version == "older":
        (copied / "images.npz").unlink()
    try:
        assert resume(copied) == 0
        said = capsys.readouterr().out
        assert resume(copied) == 0
        assert "since the run was last started" not in capsys.readouterr().out, "it is said once"
    finally:
        label.write_text(before)
    if version == "older":
        assert f"data.yaml has {len(images) - 1} images to train on, the run began with {len(images)}" in said
        return
    assert "warning: the data set has changed since the run was last started" in said
    assert f"1 image fewer: {images[0]}\n" in said
    assert f"1 image with other labels: {images[1]} ({boxes} → {boxes + 1} boxes)\n" in said


def test_a_network_edited_since(folder, copied, capsys):
    text = (folder / "net.yaml").read_text()
    (folder / "net.yaml").write_text(find_resource("yolov7-tiny", "cfg").read_text())
    try:
        assert resume(copied) == 2
    finally:
        (folder / "net.yaml").write_text(text)
    assert "net.yaml: the network is not the one the run has trained" in capsys.readouterr().err


def test_names_that_last(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shapes").mkdir()  # not a data set
    config = TrainConfig(data="shapes", cfg="yolov7-tiny", hyp="mine.yaml")
    assert with_lasting_names(config) == config and is_gone(config, "hyp")
    assert not is_gone(config, "data") and not is_gone(config, "cfg") and not is_gone(config, "weights")
    (tmp_path / "mine.yaml").touch()
    (tmp_path / "shapes" / "data.yaml").touch()
    lasting = with_lasting_names(config)
    assert (lasting.hyp, lasting.data) == (str(tmp_path / "mine.yaml"), str(tmp_path / "shapes"))
