"""Who is told about a run."""

import importlib.util

import pytest

from yolofast.config.train import TrainConfig
from yolofast.dataset.shapes.made_once import make_shapes
from yolofast.dataset.split import read_split
from yolofast.train.loggers import delivery
from yolofast.train.loggers.delivery import choose_loggers
from yolofast.train.loggers.logger import LoggerRequest
from yolofast.train.loggers.wandb import dataset_upload


def chosen(environment, **settings):
    said = []
    request = LoggerRequest(config=TrainConfig(**settings), splits=(), environment=environment, say=said.append)
    titles = [one.title for one in choose_loggers(request) if one.title != "TensorBoard"]
    return titles, [text for text in said if not text.startswith("tensorboard")]


def test_nobody_who_was_not_chosen():
    assert chosen({}) == ([], [])
    assert chosen({"WANDB_API_KEY": "x"}) == ([], [])  # being able to is not being asked to
    assert chosen({"WANDB_PROJECT": "p", "WANDB_MODE": "disabled"}) == ([], [])
    assert chosen({"WANDB_DISABLED": "true"}, entity="me") == ([], [])


def test_tensorboard_is_for_everybody_or_says_how_to_get_it(monkeypatch):
    said, is_there = [], []
    monkeypatch.setattr(delivery, "find_spec", lambda package: object() if is_there else None)
    request = LoggerRequest(config=TrainConfig(), splits=(), environment={}, say=said.append)
    assert choose_loggers(request) == []
    assert said == [
        "tensorboard: not installed, nothing is written for it; to get it: pip install 'yolofast[tensorboard]'"
    ]
    is_there.append(True)
    assert [one.title for one in choose_loggers(request)] == ["TensorBoard"] and len(said) == 1


@pytest.mark.parametrize(
    ("package", "environment", "settings", "reason"),
    [
        ("mlflow", {"MLFLOW_TRACKING_URI": "file:x"}, {}, "MLFLOW_TRACKING_URI is set"),
        ("wandb", {"WANDB_MODE": "offline"}, {}, "WANDB_MODE is set"),
        ("wandb", {}, {"entity": "me"}, "--entity is given"),
        ("wandb", {}, {"upload_dataset": True}, "--upload_dataset is given"),
    ],
)
def test_chosen_by_a_variable_or_a_flag(package, environment, settings, reason):
    titles, said = chosen(environment, **settings)
    if importlib.util.find_spec(package):
        assert titles == [{"mlflow": "MLflow", "wandb": "Weights & Biases"}[package]] and said == []
    else:
        (warning,) = said
        assert titles == [] and reason in warning and f"pip install 'yolofast[{package}]'" in warning


def test_what_an_upload_holds(tmp_path):
    data = make_shapes(tmp_path / "shapes", n=4)
    splits = [read_split(data, split) for split in ("train", "val")]
    upload = dataset_upload(TrainConfig(data=str(data), artifact_alias="v1"), splits)
    images = {path for path in upload.files if path.suffix == ".png" or path.suffix == ".jpg"}
    assert upload.alias == "v1" and upload.name == "data"
    assert images == {index.path(i) for index in splits for i in range(len(index))}
    assert len([path for path in upload.files if path.suffix == ".txt"]) == len(images)
