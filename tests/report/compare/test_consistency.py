"""Figures that cannot all be true, and figures that cannot be put beside one another."""

import json
from dataclasses import replace

import pytest
import yaml

from tests.report.compare.folders import ours, published, rising, ultralytics
from yolofast.report.compare.compared_run import WeightsFile
from yolofast.report.compare.comparison import CompareRequest, compare
from yolofast.report.compare.differences import UNSAID
from yolofast.report.compare.read_folder import read_runs
from yolofast.resources import ROOT


def remarks(*folders, **requested):
    found = compare(read_runs([str(folder) for folder in folders]), CompareRequest(groups=("none",), **requested))
    return "\n".join(f"{remark.kind}: {remark.text}" for remark in found.remarks)


def test_nothing_is_said_of_runs_that_are_fine(tmp_path):
    one, other = ours(tmp_path / "a", rising(5)), ours(tmp_path / "b", rising(5, 0.41), mixup=0.1)
    assert remarks(one, other) == ""


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"data": "coco.yaml"}, "different validation sets: voc.yaml (a), coco.yaml (b)"),
        ({"img_size": 320}, ""),
        ({"epochs": 9}, "b: has 5 of 9 planned epochs"),
        ({"assigner": "tal"}, "training losses of different assigners are not comparable: ota (a), tal (b)"),
        ({"box": 0.1}, ""),
        ({"environment": {"gpu": "other"}}, "different hardware (gpu): card (a), other (b)"),
    ],
)
def test_one_thing_is_wrong(tmp_path, args, words):
    text = remarks(ours(tmp_path / "a", rising(5)), ours(tmp_path / "b", rising(5, 0.41), **args))
    assert words in text and (text == "") == (words == "")  # what only one of them states is no contradiction


def test_sizes_and_gains(tmp_path):
    one, other = (ours(tmp_path / str(n), rising(5, 0.4 + n / 100), img_size=n * 320, box=n / 10) for n in (1, 2))
    text = remarks(one, other)
    assert "evaluated at different sizes: 320 (1), 640 (2)" in text
    assert "losses with different box: 0.1 (1), 0.2 (2)" in text


def test_runs_with_one_value_are_named_together(tmp_path):
    args = (("ota", 32), ("ota", 32.0), ("anchor", 64), ("ota", 32))
    folders = [
        ours(tmp_path / f"r{n}", rising(5, 0.4 + n / 100), assigner=assigner, conf=conf)
        for n, (assigner, conf) in enumerate(args)
    ]
    text = remarks(*folders)
    assert "are not comparable: ota (r0, r1, r3), anchor (r2); they are" in text
    assert "different conf: 32 (r0, r1, r3), 64 (r2); which" in text  # 32 and 32.0 are the same


def test_different_trainers(tmp_path):
    one, other = ours(tmp_path / "a", rising(5), data="coco.yaml"), ultralytics(tmp_path / "b", rising(5))
    text = remarks(one, other)
    assert "losses of different trainers are not comparable: yolofast (a), Ultralytics (b)" in text
    assert "hours are not comparable: those of a are of training alone, those of b of everything" in text


def test_iterations_are_not_the_data_set(tmp_path):
    folder, other = ours(tmp_path / "a", rising(3)), ours(tmp_path / "b", rising(3, 0.41))
    for name, batches in ((folder, 20), (other, 10)):  # 1,000 images in batches of 50
        rows = [f"{epoch},{batch},1.0,ota" for epoch in range(3) for batch in range(batches)]
        (name / "batches.csv").write_text("\n".join(["epoch,batch,total,assigner", *rows, ""]))
    assert remarks(folder, other).startswith(
        "contradiction: b: 10 iterations of batch 50 are 500 images, but the run counted 1,000 images an epoch"
    )
    assert "--images" in remarks(folder, other, images=5000)


def test_scores_that_cannot_be(tmp_path):
    folder, other = ours(tmp_path / "a", rising(3)), ours(tmp_path / "b", rising(3, 0.41))
    text = (folder / "results.csv").read_text()
    (folder / "results.csv").write_text(
        text.replace("mAP50(B)", "x").replace("mAP50-95(B)", "mAP50(B)").replace("x", "mAP50-95(B)")
    )
    assert "a: mAP50-95 is above mAP50" in remarks(folder, other)
    classes = {"0": {"name": "cat", "ap50": 0.9, "ap": 0.8}}
    (other / "evaluation.json").write_text(json.dumps({"per_class": classes}))
    (other / "summary.json").write_text(json.dumps({"best": {"metrics/mAP50-95(B)": 0.9}}))
    text = remarks(folder, other)
    assert "b: the mean of its classes is 0.9000" in text and "b: summary.json says mAP50-95 0.9000" in text
    (other / "summary.json").write_text(json.dumps({"epochs": 1, "best": {"metrics/mAP50-95(B)": 0.9}}))
    assert "summary.json says" not in remarks(folder, other), "it is of an earlier end"


