"""Writes a bill of materials (CycloneDX 1.5, JSON): what is installed beside yolofast, its version and its license.

    python .ci/sbom.py constraints.txt sbom.json

A package at another version than the constraints name is an error: the bill is of the environment that was tested. The
same environment gives the same bytes.
"""

import json
import re
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

OWN = "yolofast"
_INSTALLERS = ("pip",)
"""Of the virtual environment itself."""


def plain(name: str) -> str:
    """As registries compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(constraints: str) -> dict[str, str]:
    pairs = (line.split("==") for line in constraints.splitlines() if "==" in line and not line.startswith("#"))
    return {plain(name): version.strip() for name, version in pairs}


def other_versions(installed: dict[str, Distribution], pinned: dict[str, str]) -> list[str]:
    """`2.13.0+cpu` is 2.13.0, built for something."""
    return [
        f"{name} is {one.version}, constraints say {pinned.get(name, 'nothing')}"
        for name, one in installed.items()
        if name not in (OWN, *_INSTALLERS) and one.version.partition("+")[0] != pinned.get(name)
    ]


def bill(installed: dict[str, Distribution]) -> dict[str, Any]:
    needed = _closure(OWN, installed)
    components = [_component(one, name in needed) for name, one in sorted(installed.items()) if name != OWN]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**_component(installed[OWN], True), "type": "application"}},
        "components": components,
        "dependencies": [
            {"ref": _reference(one), "dependsOn": sorted(_reference(installed[it]) for it in _needs(one, installed))}
            for _, one in sorted(installed.items())
        ],
    }


def _component(one: Distribution, needed: bool) -> dict[str, Any]:
    license = one.metadata.get("License-Expression") or (one.metadata.get("License") or "").strip().split("\n")[0]
    return {
        "type": "library",
        "bom-ref": _reference(one),
        "name": one.name,
        "version": one.version,
        "purl": _reference(one),
        "scope": "required" if needed else "optional",
        **({"licenses": [{"license": {"name": license}}]} if license else {}),
    }


def _reference(one: Distribution) -> str:
    return f"pkg:pypi/{plain(one.name)}@{one.version.replace('+', '%2B')}"


def _needs(one: Distribution, installed: dict[str, Distribution]) -> set[str]:
    """Without extras."""
    wanted = map(Requirement, one.requires or ())
    here = (each for each in wanted if each.marker is None or each.marker.evaluate({"extra": ""}))
    return {plain(each.name) for each in here} & installed.keys()


def _closure(name: str, installed: dict[str, Distribution]) -> set[str]:
    found, waiting = set[str](), [name]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += _needs(installed[one], installed)
    return found


def main(constraints: str, out: str) -> str | None:
    installed = {plain(one.name): one for one in distributions()}
    wrong = other_versions(installed, pins(Path(constraints).read_text()))
    if wrong:
        return "\n".join([*wrong, "fix: make clean install"])
    Path(out).write_text(json.dumps(bill(installed), indent=1) + "\n")
    return None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
