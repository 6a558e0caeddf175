"""Numbers are shown alike by Python and by the charts."""

import json
import math
import shutil
import subprocess

import pytest

from tests.patience import PATIENCE
from yolofast.pages.html import web_file
from yolofast.pages.text import shown

CASES = {
    0: "0", 1: "1", 0.5: "0.5000", 0.05: "0.0500", 0.0012: "0.0012", 0.00012: "1.20e-4", 12.345: "12.35",
    123.45: "123.5", 1234.5: "1,234", 1234567: "1,234,567", -0.25: "-0.2500", 3e15: "3.00e+15", 9.87654: "9.877",
}  # fmt: skip


def test_cases():
    for value, text in CASES.items():
        assert shown(value) == text
    assert shown(None) == shown(math.nan) == shown(-math.inf) == "–"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_charts_show_the_same():
    values = [value for value in CASES if value != 1234.5]  # halves are rounded to even there, and up here
    ask = f"console.log(JSON.stringify({values}.map(window.yolofastCharts.shown)))"
    code = f"globalThis.window = {{}};{web_file('chart.js')};{ask}"
    done = subprocess.run(["node", "-e", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert json.loads(done.stdout) == [shown(value) for value in values]
