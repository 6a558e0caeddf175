"""Pipes where files are expected: whoever opens one for reading waits for ever."""

import os
import signal
from contextlib import suppress
from importlib import import_module

import pytest

from yolofast.dataset.coco_document import open_coco
from yolofast.dataset.formats.labelled import Labelled
from yolofast.dataset.formats.openimages import _descriptions
from yolofast.dataset.formats.places import ImagePlaces
from yolofast.errors import UserError
from yolofast.files.yaml_file import read_yaml
from yolofast.runs.table import read_text


@pytest.fixture(autouse=True)
def not_for_ever():
    def end(number, frame):
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("read", [open_coco, read_yaml, read_text])
def test_one_message(tmp_path, read):
    os.mkfifo(tmp_path / "x")
    with pytest.raises(UserError, match="a pipe or a device"):
        read(tmp_path / "x")


@pytest.mark.parametrize(
    ("form", "name"), [("openimages", "a.csv"), ("roboflow", "_annotations.csv"), ("voc", "a.xml")]
)
def test_among_annotations(tmp_path, form, name):
    os.mkfifo(tmp_path / name)
    with suppress(UserError):
        import_module(f"yolofast.dataset.formats.{form}").read(tmp_path, ImagePlaces([tmp_path]), Labelled())


def test_tables_of_classes_with_long_cells(tmp_path):
    (tmp_path / "classes.csv").write_text(f"/m/01,Cat\n/m/02,{'x' * 200_000}\n/m/03,Dog\n")
    assert _descriptions(tmp_path) == {"/m/01": "Cat", "/m/03": "Dog"}
