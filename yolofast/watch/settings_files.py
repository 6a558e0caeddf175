"""The settings of a run for a table, flat and short, and the hardware it used: from its YAML files and `env.json`."""

from typing import Any

from yolofast.errors import shorten
from yolofast.runs.layout import FILES
from yolofast.runs.reader import parse_entries
from yolofast.runs.settings import SETTINGS_FILES, hardware_used, settings_in_effect
from yolofast.watch.watched_folder import FolderFile, Stamp, WatchedFolder

_MAX_BYTES = 2**18
_MOST = 400
_LONGEST = 120

Value = str | int | float | bool | None


class SettingsFiles:
    """Reads the files again only when they have changed."""

    def __init__(self, folder: WatchedFolder) -> None:
        self._folder, self._files = folder, [folder / name for name in (FILES.environment, *SETTINGS_FILES)]
        self._stamps: dict[str, Stamp | None] | None = None
        self._known: dict[str, dict[str, Value]] = {}

    def read(self) -> dict[str, dict[str, Value]]:
        """`settings` and `hardware`, whose unknown parts are None. Unreadable files are omitted."""
        stamps = self._folder.stamps([file.name for file in self._files])
        if stamps != self._stamps:
            hyp, *flags = (_settings(file) for file in self._files[1:])
            settings = settings_in_effect(hyp, {key: value for file in flags for key, value in file.items()})
            both = {"settings": settings, "hardware": hardware_used(settings, _entries(self._files[0]))}
            self._known = {name: {key: _shown(one) for key, one in values.items()} for name, values in both.items()}
            self._stamps = stamps
        return self._known


def _settings(file: FolderFile) -> dict[str, Any]:
    return {_name(key): value for key, value in list(_entries(file).items())[:_MOST]}


def _entries(file: FolderFile) -> dict[Any, Any]:
    try:
        given, _ = parse_entries(file.name, file.read(_MAX_BYTES) or b"")
    except (ValueError, RecursionError):  # half-written, or of another program
        return {}
    return given if isinstance(given, dict) else {}


def _name(key: object) -> str:
    return key[:_LONGEST] if isinstance(key, str) else shorten(key)[:_LONGEST]


def _shown(value: object) -> Value:
    """Lists and the like as text of bounded length: aliases in YAML can make them endless."""
    if isinstance(value, str):
        return value[:_LONGEST]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and abs(value) < 1e300:  # JSON has neither NaN nor infinity
        return value
    return shorten(value)[:_LONGEST]
