"""`yolofast compare` on real small runs and on folders of other trainers: the page, Markdown, JSON, the terminal."""

import json
import re
import shutil

import pytest
import torch

from tests.report.compare.folders import GIVEN, ours, published, rising, ultralytics
from yolofast.cli import main


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def runs(trained_folder, tmp_path_factory):
    """A run, and what it would have left with another seed."""
    folder = tmp_path_factory.mktemp("compared")
    first, second = (
        shutil.copytree(trained_folder / "runs" / "run", folder / "runs" / f"run_s{seed}") for seed in (0, 1)
    )
    for seed, run in enumerate((first, second)):
        args = (run / "args.yaml").read_text()
        assert "\nseed: 0\n" in args and "\nname: run\n" in args
        (run / "args.yaml").write_text(
            args.replace("seed: 0", f"seed: {seed}").replace("name: run", f"name: {run.name}")
        )
    lines = (second / "results.csv").read_text().replace(",0.0", ",0.00")
    (second / "results.csv").write_text(lines)
    return [str(first), str(second)]


@pytest.fixture
def pair(tmp_path):
    return [str(published(tmp_path / "runs", name)) for name in ("noota", "ota")]


def test_real_runs(runs, tmp_path, capsys):
    assert main(["compare", *runs, "--group", "none", "--markdown", "c.md"]) == 0
    output = capsys.readouterr().out
    assert "0 differ, 2 names and seeds differ" in output and "contradiction" not in output
    assert re.search(r"best\.pt, MB +3\.\d +3\.\d", output) and "never stripped" not in output
    assert "caution: run_s1" in output and "written: compare.html, c.md" in output
    page = (tmp_path / "compare.html").read_text()
    assert (
        "Held equal" in page and "What is in it".lower() in page.lower() and not re.search(r"(src|href)=\W?http", page)
    )
    assert "| mAP50-95 |" in (tmp_path / "c.md").read_text()


def test_seeds_are_one_kind(runs, capsys):
    assert main(["compare", *runs]) == 0
    output = capsys.readouterr().out
    assert "run: 2 runs, run_s0, run_s1" in output and "all runs are of one kind" in output


