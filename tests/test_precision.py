"""Devices by name: what cannot be used is said with the reason."""

import pytest
import torch

from yolofast.cli import main
from yolofast.errors import UserError
from yolofast.precision import device_of, usable_device

REASON = "Apple's GPUs are not supported, they have no float64, in which counts and means are kept"


def test_apples_gpus_are_refused_with_the_reason(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--data", "shapes", "--device", "mps"]) == 2
    said = capsys.readouterr().err
    assert f"--device is mps: {REASON}" in said and "fix: --device cpu" in said
    assert not list(tmp_path.iterdir())
    for device in ("mps", torch.device("mps")):
        with pytest.raises(UserError, match=f"the device is mps: {REASON}"):
            usable_device(device)


def test_without_a_name_nobody_is_refused(monkeypatch):
    """On a Mac as anywhere: what is not asked for is not told."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_of("") == device_of("cpu") == torch.device("cpu")
