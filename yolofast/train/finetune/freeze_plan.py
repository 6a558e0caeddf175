"""Which layers of a network learn in which epochs, how fast, and which BatchNorm statistics move: a plan made concrete.

A plan is a pure function of the epoch, as schedules are, so a resumed run finds its phase by itself. The schedule of a
run with a plan is the run's own, times what the plan says of each part and phase.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from yolofast.config.train import TrainConfig
from yolofast.errors import UserError
from yolofast.model.contract import Network
from yolofast.model.freeze import frozen_of, layers_named
from yolofast.optim.schedule import RunSchedule, StepSettings
from yolofast.train.finetune.plan_file import ALL, PhaseSpec, PlanSpec, plan_spec_of


@dataclass(frozen=True, kw_only=True)
class LearningPace:
    """Layers that learn alike are optimized together: at one share of the learning rate, since one phase."""

    rate: float
    since: int
    """The phase from which on they have learnt without a break: an optimizer knows as much of all of them."""


@dataclass(frozen=True, kw_only=True)
class FreezePhase:
    number: int
    """In the plan, from 0."""
    first: int
    """Epoch, from 0."""
    end: int
    """The first epoch that is no longer part of it."""
    learning: Mapping[int, LearningPace]
    """By layer; the others are frozen."""
    statistics_frozen_until: Mapping[int, int]
    """By layer: the epoch from which on BatchNorm statistics move. Layers that are not named: at once."""
    warmup_epochs: float | None
    what: str
    """What learns, in words."""

    @cached_property
    def paces(self) -> tuple[LearningPace, ...]:
        """The fastest first."""
        return tuple(sorted(set(self.learning.values()), key=lambda pace: (-pace.rate, pace.since)))

    def freeze(self, model: Network) -> None:
        """What does not learn asks for no gradient, and the layers below the first that learns keep nothing for one."""
        for index, layer in enumerate(model.layers):
            layer.module.requires_grad_(index in self.learning)

    def with_frozen_statistics(self, epoch: int) -> frozenset[int]:
        return frozenset(layer for layer, until in self.statistics_frozen_until.items() if epoch < until)

    def trainable(self, model: Network) -> int:
        """Parameters."""
        return sum(p.numel() for index in self.learning for p in model.layers[index].module.parameters())


@dataclass(frozen=True)
class FreezePlan:
    phases: tuple[FreezePhase, ...]
    """Those a run comes to, in order."""
    unreached: int = 0
    """Phases of the file that a run as short as this has no epoch for."""
    extended: int = 0
    """Epochs the last phase continues for beyond what the file says."""
    written: str = ""
    """What the file says, to be compared with."""

    def at(self, epoch: int) -> FreezePhase:
        return next((phase for phase in self.phases if epoch < phase.end), self.phases[-1])

    def by_number(self, number: int) -> FreezePhase:
        """That of a state which was saved in it."""
        return next((phase for phase in self.phases if phase.number == number), self.phases[0])


def frozen_at_random(plan: FreezePlan, model: Network, anew: Set[str]) -> str | None:
    """A word on a run whose first phase freezes parameters that start `anew`: it learns on top of noise."""
    learning = plan.phases[0].learning
    frozen = {id(p) for n, layer in enumerate(model.layers) if n not in learning for p in layer.module.parameters()}
    sizes = {name: p.numel() for name, p in model.named_parameters() if id(p) in frozen}
    random = [name for name in sizes if name in anew]
    if not random:
        return None
    count, of, which = f"{sum(sizes[name] for name in random):,}", "", ""
    if len(random) < len(sizes):
        of, which = f" of {sum(sizes.values()):,}", f" ({random[0]}{' …' * (len(random) > 1)})"
    values = f"keep the random values they start with{which}"
    return f"{count}{of} frozen parameters {values}: give --weights that have them, or let them learn"


def plan_of(config: TrainConfig, model: Network, own: PlanSpec | None = None) -> FreezePlan:
    """`own` is the plan of a resumed run (`saved_plan`).

    The published code lets the statistics of what `--freeze` freezes drift; a plan never does.
    """
    drifting = config.faithful and not (config.plan or config.stage)
    return make_plan(own or plan_spec_of(config), model, config.epochs, frozen_statistics=not drifting)


def make_plan(spec: PlanSpec, model: Network, epochs: int, *, frozen_statistics: bool = True) -> FreezePlan:
    """`frozen_statistics`: frozen layers keep their statistics too."""
    if spec.layers is not None and len(model.layers) != spec.layers:
        what = f"the plan is for a network of {spec.layers} layers, and this one has {len(model.layers)}"
        fix = "train the network it is for (--cfg), or write a plan with this one's names (docs/fine-tuning.md)"
        raise UserError(what, where=spec.where, fix=fix)
    reader = _Reader(spec, model)
    ends = _ends(spec, epochs)
    phases: list[FreezePhase] = []
    learning: Mapping[int, LearningPace] = {}
    for number, (phase, first, end) in enumerate(zip(spec.phases, [0, *ends], ends, strict=False)):
        learning = reader.learning(number, phase, learning)
        if first < end:
            until = reader.statistics_frozen_until(phase, learning, first, end) if frozen_statistics else {}
            made = FreezePhase(
                number=number, first=first, end=end, learning=learning, statistics_frozen_until=until,
                warmup_epochs=phase.warmup_epochs, what=reader.words(phase),
            )  # fmt: skip
            phases.append(made)
    last = spec.phases[-1].until
    planned = spec.epochs or epochs if last is None else _epoch(last, spec.epochs or epochs)
    unreached, extended = len(spec.phases) - len(phases), max(epochs - planned, 0)
    return FreezePlan(tuple(phases), unreached=unreached, extended=extended, written=spec.written)


def _ends(spec: PlanSpec, epochs: int) -> list[int]:
    """The last phase continues to the end of the run; none goes beyond it, and none ends before the one before it."""
    ends: list[int] = []
    for phase in spec.phases:
        end = epochs if phase.until is None else min(_epoch(phase.until, spec.epochs or epochs), epochs)
        ends.append(max([end, *ends[-1:]]))
    reached = next((n for n, end in enumerate(ends) if end == epochs), len(ends) - 1)
    return [*ends[:reached], *[epochs] * (len(ends) - reached)]


def _epoch(until: float, epochs: int) -> int:
    return until if isinstance(until, int) else round(until * epochs)


@dataclass(frozen=True)
class _Reader:
    """What the names of a plan mean in a network."""

    spec: PlanSpec
    model: Network

    def learning(self, number: int, phase: PhaseSpec, before: Mapping[int, LearningPace]) -> dict[int, LearningPace]:
        with self._with_line(phase):
            with_weights = {n for n, layer in enumerate(self.model.layers) if list(layer.module.parameters())}
            layers = self._learning_layers(phase) & with_weights
            if not layers:
                fix = "freeze less, or name something that has weights"
                raise UserError(f"phase {number + 1}: nothing learns", fix=fix)
            rates = dict.fromkeys(layers, phase.lr)
            for scope, factor in phase.lr_factors:
                reached = self._scope(scope, "lr_factors") & layers
                if not reached:
                    what = f"phase {number + 1}: lr_factors names {scope}, which does not learn in it"
                    raise UserError(what, fix=f"drop {scope} there, or let it learn")
                rates |= dict.fromkeys(reached, phase.lr * factor)
        since = {layer: before[layer].since if layer in before else number for layer in layers}
        return {layer: LearningPace(rate=rates[layer], since=since[layer]) for layer in sorted(layers)}

    def statistics_frozen_until(
        self, phase: PhaseSpec, learning: Mapping[int, LearningPace], first: int, end: int
    ) -> dict[int, int]:
        until = {layer: end for layer in range(len(self.model.layers)) if layer not in learning}
        starts = {"train": first, "eval": end, "late": min(first + phase.batch_norm_epochs, end)}
        with self._with_line(phase):
            for scope, policy in phase.batch_norm:
                reached = self._scope(scope, "batch_norm") & learning.keys()
                if not reached:
                    what = f"batch_norm names {scope}, which does not learn in this phase: its statistics stay anyway"
                    raise UserError(what, fix=f"drop {scope} there, or let it learn")
                until |= dict.fromkeys(reached, starts[policy])
        return until

    def words(self, phase: PhaseSpec) -> str:
        if phase.train is not None:
            return ", ".join(phase.train)
        frozen = phase.freeze or (0,)
        if frozen == (0,):
            return "everything"
        if len(frozen) == 1 and isinstance(frozen[0], int):
            return f"layers from {frozen[0]} on"
        return f"all but {', '.join(map(str, frozen))}"

    def _learning_layers(self, phase: PhaseSpec) -> frozenset[int]:
        if phase.train is not None:
            return frozenset().union(*(self._scope(name, "train") for name in phase.train))
        names = phase.freeze or (0,)
        own = dict(self.spec.scopes)
        meant = [one for name in names for one in (own.get(name, (name,)) if isinstance(name, str) else (name,))]
        key = "--freeze" if self.spec.where is None else "freeze"
        return frozenset(range(len(self.model.layers))) - frozen_of(self.model, meant, key)

    def _scope(self, name: str, key: str) -> frozenset[int]:
        if name == ALL:
            return frozenset(range(len(self.model.layers)))
        meant = dict(self.spec.scopes).get(name, (name,))
        return frozenset().union(*(layers_named(self.model, one, key) for one in meant))

    @contextmanager
    def _with_line(self, phase: PhaseSpec) -> Iterator[None]:
        """An error in a phase names its line."""
        try:
            yield
        except UserError as error:
            raise UserError(error.what, where=self.spec.where, line=phase.line, fix=error.fix) from None


@dataclass(frozen=True)
class PlannedSchedule:
    """A learning rate for every group of every pace, in the order in which `PhasedTraining` groups parameters."""

    base: RunSchedule
    plan: FreezePlan
    batches: int
    """Of an epoch."""

    def at(self, epoch: int, batch: int) -> StepSettings:
        settings, phase, risen = self.base.at(epoch, batch), self.plan.at(epoch), 1.0
        if phase.first and phase.warmup_epochs:  # it restarts with the phase; that of the first phase is the run's own
            risen = min(((epoch - phase.first) * self.batches + batch) / (phase.warmup_epochs * self.batches), 1.0)
        lr = tuple(lr * pace.rate * risen for pace in phase.paces for lr in settings.lr)
        return dataclasses.replace(settings, lr=lr)


def planned(schedule: RunSchedule, plan: FreezePlan) -> PlannedSchedule:
    """The first phase may say how long the run's warm-up is."""
    own = plan.phases[0].warmup_epochs
    base = schedule if own is None else dataclasses.replace(schedule, warmup_epochs=own, warmup_iterations=None)
    return PlannedSchedule(base, plan, schedule.batches)
