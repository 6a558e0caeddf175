"""What happens in one step: forward, assignment and loss, backward, and every so often an update.

The host never waits here: settings are written to the device beforehand, sums and the finiteness check stay there.
What a step costs and holds goes into a row of a fixed buffer on the device. The host names the row beforehand, as it
does the learning rate: a captured graph replays the writing, and a step that is undone cannot shift the rows.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from yolofast.fused.low_precision import forward_in
from yolofast.loss.criterion import Criterion, state_of
from yolofast.optim.optimizer import ModelEma, Optimizer, refill
from yolofast.precision import LossScale, Precision, kernels_for
from yolofast.profile.step_phases import BACKWARD, EMA, FORWARD, OPTIMIZER, REST
from yolofast.ranks import world
from yolofast.structures import Batch, InputConvention, LossTerms, Targets


class BatchCounters:
    """BatchNorm layers count their batches for checkpoints; a kernel per layer is too many.

    Layers that average over all batches so far need their counter and keep it.
    """

    def __init__(self, model: nn.Module) -> None:
        self._layers = [layer for layer in model.modules() if type(layer) is nn.BatchNorm2d and layer.momentum]

    @contextmanager
    def counted_together(self) -> Iterator[None]:
        """What happens here is one batch for each of the layers that learn."""
        counting: list[Any] = [layer for layer in self._layers if layer.training and layer.track_running_stats]
        counters: list[Tensor] = [layer.num_batches_tracked for layer in counting]
        for layer in counting:
            layer.num_batches_tracked = None
        try:
            yield
        finally:
            for layer, counter in zip(counting, counters, strict=True):
                layer.num_batches_tracked = counter
        if counters:
            torch._foreach_add_(counters, 1)


TERMS = ("box", "obj", "cls", "l1")
"""Of losses, in every record of batches: 0 where a loss has no such term."""
MEASURED = ("total", *TERMS, "boxes", "box_size", "gradient_norm")


class StepRecord:
    """Rows of numbers on the device, one per batch of an epoch; what was not measured is NaN."""

    def __init__(self, device: torch.device, batches: int) -> None:
        self._rows = torch.full((batches, len(MEASURED)), torch.nan, device=device)
        self._place = torch.zeros(1, dtype=torch.int64, device=device)

    def next_is(self, batch: int) -> None:
        """Where the step that comes writes: the number travels as the argument of the fill."""
        self._place.fill_(batch)

    @torch.no_grad()
    def losses(self, terms: LossTerms, targets: Targets) -> None:
        """The total is the sum of the terms: some losses multiply it by the batch, others do not."""
        absent = torch.zeros_like(terms.total)
        parts = (terms.parts.get(name, absent) for name in TERMS)
        count = targets.valid.sum()
        side = targets.boxes[..., 2:].prod(-1).clamp(min=0).sqrt()
        size = torch.where(targets.valid, side, 0.0).sum() / count
        values = (reduce(torch.add, terms.parts.values()), *parts, count, size)
        row = torch.stack([*(value.detach().float() for value in values), torch.full_like(size, torch.nan)])
        self._rows.index_copy_(0, self._place, row[None])

    @torch.no_grad()
    def gradients(self, gradients: Sequence[Tensor]) -> None:
        """Before the optimizer adds decay to them; called where weights move, so after `losses`."""
        norm = torch.stack(torch._foreach_norm(list(gradients))).norm().float()
        self._rows[:, MEASURED.index("gradient_norm")].index_copy_(0, self._place, norm[None])

    def read(self, batches: int) -> list[list[float]]:
        """The first rows. Waits for the device."""
        rows: list[list[float]] = self._rows[:batches].tolist()
        return rows

    def forget(self) -> None:
        self._rows.fill_(torch.nan)


class StepKind(NamedTuple):
    """What distinguishes one step from another, besides numbers on the device."""

    sums: bool
    """Gradients are added to those of other batches; otherwise each batch makes an update of its own."""
    updates: bool


LossOf = Callable[[Tensor, Targets], LossTerms]
"""From images and boxes to losses."""


class StepProbe(Protocol):
    """Who times a step (`timing.py`)."""

    in_graphs: bool
    """Whether marks made while a graph is captured can be read after it was replayed."""

    def mark(self, phase: str) -> None:
        """From here on time belongs to that phase."""

    def loss_of(self, images: Tensor, targets: Targets) -> LossTerms:
        """The step's own, with marks in between."""

    def captured(self) -> Sequence[Any]:
        """The marks made while a graph was captured."""

    def replayed(self, marks: Sequence[Any]) -> None:
        """They were made again."""


