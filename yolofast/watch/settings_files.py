"""The settings of a run, flat and short enough to be shown in a table, and what of its machine it used.

From the yaml files that trainers leave, and `env.json`.
"""

from pathlib import Path
from typing import Any

from yolofast.errors import shorten
from yolofast.files.plain_file import Stamp, read_plain, stamp
from yolofast.runs.layout import FILES
from yolofast.runs.reader import parse_entries
from yolofast.runs.settings import SETTINGS_FILES, hardware_used, settings_in_effect

_MAX_BYTES = 2**18
_MOST = 400
_LONGEST = 120

Value = str | int | float | bool | None


class SettingsFiles:
    def __init__(self, folder: Path) -> None:
        self._paths, self._environment = [folder / name for name in SETTINGS_FILES], folder / FILES.environment
        self._stamps: list[Stamp | None] | None = None
        self._values: dict[str, Value] = {}
        self._hardware: dict[str, Value] = {}

    def read(self) -> dict[str, Value]:
        """What cannot be read is left out: half-written, too large, or no yaml."""
        self._refresh()
        return self._values

    def hardware(self) -> dict[str, Value]:
        """Parts that no file tells are None."""
        self._refresh()
        return self._hardware

    def _refresh(self) -> None:
        stamps = [stamp(path) for path in (*self._paths, self._environment)]
        if stamps == self._stamps:
            return
        hyp, *flags = (_settings(path) for path in self._paths)
        settings = settings_in_effect(hyp, {key: value for file in flags for key, value in file.items()})
        used = hardware_used(settings, _entries(self._environment))
        self._values = {key: _shown(value) for key, value in settings.items()}
        self._hardware = {part: _shown(value) for part, value in used.items()}
        self._stamps = stamps


def _settings(path: Path) -> dict[str, Any]:
    return {_name(key): value for key, value in list(_entries(path).items())[:_MOST]}


def _entries(path: Path) -> dict[Any, Any]:
    try:
        given, _ = parse_entries(path.name, read_plain(path, _MAX_BYTES) or b"")
    except (ValueError, RecursionError):  # half-written, or somebody else's
        return {}
    return given if isinstance(given, dict) else {}


def _name(key: object) -> str:
    return key[:_LONGEST] if isinstance(key, str) else shorten(key)[:_LONGEST]


def _shown(value: object) -> Value:
    """Lists and the like as text of bounded length: aliases in yaml can make them endless."""
    if isinstance(value, str):
        return value[:_LONGEST]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and abs(value) < 1e300:  # beyond, and not a number: JSON has no word for it
        return value
    return shorten(value)[:_LONGEST]
