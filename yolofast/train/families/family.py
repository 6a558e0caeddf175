"""A family of networks: all that is its own about training one.

`Family` completes settings before there is a network; `Rules` say how a network of the family is trained. Runs ask the
rules and never which family it is: a new family is a model (`model/graph.py`), a file with these two classes, and a
line in `extensions.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from yolofast.augment.recipe import Recipe
from yolofast.checkpoint.read import read_weights
from yolofast.config.ingredients import Course, Ingredients, by_epoch
from yolofast.config.resumed import check_same_hyp
from yolofast.config.train import TrainConfig
from yolofast.extensions import FAMILIES, found
from yolofast.loader.order import mosaic_is_closed
from yolofast.loss.criterion import Criterion
from yolofast.model.contract import Network
from yolofast.model.graph import family_named, graph_of
from yolofast.optim.optimizer import RAMP, ModelEma
from yolofast.optim.schedule import RunSchedule
from yolofast.structures import Batch
from yolofast.train.finetune.freeze_plan import FreezePhase, FreezePlan, PlannedSchedule


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    recipe: Recipe
    height: int
    width: int
    close_mosaic_from: int | None
    """The first epoch, from 0, without mosaics."""
    most_boxes: tuple[int, int] | None = None
    """Of an image by itself, and of a mosaic; None: as many as there are."""
    strengths: tuple[float, ...] = ()
    """By epoch, of what the recipe says; of none: 1."""

    def at(self, epoch: int) -> Recipe:
        """What may happen in an epoch."""
        recipe = self.recipe.without_mosaic() if mosaic_is_closed(self.close_mosaic_from, epoch) else self.recipe
        return recipe.weakened(self.strengths[epoch]) if self.strengths else recipe


@dataclass(frozen=True, kw_only=True)
class EpochRange:
    """A value at the first and at the last batch of an epoch."""

    first: float
    last: float


@dataclass(frozen=True, kw_only=True)
class EpochFacts:
    epoch: int
    phase: FreezePhase
    lr: dict[str, EpochRange]
    """Of weights, by the name of the scope; those that are frozen are not there."""
    bias_lr: EpochRange
    """Of the scope that learns fastest."""
    momentum: EpochRange
    accumulate: EpochRange
    updates: int
    images: int
    chances: dict[str, float]
    """Of what may happen to an image, as shares of all of them; only mosaics are blended (`mixup`)."""
    loss: str


@dataclass(frozen=True, kw_only=True)
class Explained:
    """What a family may know of a run when it remarks on it (`Explanation` has more)."""

    config: TrainConfig
    hyp: dict[str, Any]
    model: Network
    anew: frozenset[str]
    """Names of the parameters that begin with random values."""
    plan: FreezePlan
    schedule: PlannedSchedule
    weight_decay: float
    batches: int
    """Of an epoch."""
    rows: tuple[EpochFacts, ...]
    """Of the epochs to come."""

    @property
    def parameters(self) -> int:
        return sum(p.numel() for p in self.model.parameters())

    @property
    def is_mostly_new(self) -> bool:
        """Without weights, or with those of another network, which fit here and there."""
        return 2 * sum(p.numel() for name, p in self.model.named_parameters() if name in self.anew) > self.parameters


Resize = Callable[[Batch, int, int], Batch]
"""A batch on the device at the size the network gets it, by epoch and number."""
Shape = tuple[int, int]
"""Height and width."""


class Losses(Protocol):
    """The losses of a run by epoch, each built once: a captured or compiled step knows by the object which it has."""

    def training(self, epoch: int) -> Criterion: ...

    def validation(self, epoch: int) -> Criterion: ...

    def state_dict(self) -> dict[str, list[Tensor]]: ...

    def load_state_dict(self, state: Mapping[str, list[Tensor]]) -> None: ...


class Rules(ABC):
    """How one run trains its network. `hyp` are the values that took effect, as they are written down."""

    config: TrainConfig
    hyp: dict[str, Any]
    terms: tuple[str, ...] = ("box", "obj", "cls")
    """Of the loss, by the names its parts have: each gets its columns."""
    always_shuffled = False
    """Whatever the published order of YOLOv7 is."""
    conf: float | None = None
    """Scores from which on predictions count in the evaluation; None: the network's own convention."""
    iou = 0.65
    """Overlap from which on the evaluation takes two predictions for one."""
    val_flags = ""
    """With which `val` counts as training did."""
    average_decay: float | None = None
    """Of the average of the weights; None: there is none."""
    average_ramp: float = RAMP
    """Updates in which its decay rises."""
    closing_flag: str
    """What would close mosaics."""
    ingredients = Ingredients()
    """What no published recipe has."""

    def by_epoch(self, course: Course | None) -> tuple[float, ...]:
        """Its values; none without a course."""
        return () if course is None else by_epoch(course, self.config.epochs)

    @property
    @abstractmethod
    def weight_decay(self) -> float: ...

    @property
    @abstractmethod
    def augmentation(self) -> Augmentation:
        """How images for training are made."""

    @property
    @abstractmethod
    def evaluation_shape(self) -> Shape: ...

    @property
    @abstractmethod
    def size_range(self) -> tuple[Shape, Shape, str] | None:
        """The least and the greatest size, and when another is drawn; None where sizes do not change."""

    @property
    @abstractmethod
    def largest_input(self) -> Shape:
        """Of what the network sees in training."""

    @abstractmethod
    def losses(self) -> Losses: ...

    @abstractmethod
    def loss_name(self, epoch: int) -> str: ...

    @abstractmethod
    def schedule(self, batches: int) -> RunSchedule:
        """`batches` are those of an epoch."""

    @abstractmethod
    def average(self) -> ModelEma: ...

    @abstractmethod
    def resize(self, batches: int) -> Resize | None:
        """None where sizes do not change."""

    @property
    @abstractmethod
    def lower_rate(self) -> str:
        """What to do about a loss that is NaN or infinite."""

    @abstractmethod
    def remarks(self, run: Explained) -> Iterator[str]:
        """Where what people believe of such a run and what runs differ."""

    def announced(self, plan: FreezePlan) -> Iterator[str]:
        """Lines to say when a run begins."""
        if self.ingredients != Ingredients():
            yield from (f"{name}: {word}" for name, word in self.ingredients.words(self.config.epochs).items())

    def check_same(self, before: Mapping[str, Any]) -> None:
        """Refuse values other than those a resumed run had so far."""
        check_same_hyp(before, self.hyp)


