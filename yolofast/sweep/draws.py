"""What a random search draws from, and what must hold of its draws."""

import dataclasses
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from yolofast.config.hyp import HYP_KEYS
from yolofast.errors import UserError, shorten

KINDS = ("uniform", "log", "int", "choice")
_DIGITS = 4
_LARGEST, _LONGEST = 10**18, 500
"""Of what is drawn, which has to fit a whole number of NumPy's; letters of a constraint."""
_COMPARED = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_COMPARISON = re.compile(r"\s*(.+?)\s*(<=|>=|==|!=|<|>)\s*(.+?)\s*")


@dataclass(frozen=True)
class DrawnRange:
    kind: str
    values: tuple[Any, ...]
    """Both ends, or the values of a choice."""

    def draw(self, chance: np.random.Generator) -> Any:
        if self.kind == "choice":
            return self.values[int(chance.integers(len(self.values)))]
        low, high = self.values
        if self.kind == "int":
            return int(chance.integers(low, high + 1))
        if self.kind == "log":
            return rounded(math.exp(chance.uniform(math.log(low), math.log(high))))
        return rounded(chance.uniform(low, high))


def rounded(value: float) -> float:
    """As it is typed, and told apart from others."""
    return float(f"{value:.{_DIGITS}g}")


def read_range(name: str, given: Any) -> DrawnRange:
    """`{log: [1e-4, 1e-2]}`; a list is a choice."""
    given = {"choice": given} if isinstance(given, list) else given
    fix = f"give one of {name}: {{uniform: [0, 1]}}, {{log: [1e-4, 1e-2]}}, {{int: [1, 9]}}, {{choice: [a, b]}}"
    if not isinstance(given, dict) or len(given) != 1 or next(iter(given)) not in KINDS:
        raise UserError(f"search.{name} is {shorten(given)}", fix=fix)
    kind, values = next(iter(given.items()))
    if not isinstance(values, list) or not values:
        raise UserError(f"search.{name} is {shorten(given)}", fix=fix)
    if kind != "choice":
        kinds = int if kind == "int" else int | float
        numbers = all(isinstance(one, kinds) and not isinstance(one, bool) and abs(one) <= _LARGEST for one in values)
        if len(values) != 2 or not numbers or not values[0] < values[1] or (kind == "log" and values[0] <= 0):
            raise UserError(f"search.{name} is {shorten(given)}", fix=f"{fix}; the smaller end first, above 0 for log")
    return DrawnRange(kind, tuple(values))


@dataclass(frozen=True)
class Constraint:
    """`batch_size * img_size <= 20480`: products of settings and numbers, compared."""

    text: str
    left: tuple[str, ...]
    compared: str
    right: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Its factors, among which are numbers and words."""
        return (*self.left, *self.right)

    def renamed(self, name_of: Callable[[str], str]) -> "Constraint":
        left, right = (tuple(map(name_of, side)) for side in (self.left, self.right))
        return dataclasses.replace(self, left=left, right=right)

    def holds(self, settings: Mapping[str, Any]) -> bool:
        """A setting without a value is compared as nothing: the constraint does not concern that trial."""
        left, right = _product(self.left, settings), _product(self.right, settings)
        if right is None and self.compared in ("==", "!="):
            right = " ".join(self.right)  # a word: `assigner == ota`
        try:
            return left is None or right is None or bool(_COMPARED[self.compared](left, right))
        except TypeError:
            raise UserError(f"constraints: {self.text} compares {shorten(left)} with {shorten(right)}") from None


def read_constraint(given: Any) -> Constraint:
    found = _COMPARISON.fullmatch(given) if isinstance(given, str) and len(given) <= _LONGEST else None
    sides = [tuple(part.strip() for part in found[place].split("*")) for place in (1, 3)] if found else []
    if found is None or any(not re.fullmatch(r"[\w.+-]+", part) for side in sides for part in side):
        fix = "compare two products of settings and numbers: batch_size * img_size <= 20480"
        raise UserError(f"constraints has {shorten(given)}", fix=fix)
    return Constraint(given, sides[0], found[2], sides[1])


def _product(side: tuple[str, ...], settings: Mapping[str, Any]) -> Any:
    factors = [_single(settings.get(part, _number(part))) for part in side]
    if len(factors) == 1:
        return factors[0]
    if any(isinstance(one, bool) or not isinstance(one, int | float) for one in factors):
        return None
    try:
        return math.prod(factors)
    except OverflowError:  # a whole number of hundreds of digits
        return None


def _single(value: Any) -> Any:
    """Sizes are lists: of training, and of evaluation where that is another."""
    return value[0] if isinstance(value, list | tuple) and value and len(set(map(str, value))) == 1 else value


def _number(text: str) -> float | str | None:
    try:
        return float(text)
    except ValueError:
        return None


_PARENTS, _CHANCE, _SIGMA, _CLIP = 5, 0.8, 0.2, (0.3, 3.0)
"""Published for YOLOv7's `--evolve`."""


def mutated(
    parents: Sequence[tuple[Mapping[str, Any], float]], ranges: Mapping[str, DrawnRange], chance: np.random.Generator
) -> dict[str, Any]:
    """Hyper-parameters of a next generation: those of one of the five fittest, each times a factor about 1.

    `parents` are values and their fitness, `ranges` the limits of the values that may change; `choice` has none.
    """
    best = sorted(parents, key=lambda one: -one[1])[:_PARENTS]
    fitness = np.array([one[1] for one in best])
    weights = fitness - fitness.min() + 1e-6
    values = dict(best[int(chance.choice(len(best), p=weights / weights.sum()))][0])
    names = [name for name in ranges if name in values]
    factors = np.ones(len(names))
    while names and (factors == 1).all():
        changes = chance.random(len(names)) < _CHANCE
        factors = np.clip(1 + changes * chance.standard_normal(len(names)) * _SIGMA, *_CLIP)
    for name, factor in zip(names, factors.tolist(), strict=True):
        low, high = ranges[name].values if ranges[name].kind != "choice" else (-math.inf, math.inf)
        value = float(f"{min(max(values[name] * factor, low), high):.{_DIGITS + 1}g}")
        values[name] = value if HYP_KEYS[name].suits(value) else values[name]
    return values