class GradientExchange(Protocol):
    """Makes gradients those of all ranks (`distributed/averaged_gradients.py`)."""

    def bucket_of(self, parameter: Tensor) -> int:
        """Gradients of one number are exchanged together, lower numbers earlier."""

    def begin(self) -> None:
        """A backward pass comes whose gradients move weights."""

    def finish(self) -> None:
        """It is over; afterwards gradients are those of all ranks."""

    def remove(self) -> None:
        """Another one takes its place."""


def unmarked(phase: str) -> None:
    """Nobody is timing."""


class TrainStep:
    """`run` learns from a batch and, if it is time, moves the weights and their average."""

    def __init__(
        self, model: nn.Module, criterion: Criterion, optimizer: Optimizer, ema: ModelEma, precision: Precision,
        terms: Sequence[str] = ("box", "obj", "cls"),
    ) -> None:  # fmt: skip
        """`terms` are the parts of the loss that are summed up, by name."""
        self.model, self.criterion, self.optimizer, self.ema = model, criterion, optimizer, ema
        self.precision, self.loss_scale = precision, LossScale(precision)
        self.terms, self.losses = tuple(terms), RunningLosses(precision.device, terms)
        self.record: StepRecord | None = None
        self.probe: StepProbe | None = None
        self.batch_counters = BatchCounters(model)
        self._inputs: InputConvention = getattr(model, "inputs", InputConvention())
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self.pending: list[Tensor] = []
        """Sums of gradients that wait for an update; empty where every batch makes one of its own."""
        self.version = 0
        """Rises when what a step does has changed: who captured or compiled it has to do so again."""
        self.exchange: GradientExchange | None = None
        """Of several ranks."""
        self._lowers = precision.device.type == "cuda" and precision.dtype is not torch.float32
        self._low = forward_in(model, precision.dtype) if self._lowers else None

    def run(self, images: Tensor, targets: Targets, kind: StepKind, loss_of: LossOf | None = None) -> None:
        """`loss_of` is the step's own, unless a compiled form of it is given."""
        own, mark = (self.loss_of, unmarked) if self.probe is None else (self.probe.loss_of, self.probe.mark)
        mark(FORWARD)
        self.prepare_gradients(kind)
        with self.batch_counters.counted_together():
            terms = (loss_of or own)(images, targets)
        mark(BACKWARD)
        exchange = self.exchange if kind.updates else None  # gradients that are added up wait with it
        if exchange is not None:
            exchange.begin()
        self.loss_scale.scaled(terms.total).backward()  # type: ignore[no-untyped-call]
        if exchange is not None:
            exchange.finish()
        mark(REST)
        self.losses.add(terms, len(images) * world())
        if self.record is not None:
            self.record.losses(terms, targets)
        if kind.updates:
            mark(OPTIMIZER)
            gradients = [p.grad for p in self._parameters if p.grad is not None]
            self.loss_scale.unscale(gradients)
            if self.record is not None:
                self.record.gradients(gradients)
            self.optimizer.step()
            mark(EMA)
            self.ema.update()
            if kind.sums:
                torch._foreach_zero_(self.pending)
            mark(REST)

    def on_device(self, batch: Batch) -> Batch:
        """Without waiting for it."""
        device = self.precision.device
        if batch.images.device.type == device.type:
            return batch
        images = batch.images.to(device, non_blocking=True).contiguous(memory_format=torch.channels_last)
        return Batch(images, batch.targets.to(device, non_blocking=True), batch.sources)

    def prepare_gradients(self, kind: StepKind) -> None:
        """Fresh ones for a batch of its own, which saves adding; sums live in memory that stays where it is."""
        if not kind.sums:
            for parameter in self._parameters:
                parameter.grad = None
            return
        if not self.pending:
            self.pending = [torch.zeros_like(p) for p in self._parameters]
        for parameter, total in zip(self._parameters, self.pending, strict=True):
            parameter.grad = total

    def learn_what_requires_it(self, optimizer: Optimizer) -> None:
        """After other parameters have come to require gradients; `optimizer` is the one that moves those."""
        sums = {id(p): total for p, total in zip(self._parameters, self.pending, strict=False)}
        self._parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.pending = [sums.get(id(p), torch.zeros_like(p)) for p in self._parameters] if self.pending else []
        for parameter in self.model.parameters():
            parameter.grad = None
        self.optimizer = optimizer
        self.version += 1

    def exchange_by(self, exchange: GradientExchange) -> None:
        """From now on its gradients are those of all ranks. For the parameters that require gradients now."""
        if self.exchange is not None:
            self.exchange.remove()
        self.exchange = exchange
        if self._lowers:
            self._low = forward_in(self.model, self.precision.dtype, exchange.bucket_of)
        self.version += 1

    def tensors(self) -> list[Tensor]:
        """Everything a step changes, except fresh gradients. Sums come last: they are there when first needed."""
        changed = [*self.model.state_dict().values(), *self.ema.model.state_dict().values(), self.ema.updates]
        changed += state_of(self.criterion)
        return [
            *changed,
            *self.optimizer.tensors(),
            *self.losses.tensors(),
            *self.loss_scale.tensors(),
            *self.pending,
        ]

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs beside the models: the optimizer, pending gradients, the loss scale."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "gradients": self.pending,
            "loss_scale": self.loss_scale.tensors(),
            "ema_updates": self.ema.updates,
            **({} if self.ema.mean_from is None else {"ema_before_mean": self.ema.before_mean}),
        }

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state["optimizer"])
        self.pending = [torch.empty_like(p) for p, _ in zip(self._parameters, state["gradients"], strict=False)]
        for own, given in zip(self.pending, state["gradients"], strict=False):
            refill(own, given)
        for own, given in zip(self.loss_scale.tensors(), state["loss_scale"], strict=True):
            refill(own, given)
        refill(self.ema.updates, state["ema_updates"])
        if "ema_before_mean" in state:
            refill(self.ema.before_mean, state["ema_before_mean"])

    def loss_of(self, images: Tensor, targets: Targets) -> LossTerms:
        """Forward, assignment and loss: the part that is worth compiling."""
        return self.loss_from(self.raw_maps(images), targets)

    def raw_maps(self, images: Tensor) -> Sequence[Tensor]:
        forward = self._low if self._low is not None and self.uses_kernels else self.model
        with self.precision.autocast():
            raw: Sequence[Tensor] = forward(self._inputs.as_input(images))
        return raw

    @property
    def uses_kernels(self) -> bool:
        """Whether the network is computed by the project's own kernels."""
        return self._low is not None and kernels_for(self.losses.bad_steps)

    def loss_from(self, raw: Sequence[Tensor], targets: Targets) -> LossTerms:
        return self.criterion(raw, targets)


class RunningLosses:
    """Means of the loss terms since `reset`, summed on the device. `bad_steps` had one that was NaN or infinite."""

    def __init__(self, device: torch.device, terms: Sequence[str]) -> None:
        self.names = (*terms, "total")
        self._sums = torch.zeros(len(self.names), dtype=torch.float64, device=device)
        self._count = torch.zeros((), dtype=torch.float64, device=device)
        self.bad_steps = torch.zeros((), dtype=torch.int64, device=device)

    @torch.no_grad()
    def add(self, terms: LossTerms, images: int) -> None:
        parts = (terms.parts[name] for name in self.names[:-1])
        values = torch.stack((*parts, terms.mean_total(images))).detach()
        self._sums += values
        self._count += 1
        self.bad_steps += ~values.isfinite().all()

    def tensors(self) -> list[Tensor]:
        return [self._sums, self._count, self.bad_steps]

    def reset(self) -> None:
        for tensor in (self._sums, self._count):
            tensor.zero_()

    def means(self) -> dict[str, float]:
        """Waits for the device."""
        means = (self._sums / self._count.clamp(min=1)).tolist()
        return dict(zip(self.names, means, strict=True))
