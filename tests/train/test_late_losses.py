"""Losses read on the way equal those of the end of an epoch. That reading never waits only a GPU can show."""

import pytest
import torch

from yolofast.structures import LossTerms
from yolofast.train.display import LateLosses
from yolofast.train.step import RunningLosses


def terms(value):
    part = torch.tensor(value)
    return LossTerms(part * 8, {"box": part, "obj": part * 2, "cls": part * 3}, times_images=True)


def test_means_so_far_and_again_after_an_epoch():
    running = RunningLosses(torch.device("cpu"), ("box", "obj", "cls"))
    late = LateLosses(running)
    running.add(terms(1.0), 8)
    running.add(terms(3.0), 8)
    assert late.look() == pytest.approx({"box": 2, "obj": 4, "cls": 6, "total": 2})
    assert late.look() == running.means()
    running.reset()
    late.forget()
    running.add(terms(5.0), 8)
    assert late.look()["box"] == 5
