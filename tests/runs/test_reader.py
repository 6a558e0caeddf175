"""A run's folder is read as far as it can be, and what cannot be read is told once."""

import json

import numpy as np
import pytest

from tests.watch.made_runs import make_run
from yolofast.errors import UserError
from yolofast.runs.layout import FILES, MAP, MAP50
from yolofast.runs.reader import RunFolder, parse_entries


@pytest.fixture
def folder(tmp_path):
    return make_run(tmp_path / "run", epochs=5, done=5, batch_size=8)


def test_everything_of_a_run(folder):
    run = RunFolder(folder).read_all()
    assert run.args["batch_size"] == 8 and run.summary == {"epochs": 5} and not run.problems
    assert run.epochs().tolist() == [1, 2, 3, 4, 5] and len(run.batches) == 20
    np.testing.assert_allclose(run.fitness(), 0.1 * run.column(MAP50.name) + 0.9 * run.column(MAP.name))
    assert run.best_row() == 4 and np.isnan(run.column("of another version")).all()


def test_a_summary_counts_as_long_as_it_is_true(folder):
    (folder / FILES.summary).write_text('{"epochs": 4, "wall_seconds": 3}')
    run = RunFolder(folder)
    assert run.summary == {} and run.summary_of(4)["wall_seconds"] == 3


@pytest.mark.parametrize("name", [FILES.settings, FILES.hyp, FILES.environment, FILES.evaluation, FILES.profile])
@pytest.mark.parametrize("content", [b"[1, 2", b"7", b"\xff\xfe{", b""], ids=["torn", "no entries", "no text", "empty"])
def test_a_file_that_cannot_be_read_is_a_problem(folder, name, content):
    (folder / name).write_bytes(content)
    run = RunFolder(folder).read_all()
    assert run.entries(name) == {} and len(run.problems) == 1
    assert run.problems[0].startswith(f"{name} cannot be read and is left out: ")
    run.classes(), run.classes_epoch(), run.validated(), run.read_all()
    assert len(run.problems) == 1, "told once, however often it is asked for"


def test_nobody_hears_of_files_that_were_not_asked_for(folder):
    (folder / FILES.profile).write_text("{")
    run = RunFolder(folder)
    assert run.args and not run.problems


def test_files_that_are_too_large(folder):
    with (folder / FILES.environment).open("wb") as file:
        file.truncate(2**30)
    run = RunFolder(folder)
    assert run.environment == {} and "too large" in run.problems[0]


def test_numbers_that_cannot_be_measured(folder):
    (folder / FILES.profile).write_text('{"gpu_busy": 1e999, "phases": []}')
    run = RunFolder(folder)
    assert run.profile == {"gpu_busy": None, "phases": []}
    assert run.problems == [f"{FILES.profile} says 1e999, which cannot be measured and is left out"]
    assert run.step_profile() is None and run.problems[1:] == [f"{FILES.profile} has no phases"]


def test_a_folder_without_results(tmp_path):
    with pytest.raises(UserError, match=r"has no results\.csv"):
        RunFolder(tmp_path).read_all()
    with pytest.raises(UserError, match="no such folder"):
        RunFolder(tmp_path / "gone").read_all()


def test_settings_of_other_trainers_go_by_our_names(tmp_path):
    (tmp_path / "opt.yaml").write_text("batch: 16\nimgsz: [640, 640]\n")
    (tmp_path / FILES.settings).write_text("batch-size: 32\n")
    assert RunFolder(tmp_path).tidy_flags() == {"batch_size": 32, "img_size": 640}


def test_json_and_yaml_by_their_names():
    assert parse_entries("a.yaml", b"x: 1e-3\n") == ({"x": 0.001}, [])
    assert parse_entries("a.json", json.dumps({"x": [1]}).encode()) == ({"x": [1]}, [])
    for name in ("a.yaml", "a.json"):
        with pytest.raises(ValueError):
            parse_entries(name, b"{")
