"""One step: samples are cut, predicted, compared, and the weights move. On a GPU all of it is one CUDA graph.

The order of an epoch and the place in it live on the device, and so do the learning rate and the sums of the losses.
So a replayed graph needs nothing from the host.
"""

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from yolofast.motion.trackssm import TrackSSM, loss_of
from yolofast.motion.training.samples import Samples, TrackAugmentation
from yolofast.optim.optimizer import build_optimizer, refill
from yolofast.train.gears.gears import captured_into, tried_only

_BETA1 = 0.9
_WARM_UP_RUNS = 3


class FlatWeights:
    """All weights of a model in one piece of memory: an optimizer moves them by a few kernels, not by hundreds. The
    model's parameters are views of `whole` from then on.

    Those whose names differ by the number of a layer alone lie one after the other. So weights of all decoder stages
    are a stack as they lie (`in_a_row`).
    """

    def __init__(self, model: nn.Module) -> None:
        named = dict(model.named_parameters())
        self.params = list(named.values())
        order = sorted(range(len(named)), key=[re.sub(r"\.\d+\.", ".", name) for name in named].__getitem__)
        self._places, begin = [0] * len(order), 0
        for number in order:
            self._places[number] = begin
            begin += self.params[number].numel()
        self.whole = self.params[0].detach().new_empty(begin)
        for param, part in zip(self.params, self.parts(self.whole), strict=True):
            part.copy_(param.detach())
            param.data = part
        self._order = order

    def parts(self, whole: Tensor) -> list[Tensor]:
        """What belongs to each parameter of something as long."""
        return [
            whole[begin : begin + p.numel()].view(p.shape) for begin, p in zip(self._places, self.params, strict=True)
        ]

    def gathered(self, parts: Sequence[Tensor]) -> Tensor:
        """One after the other as the parameters lie."""
        return torch.cat([parts[number].flatten() for number in self._order])


class MotionStep:
    def __init__(
        self, model: TrackSSM, samples: Samples, augmentation: TrackAugmentation, *, giou: bool = True, seed: int = 0
    ) -> None:
        self.model, self.samples, self.augmentation, self._giou, self._seed = model, samples, augmentation, giou, seed
        self._weights = FlatWeights(model)
        self.optimizer = build_optimizer("adam", [{"params": [self._weights.whole], "weight_decay": 0.0}])
        device = self.device = self._weights.whole.device
        self.terms = ("l1", "giou") if giou else ("l1",)
        self._sums = torch.zeros(len(self.terms) + 1, dtype=torch.float64, device=device)
        self._order = samples.places.clone()
        self._cursor = torch.zeros((), dtype=torch.int64, device=device)
        self._key = torch.zeros((), dtype=torch.int64, device=device)
        self._graphs: dict[int, Any] = {}
        self.losses_of = self._losses_of

    def start_epoch(self, epoch: int, lr: float) -> None:
        """The order is drawn on the host: the same on every device."""
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + epoch)
        order = torch.randperm(len(self.samples), generator=generator)
        self._order.copy_(self.samples.places[order.to(self._order.device)])
        self._cursor.zero_()
        self._sums.zero_()
        self._key.fill_(self._seed * 1_000_003 + epoch)
        self.optimizer.set([lr], _BETA1)

    def run(self, count: int) -> None:
        """The next `count` samples of the epoch."""
        if self._cursor.device.type != "cuda":
            self.step(count)
            return
        if count not in self._graphs:
            self._graphs[count] = self._captured(count)
        self._graphs[count].replay()

    def step(self, count: int) -> None:
        places_B = self._order[self._cursor + torch.arange(count, device=self._order.device)]
        rows_BTF, truth_B4 = self.samples.cut(places_B, self.augmentation, self._key)
        loss = self.losses_of(rows_BTF, truth_B4)
        # The first stage has no state yet, so how fast it fades has no gradient.
        gradients = torch.autograd.grad(loss.sum(), self._weights.params, materialize_grads=True)
        self._weights.whole.grad = self._weights.gathered(gradients)
        self.optimizer.step()
        with torch.no_grad():
            self._sums[:-1] += loss.detach() * count
            self._sums[-1] += count
            self._cursor += count

    def _losses_of(self, rows_BTF: Tensor, truth_B4: Tensor) -> Tensor:
        terms = loss_of(self.model(rows_BTF), rows_BTF[:, -1, :4], truth_B4, self._giou)
        return torch.stack(list(terms.values()))

    def losses(self) -> dict[str, float]:
        """Means over the samples of the epoch so far. Waits for the device."""
        *sums, count = self._sums.tolist()
        return {term: one / max(count, 1) for term, one in zip(self.terms, sums, strict=True)}

    def state_dict(self) -> dict[str, Any]:
        """Besides the weights. Averages are cut, so that a file does not depend on how weights lie in memory."""
        state = self.optimizer.state_dict()
        return {**state, **{kind: [self._weights.parts(state[kind][0][0])] for kind in self.optimizer.kinds}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        own = self.optimizer.state_dict()
        for kind in self.optimizer.kinds:
            for part, value in zip(self._weights.parts(own[kind][0][0]), state[kind][0], strict=True):
                refill(part, value)
        self.optimizer.load_state_dict({**own, "steps": state["steps"]})

    def tensors(self) -> list[Tensor]:
        """What a step changes."""
        return [self._weights.whole, *self.optimizer.tensors(), self._sums, self._cursor]

    def _captured(self, count: int) -> Any:
        with tried_only(self):
            stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(_WARM_UP_RUNS):
                    self._cursor.zero_()  # an epoch may have fewer samples than these runs would take
                    self.step(count)
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with captured_into(graph):
                self.step(count)
        return graph
