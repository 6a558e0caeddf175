"""Repeated runs: which are of one kind, and what may be concluded from them."""

import numpy as np
import pytest
from scipy import stats

from tests.report.compare.folders import ours, rising, ultralytics
from yolofast.errors import UserError
from yolofast.report.compare.comparison import CompareRequest, compare
from yolofast.report.compare.conclusion import BETTER, CAUTION, IDENTICAL, SAME, WORSE
from yolofast.report.compare.figures import holm, runs_needed, spread_of, welch
from yolofast.report.compare.kinds import curves_of, group_runs
from yolofast.report.compare.read_folder import read_runs


def seeds(folder, name, tops, **args):
    return [str(ours(folder / f"{name}_{i}", rising(12, top), seed=i, **args)) for i, top in enumerate(tops)]


def names(groups):
    return {group.name: [run.name for run in group.runs] for group in groups}


def test_runs_that_differ_in_the_seed_are_one_kind(tmp_path):
    runs = read_runs(seeds(tmp_path, "a", [0.4, 0.41]) + seeds(tmp_path, "b", [0.4, 0.41], mixup=0.1))
    assert names(group_runs(runs)) == {"a": ["a_0", "a_1"], "b": ["b_0", "b_1"]}
    assert len(group_runs(runs, ["none"])) == 4


def test_the_assigner_that_is_used_anyway_may_be_named(tmp_path):
    """By default the recipe says OTA, so this is a third seed of the same kind, and no other setting."""
    runs = read_runs(seeds(tmp_path, "a", [0.4, 0.41]) + seeds(tmp_path, "b", [0.42], assigner="ota"))
    assert len(group_runs(runs)) == 1
    assert "assigner" in {one.key for one in compare(runs, CompareRequest()).differences.equal}


def test_other_versions_and_cards_are_other_kinds(tmp_path):
    one = seeds(tmp_path, "a", [0.4])
    for name, environment in (("b", {"torch": "2.9"}), ("c", {"gpu": "other"})):
        other = seeds(tmp_path, name, [0.4], environment=environment)
        assert len(group_runs(read_runs(one + other))) == 2


def test_nothing_is_grouped_where_no_seed_is_stated(tmp_path):
    runs = [str(ultralytics(tmp_path / name, [0.1, 0.2])) for name in ("a", "b")]
    assert len(group_runs(read_runs(runs))) == 2


def test_patterns(tmp_path):
    runs = read_runs(seeds(tmp_path, "ota", [0.4, 0.41], mixup=0.1) + seeds(tmp_path, "plain", [0.3]))
    assert names(group_runs(runs, ["new=ota_*", "plain_*"])) == {"new": ["ota_0", "ota_1"], "plain_0": ["plain_0"]}
    with pytest.raises(UserError, match="--group x\\* fits no run"):
        group_runs(runs, ["x*"])


def test_curves_are_means_over_common_epochs(tmp_path):
    short, long = ours(tmp_path / "a", [0.1, 0.2]), ours(tmp_path / "b", [0.3, 0.4, 0.5])
    (group,) = group_runs(read_runs([str(short), str(long)]), ["all=*"])
    curves = curves_of(group)
    assert curves.epoch.tolist() == [1, 2] and curves.column("mAP50-95") == pytest.approx([0.2, 0.3])
    assert curves.std["mAP50-95"] == pytest.approx([np.sqrt(0.02)] * 2)


def conclusion(folder, one, other):
    runs = read_runs(seeds(folder, "a", one) + seeds(folder, "b", other, mixup=0.1))
    found = compare(runs, CompareRequest())
    return found.conclusions[0], next(row for row in found.summary if row.name == "mAP50-95")


def test_a_difference_beyond_chance(tmp_path):
    verdict, row = conclusion(tmp_path / "up", [0.40, 0.41, 0.405], [0.45, 0.46, 0.455])
    assert verdict.kind == BETTER and verdict.p < 0.01 and verdict.low > 0 and row.winner == 1
    verdict, row = conclusion(tmp_path / "down", [0.45, 0.46, 0.455], [0.40, 0.41, 0.405])
    assert verdict.kind == WORSE and verdict.high < 0 and row.winner == 0