def test_validation_sets_are_counted(tmp_path):
    folders = [ours(tmp_path / name, rising(3, top)) for name, top in (("a", 0.4), ("b", 0.41))]
    for images, folder in zip((800, 801), folders, strict=True):
        (folder / "evaluation.json").write_text(json.dumps({"images": images, "per_class": {}}))
    assert "different numbers of validation images: 800 (a), 801 (b)" in remarks(*folders)


def test_a_total_that_is_no_sum(tmp_path):
    folder, other = published(tmp_path, "ota", batch=384), published(tmp_path, "noota", batch=384)
    text = (folder / "results.txt").read_text()
    assert "not the sum" not in remarks(folder, other)
    (folder / "results.txt").write_text(text.replace("0.0781", "0.0981"))
    assert "ota: the total training loss is not the sum of its terms" in remarks(folder, other)


def test_a_copy(tmp_path):
    text = remarks(ours(tmp_path / "a", rising(5)), ours(tmp_path / "b", rising(5)))
    assert "b has the same results as a to the last digit" in text


def test_who_does_not_say_it_is_left_out_of_the_sentence(tmp_path):
    one, other, silent = (ours(tmp_path / name, rising(5, top)) for name, top in (("a", 0.4), ("b", 0.41), ("c", 0.42)))
    for folder, settings in ((one, "img_size: 320"), (other, "img_size: 640"), (silent, "seed: 0")):
        (folder / "args.yaml").write_text(f"{settings}\nname: {folder.name}\n")
    assert "evaluated at different sizes: 320 (a), 640 (b); which" in remarks(one, other, silent)


def test_what_another_setting_overrules_is_not_listed(tmp_path):
    one, other = ours(tmp_path / "a", rising(5)), ours(tmp_path / "b", rising(5, 0.41), assigner="anchor")
    first, second = read_runs([str(one), str(other)])
    assert [run.settings["assigner"] for run in (first, second)] == ["ota", "anchor"]
    assert "loss_ota" not in first.settings and "loss_ota" not in second.settings


def test_a_run_without_hours_or_scores(tmp_path):
    folder, other = published(tmp_path, "ota"), ultralytics(tmp_path / "u", [float("nan")] * 3)
    text = remarks(folder, other)
    assert "no file says how long ota took; give it: --hours" in text and "u: was never evaluated" in text
    assert "no file says" not in remarks(folder, other, hours=(10.65, 1.0))


def test_what_only_one_trainer_states_is_no_difference(tmp_path):
    one, other, third = (
        ours(tmp_path / "a", rising(5), data="coco.yaml"),
        ultralytics(tmp_path / "b", rising(5), cos_lr=True),
        ours(tmp_path / "c", rising(5), data="coco.yaml", quad=True),
    )
    found = compare(read_runs([str(path) for path in (one, other, third)]), CompareRequest()).differences
    differ = {one.key: one.values for one in found.differ}
    assert differ["batch_size"] == (50, 16, 50) and differ["quad"] == (UNSAID, UNSAID, True)
    assert "cos_lr" in {one.key for one in found.partly} and "data" in {one.key for one in found.equal}


def undecided(found):
    """Rows of the summary without a winner -> what is said of it."""
    return {row.name: row.remark for row in found.summary if row.winner is None}


def pair_of(tmp_path, one, other):
    """Two runs, the second better, with settings of their own; `hyp` are those of their hyper-parameters."""
    folders = []
    for name, top, given in (("a", 0.4, dict(one)), ("b", 0.45, dict(other))):
        hyp = given.pop("hyp", {})
        folders.append(ours(tmp_path / name, rising(5, top), **given))
        (folders[-1] / "hyp.yaml").write_text(yaml.safe_dump({"lr0": 0.01, "loss_ota": 1, **hyp}))
    return compare(read_runs([str(folder) for folder in folders]), CompareRequest(groups=("none",)))


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({"input_size": [64, 96]}, {"input_size": [96, 96]}, "evaluated at different sizes: [64, 96] (a), 96 (b)"),
        ({"test_conf": 0.01}, {"test_conf": 0.5}, "evaluated with different test_conf: 0.01 (a), 0.5 (b)"),
        ({"nms": 0.65}, {"nms": 0.3}, "evaluated with different nms: 0.65 (a), 0.3 (b)"),
    ],
)
def test_recipes_say_how_a_yolox_is_evaluated(tmp_path, one, other, words):
    found = pair_of(tmp_path, {"img_size": [64, 96], "hyp": one}, {"img_size": [96, 96], "hyp": other})
    assert any(words in remark.text for remark in found.remarks)
    assert undecided(found)["mAP50-95"] == "not comparable" and found.conclusions[0].kind == "caution"


