"""Work done by another process: all of it, in order, with what went wrong, and nobody is left behind."""

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from yolofast.files.helper import Helper

pytestmark = pytest.mark.slow


@pytest.fixture
def helper():
    made = Helper(["pathlib"])
    yield made
    made.close()


def ends(process):
    deadline = time.monotonic() + PATIENCE
    while Path(f"/proc/{process}/stat").exists() and time.monotonic() < deadline:
        if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.02)
    return not Path(f"/proc/{process}").exists()


def test_all_is_done_and_failures_are_told_by_name(helper, tmp_path):
    much = b"x" * 3_000_000  # more than a pipe holds: who gives does not wait
    helper.give("first", partial(Path.write_bytes, tmp_path / "a", much))
    helper.give("folder", partial(Path.write_bytes, tmp_path, b""))
    helper.give("says", partial(print, "nothing of this is an answer"))
    helper.give("last", partial(Path.write_bytes, tmp_path / "b", b"y"))
    failures = helper.failures()
    assert list(failures) == ["folder"] and failures["folder"].startswith("IsADirectoryError: ")
    assert (tmp_path / "a").stat().st_size == len(much) and (tmp_path / "b").read_bytes() == b"y"


def test_who_has_nothing_to_do_ends(helper):
    assert helper.failures() == {} and helper._process.returncode == 0


def test_who_holds_the_pipe_open_keeps_nobody(helper, tmp_path):
    """As the workers of a loader do, which are forked while a helper is at work."""
    held = os.dup(helper._process.stdin.fileno())
    helper.give("first", partial(Path.write_bytes, tmp_path / "a", b""))
    assert helper.failures() == {} and (tmp_path / "a").exists()
    os.close(held)


def test_one_that_dies_has_done_nothing_of_the_rest(helper, tmp_path):
    helper.give("first", partial(Path.write_bytes, tmp_path / "a", b""))
    helper.give("dies", partial(os._exit, 3))
    helper.give("last", partial(Path.write_bytes, tmp_path / "b", b""))
    why = "its process ended with 3"
    assert helper.failures() == {"dies": why, "last": why} and (tmp_path / "a").exists()


def test_modules_that_are_missing_are_a_failure_of_the_work():
    helper = Helper(["no.such.module"])
    helper.give("work", partial(print))
    assert helper.failures() == {"work": "its process ended with 1"}
    helper.close()


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_it_ends_when_it_is_closed_or_its_owner_is_gone(helper):
    helper.give("long", partial(time.sleep, 3600))
    helper.close()
    assert ends(helper._process.pid)
    code = (
        "from yolofast.files.helper import Helper; import os; print(Helper([])._process.pid, flush=True); os._exit(0)"
    )
    said = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert ends(int(said))


def test_drawing_needs_no_torch():
    """Its import would take longer than the drawing."""
    modules = "yolofast.dataset.overview_picture, yolofast.evaluate.drawing, yolofast.files.helper"
    code = f"import sys, {modules}; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True).stdout == "False\n"
