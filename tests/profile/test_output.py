"""What is printed and written: complete, and valid JSON whatever is not known."""

import json
from dataclasses import replace

import pytest

from tests.profile.figures import ON_CPU, made_up
from yolofast.profile.bottlenecks import verdicts
from yolofast.profile.output import comparison_json, phase_rows, profile_json, title, usage_rows, verdict_lines
from yolofast.profile.records import PhaseFigures, WaitPlace, Waits, Work
from yolofast.profile.step_phases import ASSIGN, DATA_WAIT, FUSED
from yolofast.profile.step_statistics import compare


def test_json_has_what_other_tools_read():
    content = json.loads(json.dumps(profile_json(made_up()), allow_nan=False))
    assert {"name", "mean_ms", "std_ms", "share"} <= content["phases"][0].keys()
    assert (content["gear"], content["gpu_busy"], round(content["images_per_second"])) == (
        "graph, compiled",
        0.97,
        6400,
    )
    assert content["verdicts"][0]["kind"] == "nothing"
    assert content["limits"][0]["name"] == "arithmetic"


def test_infinities_become_null():
    assert json.loads(json.dumps(comparison_json(compare([1.0], [2.0])), allow_nan=False))["uncertainty"] is None


def test_rows_of_phases_and_of_the_twin():
    part = PhaseFigures(name=ASSIGN, mean_ms=1.5, std_ms=0.5, median_ms=1.5, share=0.25)
    profile = made_up(phases={FUSED: 4.0}, split=(part,), split_of=FUSED)
    rows = list(phase_rows(profile))
    names = [row[0] for row in rows]
    assert names[names.index(FUSED) + 1] == "  assign"
    assert rows[names.index(FUSED) + 1][1:] == ("1.50 ± 0.50", "25.0%", "share of assign+loss, by the twin")
    assert rows[-1][0] == "step"
    assert "images/s" in rows[-1][3]


def test_what_is_used_is_said_with_its_source():
    text = dict(usage_rows(replace(made_up(), waits=Waits((WaitPlace("loss", "loss/yolov7_loss.py:3", 1.5),)))))
    assert text["GPU busy"] == "97.0% of the time (kernels)"
    assert text["waits for the GPU"] == "1.5 per step: loss/yolov7_loss.py:3 in loss"
    assert "50% of the limit – the nearest limit" in text["arithmetic"]
    sending = replace(made_up(phases={"host→device": 2.0}), work=Work(flops=1.0, bytes=1.0, sent_bytes=2e7))
    assert dict(usage_rows(sending))["host→device"] == "10 GB/s while a batch is copied"
    assert dict(usage_rows(made_up(ON_CPU)))["workers"] == "50 % of a core together, 12 % each of 4"


def test_title_and_verdict_are_readable():
    assert "yolov7-tiny, 320×320, batch 64, ota, bf16, gear graph, compiled" in title(made_up().setup)
    lines = list(verdict_lines(verdicts(made_up(phases={"data wait": 10.0}))[0]))
    assert lines[1].startswith("  change: ") and lines[2].startswith("  gain: ")


def test_one_of_something_is_not_many():
    alone = replace(ON_CPU, workers=1)
    assert "batches made by 1 worker," in title(alone)
    assert dict(usage_rows(made_up(alone)))["workers"] == "50 % of a core"


def test_a_single_measurement_has_no_spread():
    once = PhaseFigures(name="augment", mean_ms=7.0, std_ms=0.0, median_ms=7.0, share=0.7, beside="in workers")
    profile = replace(made_up(), phases=(once,))
    assert next(phase_rows(profile)) == ("augment", "7.00", "", "parallel to the step, in workers")


@pytest.mark.parametrize(
    ("cores", "batch_ms", "workers", "says"),
    [
        (8, 25.0, 3, "3 recommended: a process makes a batch in 25.0 ms, without it the step takes 9.9 ms"),
        (8, 1.0, 1, "1 recommended: "),
        (2, 25.0, 1, "1 recommended: a process makes a batch in 25.0 ms, without it the step takes 9.9 ms; 3 would "
         "keep up, but there are 2 cores"),
        (1, 25.0, 0, "0 recommended: "),
    ],
)  # fmt: skip
def test_workers_are_recommended(cores, batch_ms, workers, says):
    """Whatever the step waits for now is not part of what workers have to keep up with."""
    profile = made_up(replace(ON_CPU, cores=cores), phases={DATA_WAIT: 7.0}, batch_ms=batch_ms)
    assert dict(usage_rows(profile))["--workers"].startswith(says)
    assert profile_json(profile)["recommended_workers"] == workers


def test_a_gpu_that_makes_its_batches_needs_none():
    assert "--workers" not in dict(usage_rows(made_up())) and profile_json(made_up())["recommended_workers"] is None
