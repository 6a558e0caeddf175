"""What a weight file holds, counted without building a tensor."""

import pytest
import torch
from safetensors.torch import save_file

from yolofast.checkpoint.read import contents_of
from yolofast.errors import UserError


def test_entries_and_their_bytes(tmp_path):
    state = {0: {"momentum_buffer": torch.zeros(1000)}}
    content = {
        "epoch": 3,
        "model": {"a": torch.zeros(1000).half(), "n": torch.tensor(3)},
        "ema": None,
        "optimizer": {"state": state, "param_groups": [{"lr": 0.1}]},
    }
    for new_format in (True, False):
        torch.save(content, tmp_path / "a.pt", _use_new_zipfile_serialization=new_format)
        assert contents_of(tmp_path / "a.pt") == {"optimizer (float32)": 4000, "model (float16)": 2008}


def test_shared_weights_count_once(tmp_path):
    weight = torch.zeros(100)
    torch.save({"model": {"a": weight, "b": weight, "c": weight[:50]}}, tmp_path / "a.pt")
    assert contents_of(tmp_path / "a.pt") == {"model (float32)": 400}


def test_files_of_weights_alone(tmp_path):
    torch.save({"a": torch.zeros(10), "b": torch.zeros(10)}, tmp_path / "a.pt")
    assert contents_of(tmp_path / "a.pt") == {"weights (float32)": 80}
    save_file({"a": torch.zeros(10)}, tmp_path / "a.safetensors")
    assert list(contents_of(tmp_path / "a.safetensors")) == ["weights"]


def test_pickled_modules_are_looked_into(tmp_path):
    torch.save({"model": torch.nn.Conv2d(3, 8, 1).half(), "ema": None}, tmp_path / "a.pt")
    assert contents_of(tmp_path / "a.pt") == {"model (float16)": 2 * (24 + 8)}


def test_damage_is_said(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        contents_of(tmp_path / "none.pt")
    (tmp_path / "a.pt").write_bytes(b"PK\x03\x04 and nothing more")
    with pytest.raises(UserError, match="cut or overwritten"):
        contents_of(tmp_path / "a.pt")
