"""Which run to take for what, and no advice where a figure decides nothing."""

import pytest

from tests.report.compare.folders import GIVEN, ours, published, rising
from yolofast.report.compare.comparison import CompareRequest, as_json, compare
from yolofast.report.compare.read_folder import read_runs


def advice(folders, **how):
    return {one.use: one for one in compare(read_runs([str(one) for one in folders]), CompareRequest(**how)).uses}


@pytest.fixture(scope="module")
def of_published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    return advice([published(folder, name) for name in ("noota", "ota")], **GIVEN)


def test_the_published_comparison(of_published):
    """OTA finds more, misses less and takes 5.9 times as long; for a trial of two hours it is not there yet."""
    best = of_published["the best boxes"]
    assert best.take == "ota" and best.why == (
        "mAP50-95 0.2510 against 0.2260 of noota; 5.9× the hours of noota; not proven, as long as each is one run"
    )
    assert of_published["as few missed objects as possible"].take == "ota"
    assert of_published["as few false boxes as possible"].take == "noota"
    assert of_published["the least training time"].take == "noota"
    assert "not proven" not in of_published["the least training time"].why
    trial = of_published["trials of at most 1.81 h"]
    assert trial.take == "noota" and trial.why.startswith("by then noota has mAP50-95 0.2260, ota 0.1")
    assert "a smaller GPU" not in of_published, "both have 3.21G"


def kinds(folder, *, first, second, seconds=(10, 30)):
    made = []
    for name, tops, pace in (("a", first, seconds[0]), ("b", second, seconds[1])):
        made += [
            ours(folder / f"{name}{seed}", rising(12, top), seed=seed, mixup=ord(name) / 1000, seconds=pace + seed / 10)
            for seed, top in enumerate(tops)
        ]
    return made


def test_the_quicker_one_where_accuracies_do_not_differ(tmp_path):
    found = advice(kinds(tmp_path, first=(0.40, 0.42, 0.41), second=(0.41, 0.405, 0.42)))
    assert found["everything else"].take == "a" and "does not differ beyond chance" in found["everything else"].why
    assert "the best boxes" not in found and not any(use.startswith("trials") for use in found)


def test_seeds_prove_it(tmp_path):
    found = advice(kinds(tmp_path, first=(0.40, 0.401, 0.402), second=(0.45, 0.451, 0.452)))
    assert found["the best boxes"].take == "b" and "not proven" not in found["the best boxes"].why


def test_nothing_is_advised_where_nothing_can_be_compared(tmp_path):
    """Evaluated on other images; and one kind alone."""
    two = [ours(tmp_path / name, rising(6, top), data=f"{name}.yaml") for name, top in (("a", 0.4), ("b", 0.5))]
    assert "the best boxes" not in advice(two)
    same = kinds(tmp_path / "c", first=(0.4, 0.41), second=())
    found = compare(read_runs([str(one) for one in same]), CompareRequest())
    assert not found.uses and as_json(found)["uses"] == []


def test_a_run_that_has_diverged_is_never_advised(tmp_path):
    """By chance its scores are the higher ones; its losses say what it is."""
    good, wild = (
        ours(tmp_path / "good", rising(12, 0.3)),
        ours(tmp_path / "wild", rising(12, 0.4), mixup=0.1, seconds=5),
    )
    assert advice([good, wild])["the best boxes"].take == "wild"
    table = wild / "results.csv"
    head, *rows = [line.split(",") for line in table.read_text().splitlines()]
    place = next(at for at, name in enumerate(head) if name.strip().startswith("val/"))
    for row in rows:
        row[place] = "1e17"
    table.write_text("".join(",".join(row) + "\n" for row in (head, *rows)))
    found = compare(read_runs([str(good), str(wild)]), CompareRequest())
    assert not any(one.take == "wild" for one in found.uses)
    (remark,) = [one.text for one in found.remarks if one.kind == "lost"]
    assert remark.startswith("wild: its best epoch is of a network that had diverged, the validation loss is 1e+17")
