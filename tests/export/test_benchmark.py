"""`yolofast benchmark`: formats take turns, and what is known of them is in the table, the JSON and the page."""

import json

import numpy as np
import pytest

from yolofast.cli import main
from yolofast.config.predict import BenchmarkConfig
from yolofast.errors import UserError
from yolofast.export import timing
from yolofast.export.timing import Times, interleaved

pytestmark = pytest.mark.slow
FEW = ["--rounds", "1", "--calls", "2", "--batch", "2"]


def test_detectors_take_turns_and_loading_is_not_counted(monkeypatch):
    clock, calls = iter(range(1000)), []
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    detectors = {name: lambda pictures, name=name: calls.append((name, len(pictures))) for name in "ab"}
    times = interleaved(detectors, [np.zeros((2, 2, 3), np.uint8)], batch=3, rounds=2, calls=2)
    warm, first, second = calls[:4], calls[4:10], calls[10:]
    assert warm == [("a", 1), ("a", 3), ("b", 1), ("b", 3)]
    assert first == [("a", 1), ("a", 1), ("a", 3), ("b", 1), ("b", 1), ("b", 3)]
    assert [name for name, _ in second] == ["b"] * 3 + ["a"] * 3, "each round begins with another"
    assert {name: (len(one.calls), len(one.batches)) for name, one in times.items()} == {"a": (4, 2), "b": (4, 2)}
    assert times["a"].images_per_second == 3


def test_quantiles():
    found = Times(calls=[number / 1000 for number in range(101)], batches=[0.5, 1.0, 9.0], batch=8)
    assert (found.latency_ms(50), found.latency_ms(99), found.images_per_second) == pytest.approx((50, 99, 8))


def test_the_table_the_json_and_the_page_agree(exported, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    weights = [str(exported / name) for name in ("best.pt", "model/best.onnx")]
    flags = ["--weights", *weights, "--formats", "pytorch", "--data", str(exported / "data.yaml"), "--no-memory", *FEW]
    assert main(["benchmark", *flags]) == 0
    printed, folder = capsys.readouterr().out, tmp_path / "runs" / "benchmark" / "exp"
    found = json.loads((folder / "benchmark.json").read_text())
    native, file = found["rows"]
    assert (native["name"], file["name"]) == ("pytorch of best.pt", "onnx: best.onnx")
    assert native["map"] == pytest.approx(file["map"], abs=1e-6) and native["map50"] > 0
    assert file["file_bytes"] == (exported / "model" / "best.onnx").stat().st_size
    assert all(row["median_ms"] > 0 and row["images_per_second"] > 0 for row in found["rows"])
    assert found["calls"] == 2 and found["shape"] == [64, 64] and found["environment"]["torch"]
    page = (folder / "benchmark.html").read_text()
    for row in found["rows"]:
        assert row["name"] in page and row["name"] in printed


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--formats", "darknet"], "--formats has darknet, which does not run here"),
        (["--formats", "onnx", "onnx"], "names one twice"),
        (["--weights", "model/best.onnx", "best.pt", "--formats", "pytorch", "--img", "96"], "different sizes"),
    ],
)
def test_refusals(flags, message, exported, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(exported)
    assert main(["benchmark", "--weights", "best.pt", "--project", str(tmp_path), *FEW, *flags]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_formats_are_those_that_run():
    assert BenchmarkConfig(formats=("pytorch", "onnx")).formats == ("pytorch", "onnx")
    with pytest.raises(UserError, match="of pytorch, onnx"):
        BenchmarkConfig(formats=("coreml",))
