"""Published files and ours, read by the safe reader."""

import numpy as np
import pytest
import torch

from tests.motion.golden import golden_inputs, golden_model
from yolofast.errors import UserError
from yolofast.motion.predictor import predictor
from yolofast.motion.trackssm import TrackSSM, TrackSSMShape
from yolofast.motion.weights import read_motion, stated


def as_published(model: TrackSSM) -> dict:
    weights = {f"module.{name}": tensor for name, tensor in model.state_dict().items()}
    return {"ddpm": weights, "epoch": 160, "optimizer": torch.optim.Adam(model.parameters()).state_dict()}


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [2, 6])
def test_published_file(tmp_path, blocks):
    model, (rows, _) = golden_model(blocks), golden_inputs()
    torch.save(as_published(model), tmp_path / "published.pth")
    found = read_motion(tmp_path / "published.pth")
    assert found.shape == TrackSSMShape(blocks=blocks)
    assert torch.equal(found(rows), model(rows))
    assert not read_motion(tmp_path / "published.pth", sigmoid=False).shape.sigmoid


@pytest.mark.slow
def test_fine_tuned_file(tmp_path):
    content = {"epoch": 3, "model_state_dict": golden_model(2).state_dict(), "val_loss": 0.05}
    torch.save(content, tmp_path / "tuned.pt")
    assert read_motion(tmp_path / "tuned.pt").shape.blocks == 2


@pytest.mark.slow
def test_ours_says_what_the_weights_do_not(tmp_path):
    shape = TrackSSMShape(blocks=2, timed=True, sigmoid=False, padded_in_front=True)
    torch.save({"model": TrackSSM(shape).state_dict(), "motion": stated(shape)}, tmp_path / "own.pt")
    assert read_motion(tmp_path / "own.pt").shape == shape
    assert read_motion(tmp_path / "own.pt", sigmoid=True).shape == shape, "a file that says it is right"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda weights: {"model.0.conv.weight": torch.zeros(2, 2)}, "not the weights of a motion model"),
        (lambda weights: {**weights, "encoder.mamba_net.embedding.weight": torch.zeros(7, 256)}, "with 7 columns"),
        (lambda weights: {k: v for k, v in weights.items() if "layers.0" not in k}, "blocks 1"),
        (lambda weights: {k: v for k, v in weights.items() if "head_series.5" not in k}, "not in the file"),
        (lambda weights: {k: torch.full_like(v, torch.nan) for k, v in weights.items()}, "NaN"),
    ],
)
def test_files_that_are_none(tmp_path, change, words):
    torch.save(change(golden_model(2).state_dict()), tmp_path / "wrong.pt")
    with pytest.raises(UserError, match=words) as caught:
        read_motion(tmp_path / "wrong.pt")
    assert caught.value.where == str(tmp_path / "wrong.pt")


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [2, 6])
@pytest.mark.parametrize("timed", [True, False])
def test_asked_on_a_cpu_it_says_what_the_network_says(tmp_path, blocks, timed):
    """Also after training, where norms have weights of their own: the golden ones do."""
    shape = TrackSSMShape(blocks=blocks, timed=timed)
    model = golden_model(blocks) if not timed else TrackSSM(shape)
    torch.save(model.state_dict(), tmp_path / "some.pt")
    rows = torch.rand(33, 5, shape.columns, generator=torch.Generator().manual_seed(1))
    ask = predictor(tmp_path / "some.pt", device="cpu")
    with torch.no_grad():
        np.testing.assert_allclose(ask(rows.numpy()), model(rows)[-1].numpy(), atol=2e-6)
    assert ask(rows[:0].numpy()).shape == (0, 4)
    assert predictor(tmp_path / "some.pt", device="cpu") is ask, "read once"


def test_a_device_that_is_none_is_named_as_it_was_given(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    torch.save(TrackSSM(TrackSSMShape(blocks=1)).state_dict(), tmp_path / "some.pt")
    with pytest.raises(UserError, match="motion_device is 9, but no GPU can be used") as caught:
        predictor(tmp_path / "some.pt", device="9")
    assert caught.value.fix.startswith("motion_device=cpu")
