"""Memory of a GPU that really runs out: another process holds nearly all of it."""

import gc
import re
import subprocess
import sys

import pytest
import torch

from tests.train.small_run import flags
from yolofast.cli import main

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
    torch.cuda.init()
    gc.collect()
    torch.cuda.empty_cache()
    command = [sys.executable, "-c", HOLD, str(LEFT)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        yield
        other.communicate()  # the end of what it reads ends it


@pytest.mark.usefixtures("_little_memory")
@pytest.mark.parametrize("gear", ["eager", "graph"])
def test_the_batch_that_is_named_fits_and_is_found_by_itself(gear, tmp_path, capsys):
    settings = {"cfg": "yolov7-tiny", "img_size": 320, "epochs": 1, "device": "0", "gear": gear, "weights": ""}

    def train(batch, *more):
        words = flags(tmp_path, images=2 * BATCH, batch_size=batch, **settings)
        return main(["train", *words, "--noautoanchor", *more])

    assert train(BATCH) == 2
    error = capsys.readouterr().err
    assert f"memory ran out with a batch of {BATCH}" in error and "Traceback" not in error
    named = int(re.search(r"--batch-size (\d+) \(which fits, measured\)", error)[1])
    assert 8 <= named < BATCH
    assert train(named) == 0
    assert train(BATCH, "--reduce-batch") == 0
    assert re.search(r"starts again with (\d+) \(which fits, measured\)", capsys.readouterr().out)
