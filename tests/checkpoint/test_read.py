"""Files as they are published and as torch and safetensors write them."""

import resource
import sys

import pytest
import safetensors.torch
import torch
from torch import nn

from tests.checkpoint.files import GRAPH, NAMES, Model, published_modules, save_published
from tests.sample_data import sample
from yolofast.checkpoint.read import read_weights
from yolofast.errors import UserError


def assert_same(tensors, expected):
    assert list(tensors) == list(expected)
    for name, value in expected.items():
        assert tensors[name].dtype == value.dtype
        assert torch.equal(tensors[name], value), name


@pytest.mark.parametrize("legacy", [False, True])
def test_published_checkpoint_needs_no_published_code(tmp_path, legacy):
    _, ema = save_published(tmp_path / "best.pt", legacy=legacy)
    assert "models" not in sys.modules

    file = read_weights(tmp_path / "best.pt")

    assert_same(file.tensors, ema.state_dict())
    assert "model.2.anchors" in file.tensors
    assert "model.2.scratch" not in file.tensors  # not persistent, so in no state dict
    assert file.tensors["model.0.conv.weight"].dtype == torch.float16
    assert (file.kind, file.source, file.epoch, file.nc) == ("yolov7 checkpoint", "ema", 3, 2)
    assert file.names == tuple(NAMES)
    assert file.graph == GRAPH
    assert file.head_config is None


def test_without_ema_the_model_is_taken(tmp_path):
    model, _ = save_published(tmp_path / "x.pt", with_ema=False)
    file = read_weights(tmp_path / "x.pt")
    assert file.source == "model"
    assert_same(file.tensors, model.state_dict())


def test_bare_module(tmp_path):
    model = Model()
    with published_modules():
        torch.save(model, tmp_path / "x.pt")
    file = read_weights(tmp_path / "x.pt")
    assert (file.kind, file.source, file.nc) == ("yolov7 checkpoint", "file", 2)
    assert_same(file.tensors, model.state_dict())


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_state_dict_in_every_protocol(tmp_path, protocol):
    state = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)).state_dict()
    torch.save(state, tmp_path / "x.pt", pickle_protocol=protocol)
    file = read_weights(tmp_path / "x.pt")
    assert (file.kind, file.source, file.names, file.nc) == ("state dict", "file", None, None)
    assert_same(file.tensors, state)


@pytest.mark.parametrize("key", ["model", "state_dict", "ema"])
def test_nested_state_dict_parameters_and_ddp_prefix(tmp_path, key):
    module = nn.Linear(3, 2)
    torch.save({key: {f"module.{n}": p for n, p in module.named_parameters()}, "epoch": 7}, tmp_path / "x.pt")
    file = read_weights(tmp_path / "x.pt")
    assert (file.kind, file.source, file.epoch) == ("state dict", key, 7)
    assert_same(file.tensors, module.state_dict())


def test_prefix_stays_when_only_some_names_have_it(tmp_path):
    torch.save({"module.a": torch.ones(1), "b": torch.ones(1)}, tmp_path / "x.pt")
    assert list(read_weights(tmp_path / "x.pt").tensors) == ["module.a", "b"]


def test_yolox_checkpoint(tmp_path):
    state = {"backbone.backbone.stem.conv.weight": torch.rand(2, 3), "head.stems.0.weight": torch.rand(2)}
    torch.save({"start_epoch": 5, "model": state, "optimizer": {"state": {}}}, tmp_path / "x.pth")
    file = read_weights(tmp_path / "x.pth")
    assert (file.kind, file.source, file.epoch) == ("yolox checkpoint", "model", 5)
    assert_same(file.tensors, state)


def test_published_yolox_nano():
    file = read_weights(sample("yolox_nano.pth"))
    assert file.kind == "yolox checkpoint"
    assert_same(file.tensors, torch.load(sample("yolox_nano.pth"), weights_only=True, map_location="cpu")["model"])