def test_the_size_trained_at_is_not_the_one_evaluated_at(tmp_path):
    """YOLOv7's two numbers are of training and of evaluation."""
    found = pair_of(tmp_path, {"img_size": [320, 640]}, {"img_size": [640, 640]})
    assert "mAP50-95" not in undecided(found) and not found.remarks


@pytest.mark.parametrize(
    "several", [{"heads": 4, "head_config": "some/by_size.yaml"}, {"heads": 4}, {"cfg": "yolov7-tiny-1b4h", "heads": 0}]
)
def test_losses_of_several_heads_are_sums_over_them(tmp_path, several):
    found = pair_of(tmp_path, {"heads": 0, "head_config": "", "cfg": "yolov7-tiny"}, several)
    assert any("losses of different heads are not comparable: one (a)" in remark.text for remark in found.remarks)
    for row in ("train loss, last epoch", "val loss, last epoch"):
        assert undecided(found)[row] == "not comparable"
    assert "mAP50-95" not in undecided(found)


@pytest.mark.slow
def test_several_heads_are_known_by_the_last_layer_of_the_model_file(tmp_path):
    """Whatever it is called; where it is gone, its name has to do."""
    published = (ROOT / "cfg" / "training" / "yolov7-tiny-1b4h.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(published)
    (tmp_path / "once-1b4h.yaml").write_text(published.replace("MultiHeadDetect,", "IDetect,"))
    one = {"heads": 0, "head_config": "", "cfg": "yolov7-tiny"}
    found = {}
    for name in ("mine.yaml", "once-1b4h.yaml", "gone-1b4h.yaml", "gone.yaml"):
        other = {"heads": 0, "head_config": "", "cfg": str(tmp_path / name)}
        compared = pair_of(tmp_path / name.removesuffix(".yaml"), one, other)
        found[name] = any("losses of different heads" in remark.text for remark in compared.remarks)
    assert found == {"mine.yaml": True, "once-1b4h.yaml": False, "gone-1b4h.yaml": True, "gone.yaml": False}


@pytest.mark.parametrize("more", [("seg",), ("pose", "kobj")])
def test_other_tasks_have_more_terms(tmp_path, more):
    folders = [ultralytics(tmp_path / name, rising(3, top)) for name, top in (("a", 0.4), ("b", 0.41))]
    for path in (folder / "results.csv" for folder in folders):
        head, *rows = path.read_text().splitlines()
        head = head + "".join(f",train/{term}_loss" for term in more)
        path.write_text("\n".join([head, *(row + ",0.8" * len(more) for row in rows), ""]))
    assert "not the sum" not in remarks(*folders)


def test_a_single_evaluation_beside_many(tmp_path):
    nan = float("nan")
    often, once = ours(tmp_path / "often", rising(4)), ours(tmp_path / "once", [nan, nan, nan, 0.39])
    assert "note: epochs that were evaluated: 4 of 4 (often), 1 of 4 (once); the best of many" in remarks(often, once)
    longer = ours(tmp_path / "longer", rising(9))
    assert "were evaluated" not in remarks(often, longer), "a longer run is evaluated as often"


def test_weights_that_were_never_stripped_do_not_compete(tmp_path):
    folders = [ours(tmp_path / name, rising(5, top)) for name, top in (("a", 0.4), ("b", 0.41))]
    small = WeightsFile(name="best.pt", bytes=12_000_000, entries={"model": 12_000_000})
    large = WeightsFile(name="best.pt", bytes=60_000_000, entries={"model": 24_000_000, "optimizer": 36_000_000})
    runs = read_runs([str(folder) for folder in folders])

    def undecided_with(*files):
        weighed = [replace(run, weights=(file,)) for run, file in zip(runs, files, strict=True)]
        return undecided(compare(weighed, CompareRequest(groups=("none",))))

    assert undecided_with(small, large)["best.pt, MB"] == "not stripped"
    assert "best.pt, MB" not in undecided_with(small, replace(small, bytes=13_000_000))