def test_what_is_in_a_checkpoint(runs, capsys):
    assert main(["compare", *runs, "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(name))
    best, last = found["runs"][0]["weights"][:2]
    assert best["name"] == "best.pt" and best["stripped"] and list(best["entries"]) == ["model (float16)"]
    assert not last["stripped"] and last["bytes"] > 4 * best["bytes"]
    assert sum(last["entries"].values()) == pytest.approx(last["bytes"], rel=0.05)


def test_a_checkpoint_that_was_never_stripped(pair, tmp_path, capsys):
    stripped = {"model": {"weight": torch.zeros(1000).half()}, "epoch": -1}
    for name, content in (("noota", _unstripped()), ("ota", stripped)):
        (tmp_path / "runs" / name / "weights").mkdir()
        torch.save(content, tmp_path / "runs" / name / "weights" / "best.pt")
    assert main(["compare", *pair]) == 0
    output = capsys.readouterr().out
    assert "noota: best.pt was never stripped" in output and "optimizer (float32) 0.0 MB" in output
    assert "ota: best.pt" not in output.replace("noota: best.pt", "")


def _unstripped():
    weights = {"weight": torch.zeros(1000).half()}
    return {
        "model": weights,
        "ema": {"weight": torch.ones(1000).half()},
        "optimizer": {"state": {0: torch.zeros(1000)}},
    }


def test_a_damaged_checkpoint_is_a_remark(pair, tmp_path, capsys):
    (tmp_path / "runs" / "ota" / "weights").mkdir()
    (tmp_path / "runs" / "ota" / "weights" / "best.pt").write_bytes(b"PK\x03\x04 and nothing more")
    assert main(["compare", *pair]) == 0
    assert "ota: best.pt cannot be read" in capsys.readouterr().out


def test_the_published_comparison(pair, tmp_path, capsys):
    reported = ["--hours", *map(str, GIVEN["hours"]), "--pace", *map(str, GIVEN["pace"])]
    assert main(["compare", *pair, *reported, "--price", "2.5", "--markdown", "c.md", "--json", "c.json"]) == 0
    output = capsys.readouterr().out
    for text in (output, (tmp_path / "compare.html").read_text(), (tmp_path / "c.md").read_text().replace("\\", "")):
        assert "+7.5%" in text and "+11.1%" in text and "5.9×" in text and "batch 64 contradicts the timings" in text
        assert "Extrapolated, not measured" in text and "overtakes" in text and "caution" in text
    found = json.loads((tmp_path / "c.json").read_text())
    changes = {row["name"]: row["changes"][1] for row in found["summary"]}
    assert changes["mAP50"] == pytest.approx(0.0753, abs=1e-4) and changes["hours"] == pytest.approx(4.884, abs=1e-3)


def test_profiles_and_classes_stand_side_by_side(pair, tmp_path):
    for name, loss in (("noota", 11.22), ("ota", 1016.03)):
        phases = [{"name": "forward", "mean_ms": 50.2, "std_ms": 1, "share": 0.3}, {"name": "loss", "mean_ms": loss}]
        folder = tmp_path / "runs" / name
        (folder / "profile.json").write_text(json.dumps({"phases": phases, "gear": "eager", "gpu_busy": 0.5}))
        classes = {"0": {"name": "<b>cat</b>", "ap50": loss / 2000, "ap": 0.1}}
        (folder / "per_class_ap.json").write_text(json.dumps({"per_class": classes}))
    assert main(["compare", *pair]) == 0
    page = (tmp_path / "compare.html").read_text()
    assert "1,016.03 ±" in page and "11.22 ±" in page and "GPU busy" in page
    assert "&lt;b&gt;cat" in page and "<b>cat" not in page


def test_many_kinds_are_listed_below_one_another(tmp_path, capsys):
    folders = [str(ours(tmp_path / f"k{n}", rising(12, 0.4 + n / 100), mixup=n / 10, seconds=5 + n)) for n in range(6)]
    assert main(["compare", *folders, "--names", *"abcdef"]) == 0
    output = capsys.readouterr().out
    assert re.search(r"^f .*\*", output, re.MULTILINE) and "mixup 0.0 (a), 0.1 (b)" in output
    assert output.count("overtakes") <= 20 and "…" not in output.split("differs")[0]


@pytest.mark.parametrize("count", [5, 6])
def test_classes_of_many_kinds_can_be_read_on_paper(tmp_path, count):
    """A column for each of ten kinds would leave room for a letter of the class."""
    folders = [ours(tmp_path / f"k{n}", rising(5, 0.4 + n / 100), mixup=n / 10) for n in range(count)]
    for folder, ap in zip(folders, (0.3, 0.1, 0.5, 0.2, 0.25, 0.35), strict=False):
        classes = {"0": {"name": "cat", "ap50": 2 * ap, "ap": ap}, "1": {"name": "dog"}}
        (folder / "evaluation.json").write_text(json.dumps({"per_class": classes}))
    assert main(["compare", *map(str, folders), "--markdown", "c.md", "--json", "c.json"]) == 0
    classes = (tmp_path / "c.md").read_text().split("## Classes")[1].split("##")[0]
    heading = next(line for line in classes.splitlines() if line.startswith("| class"))
    every = all(f"AP50-95 k{n}" in heading for n in range(count))
    assert every == (count == 5) and len(heading.strip("|").split("|")) == (12 if every else 8)
    row = "| cat | 0.3000 | 0.3500 | 0.0500 | 0.1000 k1 | 0.5000 k2 | 0.6000 | 0.7000 |"
    assert (row in classes) == (count == 6)
    assert len(json.loads((tmp_path / "c.json").read_text())["classes"][0]["ap50"]) == count


def test_what_does_not_count_is_said(tmp_path, capsys):
    one, other = ours(tmp_path / "a_0", rising(12)), ours(tmp_path / "b_0", rising(12, 0.45), mixup=0.1)
    again = shutil.copytree(one, tmp_path / "a_1")
    assert main(["compare", str(one), str(again), str(other), "--json", "c.json"]) == 0
    output = capsys.readouterr().out
    assert re.search(r"^ +a +b_0 +change +better", output) and "a_1 has the same results as a_0" in output
    assert "left out: a copy of a_0" in (tmp_path / "compare.html").read_text()
    assert json.loads((tmp_path / "c.json").read_text())["left_out"] == {"a_1": "a copy of a_0"}


def test_names_cannot_steer_the_terminal(tmp_path, capsys):
    one = ours(tmp_path / "a\x1b[31m<script>alert(1)</script>".replace("/", ""), rising(5), cfg="\x1b[2J")
    other = ultralytics(tmp_path / "b", rising(5))
    assert main(["compare", str(one), str(other)]) == 0
    assert "\x1b" not in capsys.readouterr().out and "<script>alert" not in (tmp_path / "compare.html").read_text()


@pytest.mark.slow
def test_only_own_pages_are_overwritten(pair, tmp_path, capsys):
    (tmp_path / "compare.html").write_text("mine")
    assert main(["compare", *pair]) == 2
    assert "was not written by `yolofast compare`" in capsys.readouterr().err
    assert (tmp_path / "compare.html").read_text() == "mine"
    words = ["compare", *pair, "--output", "new/c.html", "--json", "c.json", "--markdown", "c.md"]
    assert main(words) == 0 and main(words) == 0
    (tmp_path / "c.md").write_text("my notes on `yolofast compare`\n")  # names it, but is not of it
    assert main(words) == 2 and "my notes" in (tmp_path / "c.md").read_text()


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["--output", "c.md"], "--markdown c.md"),
        (["--output", "C.MD"], "--markdown C.MD"),
        (["--output", "c.json"], "--json c.json"),
        (["--markdown", "c.html"], "--output c.html"),
        (["--json", "c.md"], "--markdown c.md"),
    ],
)
def test_a_page_goes_into_no_file_of_another_kind(pair, tmp_path, capsys, words, fix):
    assert main(["compare", *pair, "--markdown", "c.md"]) == 0
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert main(["compare", *pair, "--price", "2", *words]) == 2
    assert fix in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_the_page_says_that_hours_are_not_comparable(tmp_path, capsys):
    """Said once, and neither the chart nor the table nor the terminal continues as if nothing had been said."""
    runs = [
        str(ours(tmp_path / name, rising(20, top), seconds=pace, environment={"gpu": gpu}))
        for name, top, pace, gpu in (("a", 0.4, 30, "H200"), ("b", 0.5, 10, "A100"))
    ]
    assert main(["compare", *runs, "--price", "2", "--markdown", "c.md", "--json", "c.json"]) == 0
    text = (tmp_path / "c.md").read_text()
    assert text.count("different hardware") == 1 and "Not all hours here can be compared" in text
    assert "the line is the Pareto front" not in text and "| yes |" not in text and "was over" not in text
    output = capsys.readouterr().out
    assert output.count("different hardware (gpu): H200 (a), A100 (b)") == 1 and "equal time:" not in output
    found = json.loads((tmp_path / "c.json").read_text())
    assert found["hours_differ"] == ["different hardware (gpu): H200 (a), A100 (b)"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["noota"], "one run cannot be compared"),
        (["noota", "nota"], "runs/noota'?"),
        (["noota", "noota"], "is given twice"),
        (["noota", "ota", "--hours", "1"], "--hours has 1 numbers for 2 runs"),
        (["noota", "ota", "--pace", "1"], "--pace has 1 numbers for 2 runs"),
        (["noota", "ota", "--output", "."], "is a folder"),
    ],
)
def test_mistakes_cost_one_message(pair, tmp_path, capsys, words, message):
    words = [str(tmp_path / "runs" / word) if word in ("noota", "ota", "nota") else word for word in words]
    assert main(["compare", *words]) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "compare.html").exists()


@pytest.mark.parametrize(
    "words", [["--price", "x"], ["--epochs", "0"], ["--last", "-1"], ["--price", "nan"], ["--hours", "0", "1"]]
)
def test_flags_are_checked(pair, words, capsys):
    try:
        code = main(["compare", *pair, *words])
    except SystemExit as stop:  # a word that is no number at all is refused by the parser
        code = stop.code
    message = capsys.readouterr().err
    assert code == 2 and words[0] in message and ("of at least" in message or "invalid float value" in message)


@pytest.mark.parametrize("hours", [("1e-320", "1"), ("nan", "1"), ("inf", "1"), ("-3", "1"), ("1", "9" * 400)])
def test_hours_that_nothing_can_take_cost_one_message(pair, capsys, hours):
    assert main(["compare", *pair, "--hours", *hours]) == 2
    assert "numbers of at least 1e-09 and at most 1e+09" in capsys.readouterr().err


def test_the_longest_beside_the_shortest_hours(pair):
    assert main(["compare", *pair, "--hours", "1e-9", "1e9"]) == 0
