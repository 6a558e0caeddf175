"""Text that begins again and again, or goes on and on: what is looked for in all of the rest, at each place."""

import time

import pytest

from tests.hostile.cost import SECONDS, cheap, refused
from yolofast.cli import main
from yolofast.files.yaml_file import parse_yaml
from yolofast.report.logs.read_run import read_history
from yolofast.runs.layout import FILES
from yolofast.watch.report_frame import framed_report
from yolofast.watch.runs import read_run_file
from yolofast.watch.watched_folder import WatchedFolder

YOLOX = (
    "epoch: 1/3, iter: 10/20, mem: 1Mb, total_loss: 12.3, iou_loss: 3.0, l1_loss: 0.0, conf_loss: 5.0, cls_loss: 2.0, "
    "lr: 1.000e-03, size: 416, ETA: 0:00:10\n"
)
LOOP = "iter 1/2 - loss: 1.0, 2.0, 3.0\n"
LOGS = {
    "empty lines": YOLOX + "\n" * 200_000,
    "a cell of spaces": YOLOX + "│ momentum │" + " " * 200_000,
    "a cell of words": YOLOX + "│ momentum │ " + "x " * 100_000 + "\n",
    "a long number": YOLOX + f"│ momentum │ 0x{'f' * 5000} │\n",
    "lines in a line": LOOP + "iter 1/2 - loss: " * 100_000 + "\n",
}


@pytest.mark.parametrize("text", LOGS.values(), ids=LOGS)
def test_logs(tmp_path, text):
    (tmp_path / "log.txt").write_text(text, encoding="utf-8")
    with cheap():
        history = read_history(tmp_path / "log.txt")
    assert len(history.epochs) == 1 and not history.settings


def test_a_setting_in_a_cell_of_several_lines_is_read(tmp_path):
    (tmp_path / "log.txt").write_text(f"{YOLOX}│ seed │\n  7 \n │\n │ momentum │ 0.9 │ \r\n", encoding="utf-8")
    assert read_history(tmp_path / "log.txt").settings == {"seed": 7, "momentum": 0.9}


KEYS_THAT_COLLIDE = "a: {" + ", ".join(f"{n * (2**61 - 1)}: x" for n in range(20_000)) + "}"
"""Python's number of each is 0."""
SETTINGS = {
    "values": ("a: [" + "1," * 1_000_000 + "]", "has more than 50,000 keys and values"),
    "values without an end": ("a: [" + "1," * 49_000, "is not valid YAML"),
    "hours, minutes, seconds": ("a: 1" + ":59" * 100_000, "a number of thousands of digits"),
    "deep, then long": ("[" * 101 + "1," * 100_000, "nested too deeply"),
    "abbreviations for tags": ("".join(f"%TAG !{n}! tag:x,{n}:\n" for n in range(40_000)), "directives %TAG"),
    "keys that collide": (KEYS_THAT_COLLIDE, "keys that are large numbers"),
    "keys that collide, with a point": (KEYS_THAT_COLLIDE.replace(":", ".0:"), "keys that are large numbers"),
}


@pytest.mark.parametrize(("text", "words"), SETTINGS.values(), ids=SETTINGS)
def test_settings(text, words):
    with refused(words):
        parse_yaml(text, "x.yaml")


def test_as_many_settings_as_are_read(tmp_path):
    """By a command that reads them several times. Tried thrice: beside other work a core does less in a second."""
    (tmp_path / "x.yaml").write_text("a: [" + "2001-12-14t21:59:43.10-05:00, " * 49_000 + "]")

    def spent():
        started = time.process_time()
        assert main(["check", "--data", str(tmp_path / "x.yaml")]) == 2
        return time.process_time() - started

    assert min(spent() for _ in range(3)) < SECONDS


@pytest.mark.parametrize("text", [b"<script>", b"<script>alert()</script>", b'"'], ids=["begun", "whole", "quotes"])
def test_a_report_in_watch(text):
    with cheap():
        page = framed_report(text * 2**16, "run")
    assert (b"its charts are not drawn" in page) == (b"alert" in text)


def test_a_report_of_any_size(tmp_path):
    with (tmp_path / FILES.report).open("wb") as file:
        file.truncate(2**24 + 1)  # takes no room on the disk
    assert read_run_file(WatchedFolder(tmp_path), FILES.report) is None
