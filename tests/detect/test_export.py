"""Networks go through `torch.export` as docs/yolox.md shows: its snippet is run as it is printed."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from yolofast import build_model, decode

PAGE = Path(__file__).parents[2] / "docs" / "yolox.md"


def snippet():
    text = PAGE.read_text(encoding="utf-8").partition("\n## Exporting\n")[2]
    return re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]


def published_like(path):
    """Statistics that are not those of a fresh network, so that folding them matters."""
    torch.manual_seed(3)
    model = build_model("yolox-nano")
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 2)
    torch.save({"model": model.state_dict()}, path)
    return model.eval()


@pytest.mark.slow
def test_the_snippet_exports_what_the_network_computes_for_any_batch(tmp_path, monkeypatch, one_thread):
    monkeypatch.chdir(tmp_path)
    network = published_like(tmp_path / "yolox_nano.pth")
    names = {}
    exec(compile(snippet(), str(PAGE), "exec"), names)
    assert (tmp_path / "yolox_nano.pt2").stat().st_size > 1e6
    exported = names["program"].module()
    for batch in (1, 3):
        images = 255 * torch.rand(batch, *names["images"].shape[1:])
        with torch.no_grad():
            expected, found = decode(network(images), network), exported(images)
        assert expected.std(1).min() > 0, "boxes and scores differ from cell to cell"
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
