"""The bill of materials, and that everything which is installed has a pin."""

import json
import re
import runpy
import shlex
import subprocess
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
WHEEL = runpy.run_path(str(ROOT / ".ci" / "wheel.py"))
SBOM = runpy.run_path(str(ROOT / ".ci" / "sbom.py"))
PINS = SBOM["pins"]((ROOT / "constraints.txt").read_text())
EXTRA_PINS = SBOM["pins"]((ROOT / "constraints-extras.txt").read_text())


@pytest.fixture(scope="module")
def installed():
    return {SBOM["plain"](one.name): one for one in distributions()}


@pytest.mark.slow
def test_the_bill_names_everything_and_what_needs_what(installed):
    bill = json.loads(json.dumps(SBOM["bill"](installed)))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    assert bill["metadata"]["component"]["name"] == "yolofast"
    parts = {one["name"].lower(): one for one in bill["components"]}
    assert parts["torch"]["scope"] == parts["numpy"]["scope"] == "required" and parts["pytest"]["scope"] == "optional"
    assert parts["numpy"]["purl"] == f"pkg:pypi/numpy@{installed['numpy'].version}"
    known = {one["bom-ref"] for one in [bill["metadata"]["component"], *bill["components"]]}
    needs = {one["ref"]: one["dependsOn"] for one in bill["dependencies"]}
    assert needs.keys() == known and all(set(each) <= known for each in needs.values())
    assert parts["numpy"]["bom-ref"] in needs[parts["scipy"]["bom-ref"]]


def test_another_version_than_the_pinned_one_is_named(installed):
    numpy = {"numpy": installed["numpy"]}
    assert SBOM["other_versions"](numpy, {"numpy": installed["numpy"].version}) == []
    (line,) = SBOM["other_versions"](numpy, {"numpy": "1.0"})
    assert line == f"numpy is {installed['numpy'].version}, constraints say 1.0"
    assert "nothing" in SBOM["other_versions"](numpy, {})[0]


def test_what_is_required_is_pinned_within_its_bounds():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    listed += [one for extra in project["project"]["optional-dependencies"].values() for one in extra]
    pinned = EXTRA_PINS | PINS
    for one in map(Requirement, listed):
        assert one.name == "yolofast" or one.specifier.contains(pinned[SBOM["plain"](one.name)]), one
    assert not EXTRA_PINS.keys() & PINS.keys()


def test_extras_that_messages_name_exist():
    """NVML, which tells how busy a GPU is, was in none."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "yolofast").rglob("*.py"))
    named = set(re.findall(r"yolofast\[([a-z,-]+)\]", sources))
    assert {"gpu", "reid", "grouping"} <= named <= extras.keys()
    assert any(one.startswith("nvidia-ml-py") for one in extras["gpu"]), "the distribution that has pynvml"


def test_the_page_lists_what_all_brings():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    brought = set(extras["all"][0].removeprefix("yolofast[").removesuffix("]").split(","))
    rows = [
        line
        for line in (ROOT / "docs/install.md").read_text(encoding="utf-8").splitlines()
        if re.match(r"\| `[a-z]+`", line)
    ]
    listed = {name for row in rows[1:] for name in re.findall(r"`([a-z]+)`", row.split("|")[1])}
    assert rows[0].startswith("| `all` | all of the following but ")
    assert brought == listed - set(re.findall(r"`(\w+)`", rows[0].split("but")[1])) and listed <= extras.keys()


def test_contributing_says_what_ci_runs():
    """In its order, and nothing that it does not run."""
    runs = re.findall(r"^make (\w+)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    said = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("CI runs `.ci/run`")[1].split("\n- ")[0]
    assert re.findall(r"`make (\w+)`", said) == runs


def test_everything_that_ci_installs_has_checksums(installed):
    """But torch: SECURITY.md says why."""
    read = {name: (ROOT / "requirements" / f"{name}.txt").read_text() for name in ("run", "develop", "tools")}
    hashed = {name: SBOM["pins"](text.replace(" \\", "")) for name, text in read.items()}
    assert hashed["run"] | hashed["develop"] == {name: version for name, version in PINS.items() if name != "torch"}
    assert hashed["tools"].items() <= (EXTRA_PINS | PINS).items()
    assert SBOM["_closure"]("yolofast", installed) - {"torch", "yolofast"} <= hashed["run"].keys()
    for text in read.values():
        for one in text.split("==")[1:]:
            assert re.search(r"--hash=sha256:[0-9a-f]{64}$", one, re.MULTILINE), one


@pytest.mark.slow
@pytest.mark.parametrize("system", ["Linux", "Darwin"])
def test_make_compares_checksums_where_there_are_some(system):
    """Those of Linux; elsewhere pip would refuse every wheel, so `make` takes the same versions without."""
    targets = [".venv/developed", ".venv-tools/installed"]
    asked = ["make", "--always-make", "--dry-run", f"SYSTEM={system}", *targets]
    said = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in ("run", "develop", "tools"):
        (line,) = (line for line in said.splitlines() if f"requirements/{name}.txt" in line and "pip install" in line)
        assert ("--require-hashes" in line) == (system == "Linux")
    if system != "Linux":
        without = shlex.split(line.split("|")[0])
        pins = subprocess.run(without, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert SBOM["pins"](pins) and "--hash" not in pins and "\\" not in pins


def test_the_wheel_can_be_tried_beside_a_developers_tools():
    """`make package` after `make test`: TrackEval is there without all that it names, and nothing of ours needs it."""
    report = "trackeval 1.3.0 requires tabulate, which is not installed.\nNo broken requirements found.\n"
    assert WHEEL["unmet"](report) == []
    lines = [
        "yolofast 0.2.0 requires scipy, which is not installed.",
        "opencv_python_headless 4.1 has requirement numpy>=9, but you have numpy 2.",
    ]
    assert WHEEL["unmet"](report + "\n".join(lines)) == lines
