"""Networks on the GPU: the compiled forward and decoding give what eager gives."""

import pytest
import torch

from yolofast import build_model, decode


@pytest.mark.parametrize("cfg", ["yolov7-tiny", "yolov7-tiny-1b4h"])
def test_compiled_predictions_are_those_of_eager(cfg):
    """Every level counts: torch 2.11 was seen to miscompute the last one when decoded levels are concatenated."""
    torch._dynamo.reset()
    torch.backends.cudnn.allow_tf32 = False
    model = build_model(cfg).eval().cuda().to(memory_format=torch.channels_last)
    images = torch.rand(2, 3, 320, 320, device="cuda").contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        eager = decode(model(images), model)
        compiled = torch.compile(lambda x: decode(model(x), model), fullgraph=True)(images)
    assert (compiled - eager).abs().max() <= 1e-3 * eager.abs().max()
