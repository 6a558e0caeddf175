"""Names of output files: those of what they belong to, told apart where two are called the same."""

import re
from pathlib import Path

_SUFFIX = re.compile(r"\.\w{2,5}$")
_UNUSUAL = re.compile(r"[^\w.\-+ ()\[\]]+")


class UniqueNames:
    """`a/street.jpg` is `street`, and then `b/street.jpg` is `street_2`."""

    def __init__(self) -> None:
        self._name_of: dict[str, str] = {}
        self._taken: set[str] = set()

    def of(self, source: str | Path) -> str:
        """The name, without suffix, for what belongs to this file, address or camera; always the same for the same."""
        key = str(source)
        if key not in self._name_of:
            self._name_of[key] = self._free(_stem(key))
            self._taken.add(self._name_of[key])
        return self._name_of[key]

    def _free(self, stem: str) -> str:
        name, number = stem, 1
        while name in self._taken:
            number += 1
            name = f"{stem}_{number}"
        return name


def _stem(source: str) -> str:
    if "://" in source:
        host, _, path = source.split("://", 1)[1].split("?")[0].partition("/")
        return _UNUSUAL.sub("_", f"{host}/{_SUFFIX.sub('', path)}").strip("_.") or "stream"
    return f"camera{source}" if source.isdecimal() else Path(source).stem
