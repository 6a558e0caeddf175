"""Two versions in turn: which code runs, in which order, and what is said of the rounds."""

import subprocess
import sys

import pytest

from benchmarks.bench_train import compared
from benchmarks.versions import ROOT, THIS, environment_of, in_turn, spread, versions


def test_every_other_round_begins_with_the_other_version():
    order = []

    def measure(version):
        order.append(version)
        return len(order)

    assert in_turn(["this", "v1"], 3, measure) == {"this": [1, 4, 5], "v1": [2, 3, 6]}
    assert order == ["this", "v1", "v1", "this", "this", "v1"]


def test_the_spread_stands_beside_the_median():
    assert spread([3.0, 1.0, 2.5]) == "2.50 (1.00 to 3.00)"
    assert spread([41.4], 0) == "41 (41 to 41)"
    assert spread([]) == "failed"


@pytest.fixture
def commit():
    """Where there is no repository, such as in a package, there are no versions."""
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if found.returncode:
        pytest.skip("not in a repository")
    return found.stdout.strip()


@pytest.mark.slow
def test_the_package_of_a_commit_beside_these_benchmarks(commit, tmp_path):
    code = versions(commit, tmp_path / "against")
    assert code == {THIS: ROOT, commit: tmp_path / "against"}
    program = "import benchmarks.versions, yolofast; print(yolofast.__file__); print(benchmarks.versions.ROOT)"
    for version, folder in code.items():
        command = [sys.executable, "-c", program]
        ended = subprocess.run(command, cwd=folder, env=environment_of(folder), stdout=subprocess.PIPE, text=True)
        assert ended.stdout.split()[0] == str(folder / "yolofast" / "__init__.py"), version
    assert versions("", tmp_path) == {THIS: ROOT}


@pytest.mark.slow
def test_a_commit_that_is_not_there(commit, tmp_path):
    with pytest.raises(SystemExit, match="--against nowhere: this repository has no such commit"):
        versions("nowhere", tmp_path / "against")


def test_rows_of_two_versions(monkeypatch):
    """A held step is a second row of the same process; a round that failed does not count."""
    times = {"v1": iter([4.0, None, 5.0]), THIS: iter([2.0, 2.2, 2.1])}

    def measured(pairs, args, code):
        (case, gear), step = pairs[0], next(times[code])
        found = None if step is None else {"step": step, "alone": step / 2, "ready": 7.0}
        yield case, gear, found

    monkeypatch.setattr("benchmarks.bench_train.measured", measured)
    rows = list(compared("mini:64:8:ota", "eager", Asked(), {THIS: THIS, "v1": "v1"}))
    assert rows == [
        "| mini | 64 | 8 | ota | eager | step ms | 2.10 (2.00 to 2.20) | 4.50 (4.00 to 5.00) | 0.467 |",
        "| mini | 64 | 8 | ota | eager | step alone ms | 1.05 (1.00 to 1.10) | 2.25 (2.00 to 2.50) | 0.467 |",
        "| mini | 64 | 8 | ota | eager | first step after s | 7 (7 to 7) | 7 (7 to 7) | 1.000 |",
    ]


class Asked:
    rounds = 3


def test_the_package_of_a_folder_where_there_is_no_repository(tmp_path):
    (tmp_path / "old" / "yolofast").mkdir(parents=True)
    code = versions(str(tmp_path / "old"), tmp_path / "against")[str(tmp_path / "old")]
    assert (code / "yolofast").resolve() == tmp_path / "old" / "yolofast" and (code / "benchmarks").is_dir()
