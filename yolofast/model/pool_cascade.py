"""Max-pools of one map with growing windows, each computed from the one before.

The largest of 9×9 values is the largest of 5×5 largest of 5×5, so after a window of j one of k costs as much as
one of k - j + 1. Values are the same to the bit; where several places tie, gradients may choose another of them.
"""

from collections.abc import Mapping, Sequence

from torch import nn

from yolofast.model.blocks import SP
from yolofast.model.graph import LayerSpec


def cascade_pools(specs: Sequence[LayerSpec], modules: Sequence[nn.Module]) -> Mapping[int, int]:
    """Shrinks the windows of `SP` layers that can build on an earlier one; says which layer each then reads."""
    reads: dict[int, int] = {}
    widest: dict[int, tuple[int, int]] = {}  # source -> layer and its window
    for spec, module in zip(specs, modules, strict=True):
        if not isinstance(module, SP) or module.stride != 1:
            continue
        window = int(module.kernel_size)  # type: ignore[arg-type]
        before, smaller = widest.get(spec.sources[0], (spec.index, 0))
        if window % 2 and 0 < smaller < window:
            reads[spec.index] = before
            module.kernel_size, module.padding = window - smaller + 1, (window - smaller) // 2
        if window % 2 and window > smaller:
            widest[spec.sources[0]] = (spec.index, window)
    return reads