@pytest.mark.parametrize("legacy", [False, True])
def test_every_dtype_views_scalars_and_empty_tensors(tmp_path, legacy):
    base = torch.rand(6, 4)
    dtypes = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool")
    state = {kind: torch.ones(3, dtype=getattr(torch, kind)) for kind in dtypes}
    state |= {"view": base[2:, 1], "transposed": base.t(), "scalar": torch.tensor(3), "empty": torch.empty(0, 7)}
    state |= {"channels_last": torch.rand(1, 3, 4, 5).contiguous(memory_format=torch.channels_last)}
    torch.save(state, tmp_path / "x.pt", _use_new_zipfile_serialization=not legacy)
    tensors = read_weights(tmp_path / "x.pt").tensors
    assert_same(tensors, state)
    assert tensors["view"].untyped_storage().data_ptr() == tensors["transposed"].untyped_storage().data_ptr()


def test_names_as_a_dict(tmp_path):
    torch.save({"model": {"w": torch.ones(1)}, "names": {0: "a", 1: "b"}, "nc": 2}, tmp_path / "x.pt")
    assert read_weights(tmp_path / "x.pt").names == ("a", "b")
    torch.save({"model": {"w": torch.ones(1)}, "names": {1: "a", 2: "b"}}, tmp_path / "x.pt")
    assert read_weights(tmp_path / "x.pt").names is None


def test_safetensors(tmp_path):
    state = {"module.a": torch.rand(2, 3), "module.b": torch.ones(1, dtype=torch.bfloat16)}
    bare = {name.removeprefix("module."): value for name, value in state.items()}
    safetensors.torch.save_file(state, tmp_path / "x.pt")  # by content, not by suffix
    file = read_weights(tmp_path / "x.pt")
    assert (file.kind, file.names, file.graph) == ("safetensors", None, None)
    assert_same(dict(sorted(file.tensors.items())), bare)


def test_safetensors_with_null_metadata(tmp_path):
    header = b'{"__metadata__":null,"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    (tmp_path / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    assert read_weights(tmp_path / "x.safetensors").nc is None


def test_safetensors_larger_than_its_header_says_is_refused_without_reading_it(tmp_path):
    header = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    with (tmp_path / "x.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 * 2**30)  # sparse: takes no room on the disk, but would take 8 GiB of memory
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError, match="damaged"):
        read_weights(tmp_path / "x.safetensors")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 2**18, "KiB"


def test_files_larger_than_any_model_are_refused(tmp_path):
    with (tmp_path / "x.pt").open("wb") as file:
        file.truncate(17 * 2**30)
    with pytest.raises(UserError, match="larger than 16 GiB"):
        read_weights(tmp_path / "x.pt")


def test_what_is_no_weight_file(tmp_path):
    for content, message in ((b"", "empty"), (b"<!doctype html><html>", "no weight file"), (b"PK", "no weight file")):
        (tmp_path / "x.pt").write_bytes(content)
        with pytest.raises(UserError, match=message) as caught:
            read_weights(tmp_path / "x.pt")
        assert caught.value.where == str(tmp_path / "x.pt")
        assert caught.value.fix
    with pytest.raises(UserError, match="not a file"):
        read_weights(tmp_path)
    with pytest.raises(UserError, match="no such file"):
        read_weights(tmp_path / "none.pt")


def test_no_weights_lists_what_was_there(tmp_path):
    torch.save({"epoch": 3, "optimizer": {"state": {}}}, tmp_path / "x.pt")
    with pytest.raises(UserError, match="'epoch', 'optimizer'"):
        read_weights(tmp_path / "x.pt")
    torch.save([1, 2], tmp_path / "x.pt")
    with pytest.raises(UserError, match="a list"):
        read_weights(tmp_path / "x.pt")


def test_newer_format_is_refused(tmp_path):
    torch.save({"format": "yolofast", "version": 2, "model": {"w": torch.ones(1)}}, tmp_path / "x.pt")
    with pytest.raises(UserError, match="version 2"):
        read_weights(tmp_path / "x.pt")