class Family(ABC):
    name: str
    """As networks say it (`Network.family`)."""

    def with_network(self, config: TrainConfig, given: Collection[str]) -> TrainConfig:
        """The settings with the network the family takes for meant, where `--cfg` does not name one."""
        return config

    @abstractmethod
    def complete(self, config: TrainConfig, given: Collection[str]) -> TrainConfig:
        """The settings of a new run, those that were not `given` filled in; refuses what is not for this family."""

    def fitted(self, config: TrainConfig, model: Network, say: Callable[[str], None]) -> TrainConfig:
        """The settings with sizes that the network can take."""
        return config

    @abstractmethod
    def rules(self, config: TrainConfig, hyp: Mapping[str, Any], model: Network) -> Rules:
        """`hyp` are YOLOv7's hyper-parameters (`hyp_of`), which other families may leave alone."""


def families() -> dict[str, Family]:
    return {name: found(f"{places.training}:TRAINING") for name, places in FAMILIES.items()}


def family_of(model: Network) -> Family:
    return families()[model.family]


def rules_of(config: TrainConfig, hyp: Mapping[str, Any], model: Network) -> Rules:
    return family_of(model).rules(config, hyp, model)


def completed(config: TrainConfig, given: Collection[str]) -> TrainConfig:
    """The settings of a new run, completed by its family, so that what a run stores about itself is complete.

    `given` are the names of what was typed.
    """
    for family in families().values():
        config = family.with_network(config, given)
    return families()[_family_name(config)].complete(config, given)


def _family_name(config: TrainConfig) -> str:
    """Of the network that is named, or that the weights belong to; weights that do not say are refused later."""
    if config.cfg:
        return family_named(config.cfg)
    file = read_weights(config.weights)
    graph = file.graph or graph_of(file.tensors)
    return family_named({} if graph is None else graph)
