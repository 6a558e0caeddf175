"""A few inputs of every class, as `make fuzz` tries them by the thousand."""

import re
import sys

import pytest

from tests import programs
from tests.hostile.fuzz import GENERATORS


@pytest.mark.slow
def test_a_sample_holds(trained_folder, tmp_path):
    """In a process of its own, which forks: threads of pytest would be missing in its children."""
    words = ["--n", "14", "--seed", "22", "--trained", str(trained_folder), "--keep", str(tmp_path / "kept")]
    done = programs.run([sys.executable, "-m", "tests.hostile.fuzz", *words])
    rows = re.findall(r"^(\w+) +(\d+) +(\d+) +0 ", done.stdout, re.MULTILINE)
    assert done.returncode == 0 and {name for name, *_ in rows} == GENERATORS.keys(), done.stdout + done.stderr
    assert all(tried == held for _, tried, held in rows)
