"""Names of classes, which most formats of sequences do not hold: given in order, asked for by name."""

from collections.abc import Iterable, Mapping, Sequence

from yolofast.errors import UserError, nearest, shorten
from yolofast.words import counted


def classes_named(names: Sequence[str], labels: Iterable[int]) -> dict[int, str]:
    """As many names as classes occur belong to those, in the order of their numbers. Otherwise they belong to all
    numbers from the first on, which is 0 if that occurs, else 1, as MOTChallenge counts."""
    present = sorted({label for label in labels if label >= 0})
    if len(names) == len(present):
        return dict(zip(present, names, strict=True))
    classes = dict(enumerate(names, 0 if 0 in present else 1))
    for label in present:
        if label not in classes:
            there, first = " ".join(map(str, present)), next(iter(classes), 0)
            what = f"{counted(len(names), 'name')} for the classes {there}: class {label} has no name"
            raise UserError(what, fix=f"name these, in this order, or all classes from {first} on")
    return classes


def label_of(given: object, classes: Mapping[int, str]) -> int:
    """Of a class by its name."""
    found = [label for label, name in classes.items() if name == given]
    if not found:
        known = ", ".join(dict.fromkeys(classes.values()))
        what = f"class {shorten(given)} is unknown{nearest(str(given), classes.values())}"
        what += f"; there are {known}" if known else "; the truth has no names of classes"
        raise UserError(what, fix="give numbers (column 8), or name them by --names, in Python class_names")
    return found[0]
