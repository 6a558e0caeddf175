"""Pipes where files are expected: whoever opens one for reading waits for ever."""

import os
import signal

import pytest

from yolofast.dataset.coco_document import open_coco
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
