"""One BatchNorm layer on some images of a batch, and all that training takes from it."""

import torch
from torch import nn

from yolofast.train.distributed.averaged_step import synchronise_batch_norm

PRECISIONS = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
_IMAGES, _CHANNELS = 5, 3


def normalised(images: slice, precision: str, given: str | None = None) -> dict[str, list]:
    """Over all ranks, if there are several, of maps that were rounded to `given`, which is `precision` unless told."""
    torch.manual_seed(0)
    dtype = PRECISIONS[precision]
    means = torch.tensor([0.5, 5.0, 50.0])[:, None, None]  # squares minus a squared mean would lose three digits
    maps = torch.randn(_IMAGES, _CHANNELS, 7, 9, dtype=torch.float64) + means
    pull = torch.randn(maps.shape, dtype=torch.float64)
    rounded = maps[images].to(PRECISIONS[given or precision])
    own = rounded.to(dtype).contiguous(memory_format=torch.channels_last).requires_grad_()
    layer = nn.BatchNorm2d(_CHANNELS, eps=1e-3, momentum=0.03)
    nn.init.uniform_(layer.weight, 0.5, 2.0)
    layer = synchronise_batch_norm(layer.to(torch.promote_types(dtype, torch.float32)), torch.device("cpu"))
    made = layer(own)
    assert made.dtype is dtype
    (made * pull[images]).sum().backward()
    return {
        "made": made.tolist(),
        "gradient": own.grad.tolist(),
        "weight": layer.weight.grad.tolist(),
        "bias": layer.bias.grad.tolist(),
        "mean": layer.running_mean.tolist(),
        "variance": layer.running_var.tolist(),
    }
