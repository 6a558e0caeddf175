"""Writes what `pip install --require-hashes` reads: every pinned package with the checksums of its wheels.

    python .ci/hashes.py                        # requirements/run.txt, develop.txt and tools.txt

Which packages those are is pip's answer for this machine; versions are those of the constraints. Checksums are the
registry's, of all wheels for Linux and the Python versions that yolofast names. Torch is left out: it is built for
CPUs and for each CUDA, each build in a registry of its own, and which one a machine needs is its owner's choice.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from packaging.tags import Tag
from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).parents[1]
INDEX = "https://pypi.org/simple"
NOT_LISTED = ("torch", "yolofast")
ALONE = ("executorch", "ruamel.yaml", "tabulate", "torchao", "trackeval")
"""Installed for tests without what they require. TrackEval would replace OpenCV by a build that needs a screen;
ExecuTorch would bring CoreML's converter and some twenty packages, of which exports import the three named here."""
FILES = {
    "run.txt": "what running needs",
    "develop.txt": "what tests, linters and examples need in addition",
    "tools.txt": "what builds the site and the package, in an environment of its own",
}


class Links(HTMLParser):
    """Of a page of the registry: files and their checksums."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address, _, checksum = (dict(attrs).get("href") or "").partition("#sha256=")
        if tag == "a" and checksum:
            self.found[address.rpartition("/")[2]] = checksum


def fits(tag: Tag, pythons: list[str]) -> bool:
    """Linux with glibc, and one of the versions 3.x, by itself or by the stable interface."""
    linux = tag.platform.startswith("manylinux") and tag.platform.endswith(("x86_64", "aarch64"))
    major, minor = tag.interpreter[:3], tag.interpreter[3:]
    if tag.abi == "abi3":
        known = int(minor) <= int(pythons[-1])
    else:
        known = (major == "py3" and not minor) or minor in pythons
    return known and major in ("cp3", "py3") and not tag.abi.endswith("t") and (linux or tag.platform == "any")


def checksums(name: str, version: str, links: dict[str, str], pythons: list[str]) -> list[str]:
    found = []
    for file, checksum in links.items():
        if file.endswith(".whl"):
            try:
                _, own, _, tags = parse_wheel_filename(file)
            except ValueError:
                continue  # names of long ago
            if str(own) == version and any(fits(tag, pythons) for tag in tags):
                found.append(checksum)
    if not found:
        raise SystemExit(f"{name} {version} has no wheel for Linux and Python 3.{', 3.'.join(pythons)}")
    return sorted(found)


def needed(*what: str) -> dict[str, str]:
    """Names and versions that pip would install into an empty environment."""
    with tempfile.NamedTemporaryFile() as report:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        constraints = ["-c", "constraints.txt", "-c", "constraints-extras.txt"]
        subprocess.run([*command, *constraints, "--report", report.name, *what], cwd=ROOT, check=True)
        parts = [one["metadata"] for one in json.load(report)["install"]]
    named = {canonicalize_name(one["name"]): one["version"] for one in parts}
    return {name: version for name, version in sorted(named.items()) if name not in NOT_LISTED}


def lines(packages: dict[str, str], pythons: list[str]) -> Iterator[str]:
    for name, version in packages.items():
        with urllib.request.urlopen(f"{INDEX}/{name}/", timeout=60) as page:
            links = Links()
            links.feed(page.read().decode())
        yield f"{name}=={version} \\"
        hashes = [f"    --hash=sha256:{one}" for one in checksums(name, version, links.found, pythons)]
        yield " \\\n".join(hashes)


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pythons = sorted(re.findall(r"Python :: 3\.(\d+)", " ".join(project["project"]["classifiers"])), key=int)
    builds, extras = project["build-system"]["requires"], project["project"]["optional-dependencies"]
    run = needed(".", *builds)
    develop = {name: version for name, version in needed(".[dev]", *builds).items() if name not in run}
    develop = dict(sorted({**develop, **needed("--no-deps", *ALONE)}.items()))
    tools = needed(*extras["docs"], *extras["release"], *builds)
    for (file, about), packages in zip(FILES.items(), (run, develop, tools), strict=True):
        head = f"# {about[0].upper()}{about[1:]}, with checksums: `make hashes` writes it. Torch is not among them."
        (ROOT / "requirements" / file).write_text("\n".join([head, *lines(packages, pythons), ""]))


if __name__ == "__main__":
    main()
