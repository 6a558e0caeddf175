"""What `--data` means to a run."""

from collections.abc import Callable
from pathlib import Path

from yolofast.config.builtin_data import data_yaml
from yolofast.dataset.shapes import shapes_data_yaml


def data_yaml_of(data: str, say: Callable[[str], None]) -> Path:
    """The data yaml to read; a built-in data set is made on first use."""

    def made() -> Path:
        say("data: the built-in shapes, made on first use")
        return shapes_data_yaml()

    return data_yaml(data, made)
