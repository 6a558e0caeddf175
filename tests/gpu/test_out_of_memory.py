"""Memory of a GPU that really runs out: another process holds nearly all of it."""

import re
import subprocess
import sys

import pytest

from tests.train.small_run import flags

HOLD = """
import sys, torch
free, _ = torch.cuda.mem_get_info()
held = torch.empty(free - int(sys.argv[1]), dtype=torch.uint8, device="cuda")
print("held", flush=True)
sys.stdin.read()
"""
LEFT = 4 * 2**30
BATCH = 160


@pytest.fixture
def _little_memory():
    command = [sys.executable, "-c", HOLD, str(LEFT)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        yield
        other.communicate()  # the end of what it reads ends it


@pytest.mark.usefixtures("_little_memory")
@pytest.mark.parametrize("gear", ["eager", "graph"])
def test_the_batch_that_is_named_fits_and_is_found_by_itself(gear, tmp_path):
    """In processes of their own, as users have: what other tests hold in this one cannot be had again."""
    settings = {"cfg": "yolov7-tiny", "img_size": 320, "epochs": 1, "device": "0", "gear": gear, "weights": ""}

    def train(batch, *more):
        words = flags(tmp_path, images=2 * BATCH, batch_size=batch, **settings)
        command = [sys.executable, "-m", "yolofast", "train", *words, "--noautoanchor", *more]
        return subprocess.run(command, capture_output=True, text=True)

    done = train(BATCH)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert f"memory ran out with a batch of {BATCH}" in done.stderr
    found = re.search(r"--batch-size (\d+) \(which fits, measured\)", done.stderr)
    assert found and 8 <= int(found[1]) < BATCH, done.stderr
    done = train(int(found[1]))
    assert done.returncode == 0, done.stderr
    done = train(BATCH, "--reduce-batch")
    assert done.returncode == 0, done.stderr
    assert re.search(r"starts again with (\d+) \(which fits, measured\)", done.stdout)
