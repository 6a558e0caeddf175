"""A run that follows a plan: at the start of an epoch it lets other layers learn, if the plan says so.

Between two phases the optimizer keeps what it knows of the parameters that continue to learn. A captured or compiled
step sees by its version that it has to be made again, and several ranks are joined anew: both know which gradients
exist.
"""

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from yolofast.errors import UserError
from yolofast.model.contract import Network
from yolofast.optim.optimizer import parameter_groups, split_groups
from yolofast.ranks import reduces
from yolofast.train.distributed.averaged_step import distribute
from yolofast.train.finetune.freeze_plan import FreezePhase, FreezePlan
from yolofast.train.step import TrainStep


class PhasedTraining:
    """`start_epoch` after the model was put in training mode."""

    def __init__(self, plan: FreezePlan, model: Network, step: TrainStep, say: Callable[[str], None]) -> None:
        """`step` is made for the parameters of the first phase."""
        self.plan, self._model, self._step, self._say = plan, model, step, say
        self.phase = plan.phases[0]
        self._frozen_statistics: frozenset[int] = frozenset()
        self._announced = False
        if len(self.phase.paces) > 1:
            self._learn(self.phase)

    def start_epoch(self, epoch: int) -> None:
        phase = self.plan.at(epoch)
        if phase is not self.phase:
            self.enter(phase)
            self._announced = False
        self._freeze_statistics(phase.with_frozen_statistics(epoch))
        if not self._announced and (len(self.plan.phases) > 1 or phase.trainable(self._model) < self._parameters):
            self._say(self._words(phase))
        self._announced = True

    def state_dict(self) -> dict[str, Any]:
        return {"phase": self.phase.number, "plan": self.plan.written}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """To be followed by that of the step, whose optimizer is grouped by phase."""
        if state["plan"] != self.plan.written:
            what = "the plan says something else than when the run was started"
            raise UserError(what, fix="undo the change, or start a new run with --weights last.pt")
        self.enter(self.plan.by_number(state["phase"]))

    def enter(self, phase: FreezePhase) -> None:
        """Lets the layers of a phase learn, and no others."""
        phase.freeze(self._model)
        self._learn(phase)
        if reduces():
            distribute(self._step)

    @property
    def _parameters(self) -> int:
        return sum(p.numel() for p in self._model.parameters())

    def _words(self, phase: FreezePhase) -> str:
        learning, all_of_them = phase.trainable(self._model), self._parameters
        which = f"phase {phase.number + 1}, " if len(self.plan.phases) > 1 else ""
        share = f"{learning:,} of {all_of_them:,} parameters ({learning / all_of_them:.1%})"
        return f"{which}epochs {phase.first + 1} to {phase.end}: learning {phase.what}, {share}"

    def _learn(self, phase: FreezePhase) -> None:
        optimizer = self._step.optimizer
        places = {pace: place for place, pace in enumerate(phase.paces)}
        part = {
            id(parameter): places[pace]
            for index, pace in phase.learning.items()
            for parameter in self._model.layers[index].module.parameters()
        }
        groups = parameter_groups(self._model, optimizer.weight_decay)
        groups = split_groups(groups, lambda parameter: part[id(parameter)], len(places))
        self.phase = phase
        self._step.learn_what_requires_it(optimizer.regrouped(groups))

    def _freeze_statistics(self, layers: frozenset[int]) -> None:
        """Their BatchNorm statistics stay what they are: they are used, as in evaluation, and not moved."""
        for index in layers:
            for module in self._model.layers[index].module.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    module.eval()
        if layers != self._frozen_statistics:
            self._step.version += 1
        self._frozen_statistics = layers
