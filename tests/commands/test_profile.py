"""`yolofast profile` as a user types it."""

import gzip
import json

import pytest

from tests.train.small_run import flags
from tests.train.two_ranks import small_cfg_file
from yolofast.cli import main
from yolofast.commands import profile as profile_command
from yolofast.errors import UserError
from yolofast.files.own_file import refuse_other_than_trace
from yolofast.profile.step_phases import OPTIMIZER

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("profile")


@pytest.fixture(scope="module")
def few(folder):
    (folder / "hyp.yaml").write_text("nbs: 24\n")
    words = flags(folder, batch_size=4, cfg=small_cfg_file(folder), hyp=folder / "hyp.yaml")
    return [*words, "--steps", "2", "--warm-up", "1"]


@pytest.mark.slow
def test_a_table_a_verdict_a_trace_and_no_run_folder(folder, few, capfd):
    trace = folder / "traces" / "trace.json"
    trace.parent.mkdir()
    assert main(["profile", *few, "--trace", str(trace), "--output", str(folder / "out")]) == 0
    out, errors = capfd.readouterr()
    assert "USDT" not in errors  # torch's profiler says that it starts and stops
    for name in ("data wait", "host→device", "augment", "forward", "assign", "loss", "backward", "rest"):
        assert any(line.startswith(name) and "±" in line for line in out.splitlines()), name
    assert "no weights moved in these steps" in out  # of six batches one does
    assert "phases by wall clock, 2 steps" in out
    assert "main process" in out and "nearest limit" in out
    assert "images/s, wall clock over 2 steps" in out
    assert not (folder / "runs").exists()
    names = {event.get("name") for event in json.loads(trace.read_text())["traceEvents"]}
    assert {"data wait", "augment", "host to device", "forward", "assign", "loss", "backward", "rest"} <= names
    assert OPTIMIZER in names, "a trace has a step that moves the weights, which none of the two measured ones does"
    assert "unknown" not in names
    assert list(trace.parent.iterdir()) == [trace]
    assert json.loads((folder / "out" / "profile.json").read_text())["steps"] == 2
    # What it has written itself may be written over.
    refuse_other_than_trace(trace)
    packed = trace.with_suffix(".json.gz")
    packed.write_bytes(gzip.compress(trace.read_bytes()))
    assert main(["profile", *few, "--trace", str(packed), "--output", str(folder / "out")]) == 0
    assert json.loads((folder / "out" / "profile.json").read_text())["made_by"] == "yolofast profile"


@pytest.mark.parametrize(("value", "asked"), [("1", True), ("0", False)])
def test_the_environment_may_ask_for_the_compilers_report_too(value, asked, few, monkeypatch):
    requests = []

    def refused(run, request, say):
        requests.append(request)
        raise UserError("that is enough")

    monkeypatch.setattr(profile_command, "profile_run", refused)
    monkeypatch.setenv("DIAGNOSE_COMPILE", value)
    assert main(["profile", *few]) == 2
    assert [request.with_compile_report for request in requests] == [asked]


@pytest.mark.slow
def test_json_is_all_that_is_printed(few, capsys):
    assert main(["profile", *few, "--json", "--compile-report"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["setup"]["gear"] == "eager"
    assert [phase["name"] for phase in content["phases"]][:3] == ["data wait", "host→device", "augment"]
    assert content["verdicts"] and content["ceilings"]["flops"] > 0 and content["work"]["flops"] > 0
    assert "graphs: 1, breaks: 0" in content["compile_report"]


@pytest.mark.slow
def test_against_prints_both_and_the_difference(few, folder, capsys):
    written = folder / "both.json"
    assert main(["profile", *few, "--against", "--assigner anchor --no-plots", "--json", str(written)]) == 0
    out = capsys.readouterr().out
    assert "\nfirst\n" in out and "\nsecond\n" in out
    content = json.loads(written.read_text())
    assert (content["setup"]["assigner"], content["against"]["setup"]["assigner"]) == ("ota", "anchor")
    assert content["comparison"]["text"] in out
    assert content["comparison"]["first"]["samples"] == 2
    assert "--steps 2: 10 of each, because they are measured in turn, in blocks of 5, 2 of each at least" in out
    assert content["steps"] == content["against"]["steps"] == 10


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--against", ""], "--against names no flag"),
        (["--resume"], "starts from settings"),
        (["--device", "0,1"], "--device 0"),
        (["--trace", "nowhere/trace.json"], "nowhere/trace.json: cannot be written: there is no such folder"),
        (["--json", "nowhere/profile.json"], "fix: mkdir -p nowhere"),
        (["--output", "nowhere/else"], "there is no such folder"),
        (["--steps", "0"], "--steps is 0"),
        (["--at-epoch", "0"], "--at-epoch is 0"),
        (["--at-epoch", "4", "--epochs", "3"], "fix: give an epoch from 1 to 3, or more --epochs"),
        (["--against", "--loadr cpu"], "--loadr"),
        (["--against", "--loadr cpu"], "fix: see yolofast profile --help"),
        (["--against", "--name 'x"], "close the quotation mark"),
        (["--startup", "--against", "--loader cpu"], "--against is of the step, and --startup measures the start"),
        (["--startup", "--trace", "trace.json"], "fix: omit --trace, or --startup"),
        (["--startup", "--at-epoch", "1"], "--at-epoch is of the step"),
        (["--startup", "--compile-report"], "--compile-report is of the step"),
    ],
)
def test_mistakes_are_reported_before_anything_is_measured(words, message, capsys):
    try:
        code = main(["profile", *words])
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    assert code == 2
    assert message in captured.err


@pytest.mark.parametrize(
    ("flag", "name", "content"),
    [
        ("--output", "profile.json", '{"phases": [], "timed_steps": 9}'),  # a training's own
        ("--json", "data.json", '{"images": []}'),
        ("--trace", "notes.txt", "what a trace is"),
        ("--trace", "weights.gz", "no archive"),
    ],
)
def test_a_file_of_others_is_never_overwritten(few, tmp_path, capsys, flag, name, content):
    path = tmp_path / name
    path.write_text(content)
    assert main(["profile", *few, flag, str(tmp_path if flag == "--output" else path)]) == 2
    assert path.read_text() == content
    fix = "name another folder, or remove that file" if flag == "--output" else "name another file, or remove it"
    error = capsys.readouterr().err
    assert f"{path}: exists and " in error and f"fix: {fix}" in error


def test_output_is_a_folder(few, tmp_path, capsys):
    (tmp_path / "profile.json").write_text("{}")
    assert main(["profile", *few, "--output", str(tmp_path / "profile.json")]) == 2
    assert "profile.json: is not a folder\n  fix: name a folder, for profile.json in it" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(("epoch", "assigner"), [((), "ota"), (("--at-epoch", "1"), "anchor")])
def test_the_epoch_can_be_chosen(few, capsys, epoch, assigner):
    assert main(["profile", *few, "--ota-from-epoch", "1", *epoch, "--json"]) == 0
    setup = json.loads(capsys.readouterr().out)["setup"]
    assert (setup["epoch"], setup["assigner"]) == (0 if epoch else 1, assigner)
