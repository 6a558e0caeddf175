"""Which classes each detection head learns: the head yaml, read, checked and written.

A wrong grouping trains for hours and then never detects the class that is in no head. So everything is checked here,
once, and the message names the class. Groupings are data, made by hand or by `model.grouping`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yolofast.errors import UserError, shorten
from yolofast.files.atomic_file import write_whole
from yolofast.files.yaml_file import dump_yaml, read_yaml
from yolofast.resources import find_resource

# A weight multiplies a loss of order one: beyond this it is a slip of the keyboard, and half precision overflows.
_MAX_WEIGHT = 1e4
_HEAD_KEYS = ("classes", "weight", "name")


@dataclass(frozen=True)
class HeadGroup:
    """One head: `classes` in the order of its local ids, `weight` of its loss in the sum over heads."""

    name: str
    classes: tuple[int, ...]
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """A partition of the classes 0…nc-1 over heads.

    `grouping` is free text saying where it came from; with `full_head` every head predicts all nc classes and the
    foreign ones are masked.
    """

    nc: int
    grouping: str
    full_head: bool = False
    heads: tuple[HeadGroup, ...]

    def __post_init__(self) -> None:
        if fault := _partition_fault(self.nc, [head.classes for head in self.heads]):
            raise UserError(fault[0])

    def to_dict(self) -> dict[str, Any]:
        """Plain values in the layout of the yaml; `parse_head_config` gives the same config back."""
        assignments = {
            f"head_{i}": {"name": head.name, "classes": list(head.classes), "weight": head.weight}
            for i, head in enumerate(self.heads)
        }
        return {
            "nc": self.nc,
            "heads": len(self.heads),
            "grouping": self.grouping,
            "full_head": self.full_head,
            "head_assignments": assignments,
        }


def read_head_config(name: str | Path) -> HeadConfig:
    """The grouping in a file, or a packaged one by its short name (`standard`, `geometry`, `anti-confusion`)."""
    file = read_yaml(find_resource(name, "heads"))
    assignments = file.values.get("head_assignments")
    keys = [key for key in assignments if isinstance(key, str)] if isinstance(assignments, dict) else []
    return parse_head_config(file.values, file.where, lines={key: file.line("head_assignments", key) for key in keys})


def write_head_config(config: HeadConfig, path: str | Path) -> None:
    """Write the yaml; readers see the old file or the whole new one, never half of it."""
    if not str(path) or Path(path).is_dir():
        raise UserError(f"cannot write to {str(path)!r}: it is a folder", fix="name a file in it, such as heads.yaml")
    path = Path(path).resolve()  # of a link, the file it leads to is replaced and not the link
    text = dump_yaml(config.to_dict(), default_flow_style=None, width=120)
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", where=path, fix="give a folder that exists") from error


def parse_head_config(
    mapping: object, where: str | Path | None = None, *, lines: Mapping[str, int | None] | None = None
) -> HeadConfig:
    """Check the values of a head yaml. `where` and `lines` (head key -> line) only place the messages."""
    lines = lines or {}
    if not isinstance(mapping, Mapping):
        raise UserError(f"a mapping with nc and head_assignments is needed, not {shorten(mapping)}", where=where)
    nc = _positive_int(mapping, "nc", where)
    count = _positive_int(mapping, "heads", where)
    full_head = mapping.get("full_head", False)
    if not isinstance(full_head, bool):
        raise UserError(f"full_head must be true or false, not {shorten(full_head)}", where=where)
    assignments = mapping.get("head_assignments")
    if not isinstance(assignments, dict) or not assignments:
        what = f"head_assignments must map head_0, head_1, … to their classes, not {shorten(assignments)}"
        raise UserError(what, where=where)
    if count != len(assignments):
        raise UserError(
            f"heads is {shorten(count)} but head_assignments has {len(assignments)}",
            where=where,
            fix=f"set heads: {len(assignments)}, or add the missing head",
        )
    keys = [f"head_{i}" for i in range(count)]
    if unknown := [key for key in assignments if key not in keys]:
        what = f"head_assignments has the key {shorten(unknown[0])}"
        raise UserError(what, where=where, fix=f"name the heads {keys[0]} to {keys[-1]}")
    heads = tuple(_parse_head(key, assignments[key], where, lines.get(key)) for key in keys)
    if fault := _partition_fault(nc, [head.classes for head in heads]):
        message, head_index = fault
        raise UserError(
            message,
            where=where,
            line=None if head_index is None else lines.get(keys[head_index]),
            fix=f"list every class from 0 to {nc - 1} in exactly one head",
        )
    return HeadConfig(nc=nc, grouping=_text(mapping, "grouping", "custom", where), full_head=full_head, heads=heads)


def _parse_head(key: str, head: object, where: str | Path | None, line: int | None) -> HeadGroup:
    if not isinstance(head, dict):
        raise UserError(f"{key} must be a mapping with classes, not {shorten(head)}", where=where, line=line)
    for given in head:
        # Keys that only inform are allowed, so a slip is one that has the letters of a known key that is absent.
        slips = [known for known in _HEAD_KEYS if known not in head and sorted(known) == sorted(str(given))]
        if slips:
            what = f"{key}: unknown key {shorten(given)}, did you mean {slips[0]!r}?"
            raise UserError(what, where=where, line=line, fix="correct the key")
    classes = head.get("classes")
    if not isinstance(classes, list) or not classes:
        what = f"{key}: classes must be a non-empty list, not {shorten(classes)}"
        raise UserError(what, where=where, line=line, fix=f"classes: [0, 1, 2], or remove {key}")
    for class_id in classes:
        if not isinstance(class_id, int) or isinstance(class_id, bool):
            raise UserError(f"{key}: {shorten(class_id)} is not a class number", where=where, line=line)
    weight = head.get("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= _MAX_WEIGHT:
        what = f"{key}: weight must be a number above 0 and at most {_MAX_WEIGHT:g}, not {shorten(weight)}"
        raise UserError(what, where=where, line=line, fix="weight: 1.0")
    return HeadGroup(name=_text(head, "name", key, where, line), classes=tuple(classes), weight=float(weight))


def _partition_fault(nc: int, classes_of_heads: Sequence[Sequence[int]]) -> tuple[str, int | None] | None:
    """What breaks 'every class 0…nc-1 exactly once' and in which head, or None. Never builds range(nc): nc is input."""
    if not classes_of_heads:
        return "there is no head", None
    owner: dict[int, int] = {}
    for i, classes in enumerate(classes_of_heads):
        if not classes:
            return f"head_{i} has no class", i
        repeated, times = Counter(classes).most_common(1)[0]
        if times > 1:
            return f"class {shorten(repeated)} is listed {times} times in head_{i}", i
        for class_id in classes:
            if not 0 <= class_id < nc:
                return f"head_{i}: class {shorten(class_id)} is outside 0 to nc - 1 = {nc - 1}", i
            if class_id in owner:
                return f"class {class_id} is in two heads, head_{owner[class_id]} and head_{i}", i
            owner[class_id] = i
    absent = nc - len(owner)
    if absent:
        first = next(class_id for class_id in range(nc) if class_id not in owner)
        return f"class {first} is in no head" + (f" ({absent} classes missing in all)" if absent > 1 else ""), None
    return None


def _positive_int(mapping: Mapping[Any, Any], key: str, where: str | Path | None) -> int:
    value = mapping.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 2**31:
        got = f"not {shorten(value)}" if key in mapping else "and it is missing"
        raise UserError(f"{key} must be a whole number of at least 1, {got}", where=where, fix=f"{key}: 4")
    return value


def _text(mapping: Mapping[Any, Any], key: str, default: str, where: str | Path | None, line: int | None = None) -> str:
    value = mapping.get(key, default)
    # Lone surrogates, which yaml escapes can spell, could not be written back.
    if not isinstance(value, str) or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise UserError(f"{key} must be text, not {shorten(value)}", where=where, line=line, fix=f'{key}: "some text"')
    return value
