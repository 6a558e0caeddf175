"""Products with laid-out weights are products."""

import pytest
import torch

from yolofast.motion import inference

WEIGHTS, BIAS, ROWS = (torch.rand(*shape) - 0.5 for shape in ((48, 20), (20,), (3, 7, 48)))


@pytest.mark.parametrize("without", [False, True], ids=["as torch is built", "without oneDNN"])
def test_rows_times_weights(without, monkeypatch):
    if without:
        monkeypatch.setattr(inference, "_laid_out", lambda weights: None)
    plain = ROWS @ WEIGHTS
    torch.testing.assert_close(inference.Product(WEIGHTS)(ROWS), plain)
    torch.testing.assert_close(inference.Product(WEIGHTS, BIAS)(ROWS), plain + BIAS)
    torch.testing.assert_close(inference.Product(WEIGHTS, BIAS)(ROWS, then="relu"), (plain + BIAS).relu())


def test_an_answer_that_is_wrong_is_not_used(monkeypatch):
    assert inference._laid_out(WEIGHTS.T.contiguous()) is not None or not torch.backends.mkldnn.is_available()
    monkeypatch.setattr(inference.torch, "allclose", lambda *given, **limits: False)
    assert inference._laid_out(WEIGHTS.T.contiguous()) is None
