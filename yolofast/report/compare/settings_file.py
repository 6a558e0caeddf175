"""What a run's files say of its settings and its machine, under one name for each thing whoever wrote it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from yolofast.errors import UserError
from yolofast.known_numbers import parse_json
from yolofast.yaml_file import read_yaml

_ALIASES = {"batch": "batch_size", "imgsz": "img_size", "img": "img_size", "cache_images": "cache"}
_MAX_BYTES = 32 * 2**20


def read_settings(folder: Path, names: tuple[str, ...], problems: list[str]) -> dict[str, Any]:
    """Later files win. One that cannot be read is a problem to be told, not a reason to compare nothing."""
    values: dict[str, Any] = {}
    for name in names:
        if (folder / name).is_file():
            try:
                values |= tidy(read_yaml(folder / name).values)
            except UserError as error:
                problems.append(f"{name}: {error.what}")
    return values


def tidy(values: Mapping[Any, Any]) -> dict[str, Any]:
    names = {key: str(key).replace("-", "_") for key in values}
    return {_ALIASES.get(names[key], names[key]): _tidy_value(value) for key, value in values.items()}


def _tidy_value(value: Any) -> Any:
    """320 and [320, 320] are one size."""
    if isinstance(value, list) and value and all(one == value[0] for one in value):
        return value[0]
    return value


def read_json(path: Path, problems: list[str]) -> dict[str, Any]:
    """Empty where there is no such file, or none that can be read."""
    if not path.is_file():
        return {}
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ValueError("it is too large")
        values, unknown = parse_json(path.read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise ValueError("it holds no entries")
    except (OSError, ValueError, RecursionError) as error:
        problems.append(f"{path.name} cannot be read: {str(error)[:100]}")
        return {}
    if unknown:
        problems.append(f"{path.name} says {', '.join(unknown[:3])}, which cannot be measured and is left out")
    return values
