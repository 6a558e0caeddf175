"""The settings of an experiment as YOLOX writes them at the top of its log: a table of names and Python values."""

import ast
import re
from typing import Any

_ROW = re.compile(r"^\s*│\s*([A-Za-z_]\w*)\s*│\s*([^│]*?)\s*│\s*$", re.MULTILINE)


def read_experiment(text: str) -> dict[str, Any]:
    """Of names that stand twice the last one; without what is no plain value, or is None."""
    values = {name: _value(cell) for name, cell in _ROW.findall(text)}
    return {name: value for name, value in values.items() if value is not None}


def _value(cell: str) -> Any:
    try:
        return ast.literal_eval(cell)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
