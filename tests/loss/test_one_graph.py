"""Every YOLOv7 loss is one graph when compiled."""

import pytest
import torch

from tests.loss.criteria import KINDS, criterion_and_maps, random_rows
from tests.map_reader import gradients
from yolofast.structures import Targets

PARTS_OF_OTHERS = ("anchor", "bin-anchor", "heads-anchor")
"""They assign as other kinds do, and have the heads of other kinds; tests/train/losses compiles the first."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in PARTS_OF_OTHERS])
def test_compiles_as_one_graph(kind):
    """OTA as published; the default is compiled by tests/train/losses."""
    loss, raw = criterion_and_maps(kind, faithful=kind == "ota")
    targets = Targets.from_rows(random_rows(12), 2)

    def step(*some):
        return loss(some, targets).total

    expected = step(*raw)
    torch._dynamo.reset()
    found = torch.compile(step, fullgraph=True, backend="eager")(*raw)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)
    for gradient, other in zip(gradients(found, raw), gradients(expected, raw), strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-5, atol=1e-8)
