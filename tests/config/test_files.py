"""args.yaml, resuming from it, environment variables, the built-in data set and the documentation page."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yolofast.config.flags import from_settings
from yolofast.config.flags_page import flags_page
from yolofast.config.predict import PredictConfig, ValConfig
from yolofast.config.resumed import as_text, from_yaml, resumed, to_yaml
from yolofast.config.settings import settings_of
from yolofast.config.train import TrainConfig
from yolofast.dataset.data_yaml import read_data_yaml
from yolofast.dataset.shapes.outline import NAMES
from yolofast.errors import UserError
from yolofast.files.yaml_file import parse_yaml
from yolofast.resources import builtin_data, data_yaml, find_resource
from yolofast.train.gears.compiling import CompileRequest, compile_request

CHANGED = (
    TrainConfig(
        epochs=7,
        img_size=(96, 64),
        name="123",
        weights="ä b.pt",
        resume=True,
        lr_mult_neck=1e-7,
        stage="stage1_neck_tune",
    ),
    ValConfig(weights=("a.pt", "no"), img_size=None, save_per_class_ap="ap.json", rect=False),
    PredictConfig(source="*.jpg", classes=(3, 1), name="off", line_width=2),
)


@pytest.mark.parametrize(
    "config", [*CHANGED, TrainConfig.published(), ValConfig.published(), PredictConfig.published()]
)
def test_round_trip(config, tmp_path):
    path = tmp_path / "args.yaml"
    path.write_text("old")
    to_yaml(config, path)
    assert from_yaml(type(config), path) == config
    assert os.listdir(tmp_path) == ["args.yaml"]


@pytest.mark.slow
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=1, max_size=20))
def test_any_name_survives(name):
    config = PredictConfig(name=name)
    assert from_settings(PredictConfig, parse_yaml(as_text(config), None).values) == config


def test_all_settings_are_written():
    assert [line.split(":")[0] for line in as_text(TrainConfig()).splitlines() if line[0] not in "- "] == list(
        settings_of(TrainConfig)
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epochs: 3\nepoch: 4\n", ":2: there is no setting 'epoch', did you mean 'epochs'?"),
        ("epochs: 3\n\nbatch_size: x\n", ":3: --batch-size is 'x'"),
        ("image_weights: true\nrect: true\n", "args.yaml: --image-weights draws"),
        ("- 1\n", "must be a mapping"),
    ],
)
def test_mistakes_in_a_file(text, message, tmp_path):
    path = tmp_path / "args.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as error:
        from_yaml(TrainConfig, path)
    assert message in str(error.value)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="the settings could not be written"):
        to_yaml(TrainConfig(), tmp_path / "none" / "args.yaml")


STORED = TrainConfig(epochs=50, batch_size=8, cfg="yolov7-tiny", img_size=(320,))


def test_resuming():
    requested = {"resume": True, "epochs": 80, "workers": 2, "batch_size": 8, "img_size": [320]}
    config = resumed(STORED, requested)
    assert (config.epochs, config.workers, config.batch_size, config.resume) == (80, 2, 8, True)
    assert resumed(STORED, {}) == STORED


def test_a_batch_the_run_has_found_itself_stays():
    """`--batch-size -1` was measured, and `--reduce-batch` may have changed it: the old command still resumes."""
    assert resumed(STORED, {"resume": True, "batch_size": -1}).batch_size == 8
    reduced = TrainConfig(batch_size=8, reduce_batch=True)
    assert resumed(reduced, {"resume": True, "batch_size": 64, "reduce_batch": True}).batch_size == 8


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch_size": 16}, "--batch-size 16 with --resume: the run was started with 8"),
        ({"weights": "x.pt"}, "--weights x.pt with --resume: the run was started with none"),
        ({"faithful": True}, "--faithful on with --resume: the run was started with off"),
        ({"epochs": 40}, "the run was planned for 50"),
        ({"epochs": 60, "patience": 3, "notest": True}, "--patience 3 needs evaluations"),
    ],
)
def test_what_resuming_refuses(given, message):
    with pytest.raises(UserError) as error:
        resumed(STORED, {"resume": True, **given})
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("gear", "environ", "expected"),
    [
        ("auto", {}, ("auto", False)),
        ("auto", {"USE_COMPILE": "1"}, ("compile", False)),
        ("auto", {"USE_COMPILE": "0", "DIAGNOSE_COMPILE": "1"}, ("auto", True)),
        ("eager", {"USE_COMPILE": "1"}, ("eager", False)),
        ("graph", {"USE_COMPILE": "", "DIAGNOSE_COMPILE": "True"}, ("graph", True)),
    ],
)
def test_environment(gear, environ, expected):
    assert compile_request(gear, environ) == CompileRequest(*expected)


def test_environment_that_makes_no_sense(monkeypatch):
    monkeypatch.setenv("USE_COMPILE", "2")
    with pytest.raises(UserError, match=r"USE_COMPILE is '2'\n.*USE_COMPILE=1"):
        compile_request("auto")


def test_builtin_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert builtin_data(TrainConfig().data) == builtin_data("shapes") == "shapes"
    assert builtin_data("data/coco.yaml") is None
    assert read_data_yaml("data/shapes.yaml").classes() == tuple(NAMES)
    own = tmp_path / "own.yaml"
    own.write_text("nc: 1\nbuiltin: shape\n")
    with pytest.raises(UserError, match=r"own.yaml:2: .*'shape', did you mean 'shapes'"):
        builtin_data(str(own))


def test_what_data_means(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "made.yaml"

    def meant(data):
        return data_yaml(data, lambda: made)

    (tmp_path / "own.yaml").write_text("builtin: shapes\n")
    assert meant("shapes") == meant("data/shapes.yaml") == meant("own.yaml") == made
    assert meant("coco") == meant("data/coco.yaml") == find_resource("data/coco.yaml", "data")
    (tmp_path / "shapes").mkdir()
    assert meant("shapes") == made, "a folder is no data yaml"
    (tmp_path / "shapes" / "data.yaml").write_text("nc: 1\n")
    assert meant("shapes") == meant(Path("shapes")) == Path("shapes/data.yaml")
    (tmp_path / "shapes" / "data.yaml").write_text("builtin: shapes\n")
    assert meant("shapes") == made
    for nothing in ("", "nowhere", "a\0b", "x" * 5000):
        with pytest.raises(UserError, match=r"no such file|is empty"):
            meant(nothing)


def test_a_file_named_as_the_built_in_data_set_is_meant(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shapes").write_text("nc: 1\n")
    assert data_yaml("shapes", made=Path) == Path("shapes")


def test_the_page_is_up_to_date():
    page = Path(__file__).parents[2] / "docs" / "flags.md"
    assert page.read_text(encoding="utf-8") == flags_page(), "python -m yolofast.config.flags_page > docs/flags.md"