def test_a_difference_within_chance(tmp_path):
    verdict, row = conclusion(tmp_path, [0.40, 0.43, 0.41], [0.411, 0.431, 0.42])
    assert verdict.kind == SAME and verdict.p > 0.05 and "runs of each would be needed" in verdict.text
    assert row.winner is None and row.remark.startswith("within chance")


def test_one_run_beside_three(tmp_path):
    verdict, _ = conclusion(tmp_path, [0.40, 0.41, 0.405], [0.45])
    assert verdict.kind == CAUTION and "was run once" in verdict.text


@pytest.mark.parametrize("tops", [[0.4], [0.4, 0.41, 0.42]])
def test_kinds_that_learned_the_same_need_no_more_seeds(tmp_path, tops):
    """More workers are another pace, and nothing else; given in another order they are the same as well."""
    ones, others = seeds(tmp_path, "a", tops), seeds(tmp_path, "b", tops, workers=9, seconds=5)
    (verdict,) = compare(read_runs([*ones, *others[::-1]]), CompareRequest()).conclusions
    assert verdict.kind == IDENTICAL and "to the last digit" in verdict.text and "seeds" not in verdict.text


def test_as_many_others_are_not_the_same(tmp_path):
    runs = seeds(tmp_path, "a", [0.4, 0.41]) + seeds(tmp_path, "b", [0.4, 0.42], workers=9, seconds=5)
    (verdict,) = compare(read_runs(runs), CompareRequest()).conclusions
    assert verdict.kind == SAME


def test_repeats_without_any_spread_prove_nothing(tmp_path):
    verdict, _ = conclusion(tmp_path, [0.40, 0.40], [0.41, 0.41])
    assert verdict.kind == CAUTION and "from one run of each" in verdict.text  # the repeats do not count


def test_welch_is_welch():
    a, b = [0.40, 0.43, 0.41, 0.40], [0.44, 0.42, 0.45]
    test = welch(spread_of(a), spread_of(b))
    va, vb = np.var(a, ddof=1) / 4, np.var(b, ddof=1) / 3
    t = (np.mean(b) - np.mean(a)) / np.sqrt(va + vb)
    freedom = (va + vb) ** 2 / (va**2 / 3 + vb**2 / 2)
    assert test.p == pytest.approx(2 * stats.t.sf(t, freedom))
    assert test.low == pytest.approx(test.difference - stats.t.ppf(0.975, freedom) * np.sqrt(va + vb))
    assert welch(spread_of([0.4]), spread_of(b)) is None and spread_of([float("nan")]) is None


def test_many_comparisons_are_paid_for():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


def test_an_interval_is_adjusted_as_its_probability_is(tmp_path):
    """By itself c would differ from a; beside b it does not, and its interval must not say that it does."""
    tops = {"a": (0.400, 0.402, 0.404), "b": (0.3995, 0.4015, 0.4045), "c": (0.405, 0.408, 0.4085)}
    paths = [path for n, (name, values) in enumerate(tops.items()) for path in seeds(tmp_path, name, values, mixup=n)]
    same, other = compare(read_runs(paths), CompareRequest()).conclusions
    alone = compare(read_runs(paths[:3] + paths[6:]), CompareRequest()).conclusions[0]
    assert alone.kind == BETTER and alone.low > 0 and "adjusted" not in alone.text
    assert other.kind == SAME and other.p == pytest.approx(2 * alone.p) and other.low < 0 < other.high
    assert "interval and p adjusted for 2 comparisons" in other.text
    assert same.kind == SAME and same.low < 0 < same.high


def test_an_adjusted_probability_is_called_so(tmp_path):
    tops = {"a": (0.40, 0.41), "b": (0.45, 0.47), "c": (0.42, 0.43)}
    paths = [
        str(ours(tmp_path / f"{kind}{n}", rising(5, top))) for kind, two in tops.items() for n, top in enumerate(two)
    ]
    several = compare(read_runs(paths), CompareRequest(groups=("a*", "b*", "c*"))).conclusions
    assert all("adjusted for 2 comparisons" in one.text for one in several) and len(several) == 2
    (alone,) = compare(read_runs(paths[:4]), CompareRequest(groups=("a*", "b*"))).conclusions
    assert "adjusted" not in alone.text


def test_how_many_runs_would_show_it():
    """Two groups with a standard deviation each as large as the difference need 16 (the usual rule)."""
    one = spread_of([0.0, 2**0.5])
    assert runs_needed(1.0, one, one) == 16
