"""What `--data` means to every command; the built-in data set is made on first use."""

from pathlib import Path

from yolofast.config.builtin_data import data_yaml
from yolofast.dataset.shapes import shapes_data_yaml


def data_file(data: str | Path) -> Path:
    """The data yaml to read."""
    return data_yaml(data, shapes_data_yaml)
