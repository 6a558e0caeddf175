"""`args.yaml` of a run folder: all settings of the run, to read, to repeat and to resume it."""

import dataclasses
from pathlib import Path
from typing import TypeVar

from yolofast.atomic_file import write_whole
from yolofast.config.flags import from_settings, resolve
from yolofast.config.run import RunConfig
from yolofast.errors import UserError
from yolofast.yaml_file import dump_yaml, read_yaml

Config = TypeVar("Config", bound=RunConfig)


def to_yaml(config: RunConfig, path: str | Path) -> None:
    """Written whole or not at all."""
    try:
        write_whole(Path(path), as_text(config).encode())
    except OSError as error:
        what = f"the settings could not be written: {error.strerror or error}"
        raise UserError(what, where=path, fix="check permissions and that the disk has room") from error


def as_text(config: RunConfig) -> str:
    values = {
        name: list(value) if isinstance(value, tuple) else value for name, value in dataclasses.asdict(config).items()
    }
    return dump_yaml(values)


def from_yaml(config_class: type[Config], path: str | Path) -> Config:
    """Settings the file does not name have their defaults; names it should not have are refused."""
    file = read_yaml(Path(path))
    for key, value in file.values.items():
        try:
            resolve(config_class, key, value)
        except UserError as error:
            raise UserError(error.what, where=file.where, line=file.line(str(key)), fix=error.fix) from None
    try:
        return from_settings(config_class, file.values)
    except UserError as error:  # settings that do not go together
        raise UserError(error.what, where=file.where, fix=error.fix) from None
