"""What may shorten training and no published recipe has: optional values of YOLOv7's hyper-parameters and of YOLOX's
recipes, under the same names. None is off, and a run then is what it was without them.

What changes during a run is said in shares of the run, so that a recipe fits runs of any length.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from yolofast.errors import UserError
from yolofast.words import counted

_ROUNDING = 1e-9
"""Of a share of the run times its epochs."""
Course = tuple[tuple[float, float], ...]
"""`((0, 0.5), (0.6, 1.0))`: from each share of the run on, that value."""


class Ingredient(NamedTuple):
    meaning: str
    suits: Callable[[Any], bool]
    takes: str
    """In words, for messages."""


def _is_share(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1


def _is_course(value: Any, suits: Callable[[Any], bool] = _is_share) -> bool:
    steps: Sequence[Any] = value if isinstance(value, list | tuple) else ()
    if not steps or not all(isinstance(step, list | tuple) and len(step) == 2 for step in steps):
        return False
    starts = [step[0] for step in steps]
    if not all(map(_is_share, starts)) or not all(suits(step[1]) for step in steps):
        return False
    return starts[0] == 0 and starts == sorted(set(starts))


def _is_whole(value: Any, most: int = 1_000_000) -> bool:
    return type(value) is int and 1 <= value <= most


_WHOLE = _is_whole, "a whole number from 1 to 1000000"
_MOST_TIMES = 64
"""Of batches in an update, and of an image in an epoch."""
_COURSE = "pairs of a share of the run, the first 0, and a value up to 1: [[0, 1], [0.8, 0.5]]"
_POSITIVE_COURSE = _COURSE.replace("a value", "a value above 0 and")
INGREDIENTS: dict[str, Ingredient] = {
    "warmup_iterations": Ingredient("batches in which the learning rate rises, instead of warmup_epochs", *_WHOLE),
    "ema_ramp": Ingredient("updates in which the average's decay rises to 63 % (published: 2,000)", *_WHOLE),
    "average_last": Ingredient(
        "last share of the run, of which the plain mean of all weights is taken instead of the moving average",
        lambda value: type(value) in (int, float) and 0 < value <= 1,
        "a number above 0 and at most 1",
    ),
    "bn_batches": Ingredient("batches by which BatchNorm's statistics are measured again at the end", *_WHOLE),
    "data_biases": Ingredient(
        "begin with the labels' own rates of objects and classes",
        lambda value: isinstance(value, bool),
        "true or false",
    ),
    "update_batches": Ingredient(
        "batches whose mean gradient makes an update, over the run",
        lambda value: _is_course(value, lambda count: _is_whole(count, _MOST_TIMES)),
        f"pairs of a share of the run, the first 0, and a whole number up to {_MOST_TIMES}: [[0, 1], [0.8, 4]]",
    ),
    "repeats": Ingredient(
        "times an image is in an epoch, augmented anew each time; epochs stay as long, with fewer images each",
        lambda value: _is_whole(value, _MOST_TIMES),
        f"a whole number from 1 to {_MOST_TIMES}",
    ),
    "informative": Ingredient(
        "share of the images an epoch is made of, over the run: those with the most mistakes; epochs stay as long",
        lambda value: _is_course(value) and all(share > 0 for _, share in value),
        _POSITIVE_COURSE,
    ),
    "strength": Ingredient(
        "of all augmentation but mirroring, over the run: 1 as the recipe says, 0 none",
        lambda value: _is_course(value),
        _COURSE,
    ),
    "sizes": Ingredient(
        "of the images, over the run, as shares of --img-size",
        lambda value: _is_course(value) and all(share > 0 for _, share in value),
        _POSITIVE_COURSE,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Ingredients:
    """Those of one run."""

    warmup_iterations: int | None = None
    ema_ramp: int | None = None
    average_last: float | None = None
    bn_batches: int | None = None
    data_biases: bool | None = None
    update_batches: Course | None = None
    repeats: int | None = None
    informative: Course | None = None
    strength: Course | None = None
    sizes: Course | None = None

    @property
    def used(self) -> dict[str, Any]:
        values = {field.name: getattr(self, field.name) for field in fields(Ingredients)}
        return {name: value for name, value in values.items() if value is not None and value is not False}

    def check_beside(self, *, rect: bool) -> None:
        """Refuses what says which images an epoch has, beside `--rect` or else `--image-weights`."""
        given = [name for name in ("repeats", "informative") if getattr(self, name) is not None]
        if given:
            flag = "--rect" if rect else "--image-weights"
            raise UserError(f"{given[0]} and {flag} both say which images an epoch has", fix="drop one of them")

    def averages_from(self, epochs: int) -> int:
        """The first epoch, from 0, of the plain mean (`average_last`) in a run of so many."""
        return min(round((1 - (self.average_last or 0)) * epochs), epochs - 1)

    def words(self, epochs: int) -> dict[str, str]:
        """What each does in a run of so many epochs."""
        said = {
            "warmup_iterations": f"the learning rate rises for {counted(self.warmup_iterations or 0, 'iteration')}",
            "ema_ramp": f"the average's decay rises in {counted(self.ema_ramp or 0, 'update')}",
            "average_last": f"from epoch {self.averages_from(epochs) + 1} on the plain mean of all weights",
            "bn_batches": f"BatchNorm's statistics are measured again at the end, {self.bn_batches} × a batch",
            "data_biases": "objects and classes begin at their rates in the labels",
            "update_batches": _in_epochs(self.update_batches, epochs, "the mean of {:g} from epoch {}"),
            "repeats": f"an image is {self.repeats} times in an epoch, which has fewer images as it stays as long",
            "informative": f"of the images, {_in_epochs(self.informative, epochs)}: those with the most mistakes then",
            "strength": f"of augmentation, {_in_epochs(self.strength, epochs)}",
            "sizes": f"of images, {_in_epochs(self.sizes, epochs)}",
        }
        return {name: said[name] for name in self.used}


def by_epoch(course: Course, epochs: int) -> tuple[float, ...]:
    """Its value in each epoch."""
    return tuple(
        [value for share, value in course if share * epochs <= epoch + _ROUNDING][-1] for epoch in range(epochs)
    )


def _in_epochs(course: Course | None, epochs: int, word: str = "× {:g} from epoch {}") -> str:
    if course is None:
        return ""
    values = by_epoch(course, epochs)
    changes = [epoch for epoch in range(len(values)) if not epoch or values[epoch] != values[epoch - 1]]
    return ", ".join(word.format(values[epoch], epoch + 1) for epoch in changes)
