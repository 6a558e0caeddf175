"""A checkpoint in the published form – a pickled `models.yolo.Model` in half precision – into a real YOLOv7 graph."""

import sys
import types

import numpy as np
import pytest
import torch
from torch import nn

from tests.golden.inputs import fill
from yolofast import build_model, decode, load_weights
from yolofast.cli import main

NAMES = [f"class {i}" for i in range(80)]


def as_published(module, classes):
    """The same module tree under the published class paths; torch's own modules stay what they are."""
    children = {name: as_published(child, classes) for name, child in module._modules.items() if child is not None}
    if type(module).__module__.startswith("torch.nn"):
        module._modules.update(children)
        return module
    name = {"Network": "Model"}.get(type(module).__name__, type(module).__name__)
    path = "models.yolo" if name in ("Model", "IDetect", "IAuxDetect", "Detect") else "models.common"
    kind = classes.setdefault(name, type(name, (nn.Module,), {"__module__": path}))
    setattr(sys.modules[path], name, kind)
    copy = kind()
    copy._parameters, copy._buffers = module._parameters, dict(module._buffers)
    copy._buffers.pop("class_columns", None)
    copy._modules = children
    return copy


@pytest.fixture
def published(tmp_path):
    """Writes a network as the published code would; its classes are gone again when the file is read."""

    def write(model):
        for path in ("models", "models.yolo", "models.common"):
            sys.modules[path] = types.ModuleType(path)
        try:
            pickled = as_published(model, {}).half()
            pickled.names, pickled.yaml, pickled.nc = NAMES, {**model.graph_yaml, "ch": 3}, 80
            content = {
                "epoch": 299,
                "best_fitness": np.array([0.5]),
                "training_results": "text",
                "model": pickled,
                "ema": None,
                "optimizer": None,
                "wandb_id": None,
            }
            torch.save(content, tmp_path / "yolov7.pt")
        finally:
            for path in ("models", "models.yolo", "models.common"):
                del sys.modules[path]
        return tmp_path / "yolov7.pt"

    return write


@pytest.mark.slow
@pytest.mark.parametrize(("cfg", "tensors"), [("yolov7-tiny", 344), ("yolov7", 566)])
def test_a_published_checkpoint_loads_and_predicts(published, cfg, tensors):
    path = published(fill(build_model(cfg)))
    model = build_model(cfg)
    report = load_weights(model, path)
    assert (len(report.loaded), report.total, report.nc, report.epoch) == (tensors, tensors, 80, 299)
    assert model.names == tuple(NAMES)
    images = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        exact = fill(build_model(cfg)).eval()
        expected, loaded = decode(exact(images), exact), decode(model.eval()(images), model)
    assert (loaded - expected).abs().max() / expected.abs().max() < 5e-3  # the file is in half precision


@pytest.mark.slow
def test_transfer_to_1b4h_and_info_without_a_cfg(published, capsys):
    path = str(published(fill(build_model("yolov7-tiny"))))
    assert str(load_weights(build_model("yolov7-tiny-1b4h"), path, transfer=True)).startswith(
        "loaded 332 of 356 tensors from yolov7.pt (yolov7 checkpoint)"
    )
    assert main(["info", "--weights", path]) == 0
    assert "6,228,762" in capsys.readouterr().out
