"""Loading into toy models: everything, a part, or a refusal that leaves the model alone."""

import pytest
import torch
from torch import nn

from tests.checkpoint.files import Model, save_published
from yolofast.checkpoint.load import apply_weights, load_weights
from yolofast.checkpoint.read import read_weights
from yolofast.errors import UserError


def net(classes: int = 2) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Conv2d(4, classes, 1))


@pytest.fixture
def saved(tmp_path):
    """A path to the saved weights of `net()`, and those weights."""
    module = net()
    module[1].running_mean.fill_(0.5)
    torch.save(module.state_dict(), tmp_path / "w.pt")
    return tmp_path / "w.pt", module.state_dict()


def copy_of(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


def equal(left, right):
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def test_everything(saved):
    path, state = saved
    module = net()
    report = load_weights(module, path)
    assert equal(module.state_dict(), state)
    assert str(report) == "loaded 9 of 9 tensors from w.pt (state dict)"
    assert (report.skipped, report.missing, report.nonfinite, report.total) == ((), (), 0, 9)
    assert report.rows()[0] == ("loaded", "0.weight", "4×3×1×1", "4×3×1×1")
    assert ("loaded", "1.num_batches_tracked", "scalar", "scalar") in report.rows()


def test_published_half_file_into_a_float_model(tmp_path):
    _, ema = save_published(tmp_path / "best.pt")
    module = Model()
    report = load_weights(module, str(tmp_path / "best.pt"))
    assert equal(module.state_dict(), ema.float().state_dict())
    assert (report.kind, report.names, report.nc, report.epoch) == ("yolov7 checkpoint", ("cat", "dog"), 2, 3)


def test_float_file_into_a_half_model(saved):
    path, _ = saved
    module = net().half()
    load_weights(module, path)
    assert module[0].weight.dtype == torch.float16


def test_other_shape_is_refused_and_changes_nothing(saved):
    path, _ = saved
    module = net(classes=5)
    before = copy_of(module)
    with pytest.raises(UserError) as caught:
        load_weights(module, path)
    assert "2 differ in shape, type or meaning: 2.weight (file 2×4×1×1, model 5×4×1×1)" in str(caught.value)
    assert "(7 of 9 tensors do)" in str(caught.value)
    assert "transfer=True" in caught.value.fix
    assert "--transfer-weights" not in caught.value.fix, "a function has no flags"
    assert equal(module.state_dict(), before)


def test_no_flag_is_named_that_a_command_does_not_have(saved):
    """`val` needs the whole network."""
    path, _ = saved
    with pytest.raises(UserError) as caught:
        apply_weights(net(classes=5), read_weights(path), path, transfer=False)
    assert "transfer" not in caught.value.fix and "--cfg" in caught.value.fix


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (net()[:2], "2 are in the file but not in the model: 2.weight"),
        (nn.Sequential(*net(), nn.Conv2d(2, 2, 1)), "2 are in the model but not in the file: 3.weight"),
    ],
)
def test_missing_and_extra_are_refused(saved, module, message):
    before = copy_of(module)
    with pytest.raises(UserError, match=message):
        load_weights(module, saved[0])
    assert equal(module.state_dict(), before)


def test_absent_counters_are_tolerated(tmp_path):
    state = net().state_dict()
    del state["1.num_batches_tracked"]
    torch.save(state, tmp_path / "w.pt")
    report = load_weights(net(), tmp_path / "w.pt")
    assert [entry.name for entry in report.missing] == ["1.num_batches_tracked"]
    assert (len(report.loaded), report.total) == (8, 9)


def test_transfer_loads_what_matches(saved):
    path, state = saved
    module = nn.Sequential(*net(classes=5), nn.Conv2d(5, 1, 1))
    before = copy_of(module)
    report = load_weights(module, path, transfer=True)
    after = module.state_dict()
    assert torch.equal(after["0.weight"], state["0.weight"])
    assert torch.equal(after["1.running_mean"], state["1.running_mean"])
    assert torch.equal(after["2.weight"], before["2.weight"])
    assert (len(report.loaded), report.total) == (7, 11)
    assert [(entry.name, entry.reason) for entry in report.skipped] == [
        ("2.weight", "shape differs"),
        ("2.bias", "shape differs"),
    ]
    assert [entry.name for entry in report.missing] == ["2.weight", "2.bias", "3.weight", "3.bias"]
    assert report.rows()[-3:] == [
        ("skipped: shape differs", "2.bias", "2", "5"),
        ("missing: not in the file", "3.weight", "-", "1×5×1×1"),
        ("missing: not in the file", "3.bias", "-", "1"),
    ]
    assert str(report).splitlines()[0] == "loaded 7 of 11 tensors from w.pt (state dict)"


def test_transfer_of_nothing_is_refused(saved):
    path, _ = saved
    module = nn.Linear(2, 2)
    before = copy_of(module)
    with pytest.raises(UserError, match="none of its 9 tensors"):
        load_weights(module, path, transfer=True)
    assert equal(module.state_dict(), before)


def test_counts_are_not_loaded_as_weights(tmp_path):
    torch.save({"weight": torch.ones(2, 2, dtype=torch.int64), "bias": torch.ones(2)}, tmp_path / "w.pt")
    report = load_weights(nn.Linear(2, 2), tmp_path / "w.pt", transfer=True)
    assert [(entry.name, entry.reason) for entry in report.skipped] == [("weight", "type differs")]


@pytest.mark.parametrize("name", ["model.77.ia.0.implicit", "model.77.im.0.implicit", "model.77.m2.0.weight"])
def test_training_file_into_a_deploy_model(tmp_path, name):
    torch.save({**nn.Linear(2, 2).state_dict(), name: torch.ones(1)}, tmp_path / "w.pt")
    with pytest.raises(UserError, match="yolofast reparam"):
        load_weights(nn.Linear(2, 2), tmp_path / "w.pt")


def test_nonfinite_is_loaded_and_counted(tmp_path):
    torch.save({"weight": torch.full((2, 2), torch.nan), "bias": torch.tensor([1.0, torch.inf])}, tmp_path / "w.pt")
    report = load_weights(nn.Linear(2, 2), tmp_path / "w.pt")
    assert report.nonfinite == 2
    assert "2 loaded tensors hold NaN or infinity" in str(report)
