"""What cannot end well is said before the first epoch, and memory that runs out on the CPU is one message."""

import shutil
from collections import namedtuple

import pytest
import torch

from tests.train.small_run import flags
from yolofast.cli import main

pytestmark = pytest.mark.slow

Usage = namedtuple("Usage", "total used free")


def test_a_disk_without_room_for_a_checkpoint(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(10**9, 10**9, 60_000))
    assert main(["train", *flags(tmp_path)]) == 2
    said = capsys.readouterr()
    assert "a checkpoint takes" in said.err and "--project" in said.err and "epoch 1/3" not in said.out
    assert not (tmp_path / "runs" / "exp" / "results.csv").exists()


def test_memory_that_runs_out_leaves_no_room_for_a_copy(tmp_path, monkeypatch, capsys):
    def refuse(*_, **__):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4194304000 bytes.")

    def step(*_):
        monkeypatch.setattr("yolofast.train.guard.on_host", lambda state: refuse() if state else state)
        refuse()

    monkeypatch.setattr(torch.nn.Conv2d, "forward", lambda *_: step())
    assert main(["train", *flags(tmp_path)]) == 2
    assert "memory ran out with a batch of 8" in capsys.readouterr().err


def test_a_run_that_ended_by_its_steps_says_so_when_it_is_resumed(tmp_path, capsys):
    assert main(["train", *flags(tmp_path), "--max-steps", "3"]) == 0
    capsys.readouterr()
    assert main(["train", "--resume", str(tmp_path / "runs" / "exp"), "--epochs", "5"]) == 0
    assert "--max-steps 3 is reached: stopping" in capsys.readouterr().out
