"""Our own checkpoints: plain, atomic, readable by torch alone, and stripped ones."""

import math
import os
import sys
from collections import OrderedDict

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

from tests import programs
from tests.checkpoint.files import GRAPH, NAMES, save_published
from tests.patience import PATIENCE
from yolofast.checkpoint.load import load_weights
from yolofast.checkpoint.read import read_weights
from yolofast.checkpoint.save import model_content, save_checkpoint, strip_checkpoint
from yolofast.errors import UserError


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1)
        self.bn = nn.BatchNorm2d(4)
        self.register_buffer("anchors", torch.tensor([[1.0001, 2.0], [3.0, 4.0]]))
        self.graph_yaml, self.nc, self.names, self.head_config = GRAPH, 2, tuple(NAMES), {"heads": {0: [1]}}


def test_round_trip_by_us_and_by_torch_alone(tmp_path):
    model, ema = Net(), Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model.conv(torch.ones(1, 3, 2, 2)).sum().backward()
    optimizer.step()
    state = {"generator": 1 << 127, "pair": (1, 2.5), "none": None, "inf": math.inf}
    save_checkpoint(tmp_path / "last.pt", model_content(model, ema, 4, optimizer=optimizer.state_dict(), state=state))

    file = read_weights(tmp_path / "last.pt")
    assert (file.kind, file.source, file.epoch, file.nc) == ("yolofast checkpoint", "ema", 4, 2)
    assert (file.names, file.graph, file.head_config) == (tuple(NAMES), GRAPH, {"heads": {0: [1]}})
    assert all(torch.equal(file.tensors[name], value) for name, value in ema.state_dict().items())

    content = torch.load(tmp_path / "last.pt", weights_only=True)
    assert (content["format"], content["version"], content["state"]) == ("yolofast", 1, state)
    assert torch.equal(content["model"]["conv.weight"], model.conv.weight)
    assert not content["model"]["conv.weight"].requires_grad
    torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9).load_state_dict(content["optimizer"])
    assert os.listdir(tmp_path) == ["last.pt"]


def test_without_ema_and_without_description(tmp_path):
    model = nn.Linear(2, 2)
    file = read_weights(save_checkpoint(tmp_path / "x.pt", model_content(model)))
    assert (file.source, file.epoch, file.nc, file.names, file.graph) == ("model", -1, None, None, None)
    load_weights(nn.Linear(2, 2), tmp_path / "x.pt")


def test_parameters_views_and_shared_tensors_are_plain(tmp_path):
    large = torch.rand(1000, 1000)
    content = {
        "model": OrderedDict(p=nn.Parameter(torch.ones(2)), v=large[0], e=torch.ones(1).expand(50), t=large[:2].t())
    }
    path = save_checkpoint(tmp_path / "x.pt", content)
    assert path.stat().st_size < 50_000
    assert type(torch.load(path, weights_only=True)["model"]) is dict
    tensors = read_weights(path).tensors
    assert all(torch.equal(tensors[name], value) for name, value in content["model"].items())


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (np.float64(1), "numpy.float64"),
        (np.ones(2), "numpy.ndarray"),
        (nn.Linear(1, 1), "Linear"),
        ({1, 2}, "set"),
        (torch.float32, "dtype"),
        (b"x", "bytes"),
        (1 << 300, "int"),
        (torch.ones(1, dtype=torch.complex64), "complex64"),
        (torch.ones(2, 2).to_sparse(), "sparse"),
        (torch.ones(2, device="meta"), "meta"),
    ],
)
def test_other_values_are_named_with_their_place(tmp_path, value, named):
    with pytest.raises(UserError, match=named) as caught:
        save_checkpoint(tmp_path / "x.pt", {"state": [1, {"best": value}]})
    assert "x.pt['state'][1]['best']" in str(caught.value)
    assert not any(tmp_path.iterdir())


