"""A network as it is evaluated: BatchNorm uses its statistics, and its loss has all the terms that of training has.

Auxiliary maps count in the training loss, so they are computed where a loss is asked for; without them the two curves
could not be compared. The published code leaves them out, and so does a loss that is faithful to it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from yolofast.engine.criterion import Criterion
from yolofast.model.network import Network


@contextmanager
def evaluated(model: Network, criterion: Criterion | None) -> Iterator[None]:
    """Every module is left in the mode it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    if criterion is not None and model.layout.auxiliary and not getattr(criterion, "faithful", False):
        for module in model.modules():  # only containers, graphs and heads ask: whoever changes with use stays as it is
            module.training = not isinstance(module, nn.modules.batchnorm._BatchNorm | nn.modules.dropout._DropoutNd)
    try:
        yield
    finally:
        for module, was_training in modes:
            module.training = was_training
