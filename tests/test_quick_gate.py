"""What is not marked `slow` can be neither: the mark is missed as soon as a test needs it."""

import multiprocessing
import os
import subprocess
import sys

import pytest
import torch

from yolofast.train.loop import Trainer

refused = pytest.raises(pytest.fail.Exception, match="in a test that is not slow")


@pytest.mark.parametrize(
    "start",
    [
        lambda: subprocess.run([sys.executable, "-c", ""]),
        lambda: os.system(":"),
        lambda: multiprocessing.get_context("spawn").Process(target=print).start(),
        lambda: Trainer.fit(None),
        lambda: torch.compile(torch.neg),
    ],
    ids=["program", "shell", "process", "training", "compiling"],
)
def test_a_quick_test_cannot(start):
    with refused:
        start()


@pytest.mark.slow
def test_a_slow_one_can():
    assert subprocess.run([sys.executable, "-c", ""]).returncode == 0


def test_what_libraries_ask_the_machine_is_allowed():
    subprocess.run(["uname"], check=True, stdout=subprocess.DEVNULL)