def test_odd_keys_and_endless_content(tmp_path):
    with pytest.raises(UserError, match=r"key 1\.5"):
        save_checkpoint(tmp_path / "x.pt", {"a": {1.5: 1}})
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(UserError, match="nested"):
        save_checkpoint(tmp_path / "x.pt", {"a": endless})


@pytest.mark.parametrize("step", ["torch.save", "os.fsync", "pathlib.Path.replace"])
def test_failure_leaves_the_old_file(tmp_path, monkeypatch, step):
    path = save_checkpoint(tmp_path / "x.pt", {"model": {"w": torch.ones(2)}})
    before = path.read_bytes()

    def fail(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(step, fail)
    with pytest.raises(UserError, match="No space left on device") as caught:
        save_checkpoint(path, {"model": {"w": torch.zeros(2)}})
    assert caught.value.where == str(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["x.pt"]


@pytest.mark.slow
def test_real_write_failure_midway(tmp_path):
    """A file-size limit fails inside torch's own writer, as a full disk does."""
    path = save_checkpoint(tmp_path / "x.pt", {"model": {"w": torch.ones(2)}})
    before = path.read_bytes()
    script = f"""
import resource, signal, torch
from yolofast.checkpoint.save import save_checkpoint
from yolofast.errors import UserError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    save_checkpoint({str(path)!r}, {{"model": {{"w": torch.ones(1_000_000)}}}})
except UserError as error:
    print("refused:", error)
"""
    done = programs.run([sys.executable, "-c", script], timeout=PATIENCE)
    assert done.stdout.startswith("refused:"), done
    assert "could not be written: File too large" in done.stdout and "inline_container" not in done.stdout
    assert done.returncode == 0
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["x.pt"]


def test_missing_folder(tmp_path):
    with pytest.raises(UserError, match="No such file or directory"):
        save_checkpoint(tmp_path / "none" / "x.pt", {"a": 1})


def test_strip_own_checkpoint(tmp_path):
    model, ema = Net(), Net()
    ema.bn.running_var.fill_(1e6)  # more than half precision can hold
    path = save_checkpoint(tmp_path / "last.pt", model_content(model, ema, 9, optimizer={"lr": 1.0}))
    assert strip_checkpoint(path, tmp_path / "best.pt") == tmp_path / "best.pt"
    content = torch.load(tmp_path / "best.pt", weights_only=True)
    assert "optimizer" not in content
    file = read_weights(tmp_path / "best.pt")
    assert (file.kind, file.source, file.epoch, file.nc) == ("yolofast checkpoint", "model", -1, 2)
    assert (file.names, file.graph, file.head_config) == (tuple(NAMES), GRAPH, {"heads": {0: [1]}})
    assert torch.equal(file.tensors["conv.weight"], ema.conv.weight.half())
    assert torch.equal(file.tensors["anchors"], ema.anchors)
    assert file.tensors["bn.num_batches_tracked"].dtype == torch.int64
    assert torch.equal(file.tensors["bn.running_var"], ema.bn.running_var)
    assert read_weights(path).epoch == 9


def test_strip_published_in_place(tmp_path):
    path = tmp_path / "best.pt"
    _, ema = save_published(path)
    size = path.stat().st_size
    strip_checkpoint(path)
    file = read_weights(path)
    assert path.stat().st_size < size
    assert (file.kind, file.names, file.graph) == ("yolofast checkpoint", tuple(NAMES), GRAPH)
    assert all(
        torch.equal(file.tensors[name], value.to(file.tensors[name].dtype)) for name, value in ema.state_dict().items()
    )
    assert file.tensors["model.2.anchors"].dtype == torch.float32


def test_strip_safetensors_needs_a_target(tmp_path):
    safetensors.torch.save_file({"w": torch.rand(2)}, tmp_path / "x.safetensors")
    with pytest.raises(UserError, match="torch file"):
        strip_checkpoint(tmp_path / "x.safetensors")
    assert (
        read_weights(strip_checkpoint(tmp_path / "x.safetensors", tmp_path / "x.pt")).tensors["w"].dtype
        == torch.float16
    )
