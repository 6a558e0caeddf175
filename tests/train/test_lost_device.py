"""A GPU that fails in the middle of a run, simulated: one message, a mark, and a run that resumes to the same bits."""

import os

import pytest
import torch

from tests.train.small_run import flags, state_of
from tests.train.small_step import small_batch, small_step
from tests.train.test_resume import assert_same_state
from yolofast.cli import main
from yolofast.precision import device_is_lost, memory_ran_out
from yolofast.train.gears.gear_box import GearBox
from yolofast.train.step import StepKind, TrainStep

ALONE = StepKind(sums=False, updates=True)
LOST = torch.AcceleratorError("CUDA error: an illegal memory access was encountered\nmore")


@pytest.mark.slow
def test_a_run_whose_gpu_fails_stops_and_resumes(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    run, steps = TrainStep.run, []

    def fails_in_the_second_epoch(self, *arguments):
        steps.append(self)
        if len(steps) > 4:  # of three in an epoch
            raise LOST
        run(self, *arguments)

    ended = []
    with monkeypatch.context() as patch:
        patch.setattr(TrainStep, "run", fails_in_the_second_epoch)
        patch.setattr(os, "_exit", ended.append)
        assert main(["train", *flags(tmp_path, epochs=2, name="lost")]) == 2
    assert ended == [2], "nothing is freed on a GPU that does not answer: torch would abort"
    folder, said = tmp_path / "runs" / "lost", capsys.readouterr()
    assert "the GPU has failed (AcceleratorError: CUDA error: an illegal memory access" in said.err
    assert f"train --resume {folder}" in said.err and "Traceback" not in said.err
    assert "a lower gear" not in said.out
    assert (folder / "interrupted.json").exists()
    assert main(["train", "--resume", str(folder)]) == 0
    assert main(["train", *flags(tmp_path, epochs=2, name="whole")]) == 0
    assert_same_state(state_of(tmp_path, "lost"), state_of(tmp_path, "whole"))
    assert not (folder / "interrupted.json").exists()


class FailedCapture:
    """Torch raises it as the same class."""

    def run(self, batch, kind):
        raise torch.AcceleratorError("CUDA error: operation not permitted when stream is capturing")


def test_a_capture_that_fails_is_no_lost_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)  # it answers
    said, step = [], small_step()
    box = GearBox(step, "compile", 2, 0, said.append, one_shape=False)
    box._plain = FailedCapture()
    box.run(small_batch(0), ALONE)
    assert len(said) == 1 and said[0].endswith("continues in a lower gear")
    assert step.losses.means()["box"] > 0


def test_a_lost_gpu_has_no_lower_gear():
    """Here nothing answers: there is no GPU."""
    said, box = [], GearBox(small_step(), "compile", 2, 0, pytest.fail, one_shape=False)
    box._plain = FailedCapture()
    with pytest.raises(torch.AcceleratorError):
        box.run(small_batch(0), ALONE)
    assert said == []


def test_errors_are_told_apart():
    allocator = RuntimeError("[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory: you …")
    driver = torch.AcceleratorError("CUDA error: out of memory")
    library = RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")
    for error in (allocator, driver, library, torch.OutOfMemoryError(), MemoryError()):
        assert memory_ran_out(error)
    for error in (RuntimeError("shapes differ"), ValueError("out of memory"), LOST):
        assert not memory_ran_out(error)
    assert device_is_lost(LOST) and device_is_lost(RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"))
    assert not device_is_lost(RuntimeError("shapes differ")) and not device_is_lost(ValueError("CUDA error"))
