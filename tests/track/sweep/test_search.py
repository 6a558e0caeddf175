"""Searches that continue, and what they show: the best, how sure that is, effects, trade-offs."""

import json

import numpy as np
import pytest

from tests.track.sweep.made_up import scenes
from yolofast.errors import UserError
from yolofast.track.sweep import search as searching
from yolofast.track.sweep.figures import WIDTH, figures_of
from yolofast.track.sweep.findings import behind_best, find_out, front_of
from yolofast.track.sweep.record import FILE_NAME, Record
from yolofast.track.sweep.search import Search, run_search
from yolofast.track.sweep.space import grid, parse_space

SPACE = parse_space(["tracker=bytetrack", "conf=0.05,0.1,0.4", "match_thresh=0.6,0.9"])


@pytest.fixture(scope="module")
def search():
    return Search(scenes(3, frames=30), tuple(grid(SPACE)))


@pytest.fixture(scope="module")
def found(search, tmp_path_factory):
    return run_search(search, tmp_path_factory.mktemp("found"), workers=1)


def test_equal_settings_are_computed_once(found):
    assert found.rows.shape == (6, 3, WIDTH) and found.distinct == 4
    rows = {(trial["conf"], trial["match_thresh"]): rows for trial, rows in zip(found.trials, found.rows, strict=True)}
    assert (rows[0.05, 0.6] == rows[0.1, 0.6]).all() and (rows[0.1, 0.6] != rows[0.4, 0.6]).any()


@pytest.mark.slow
def test_a_search_continues_where_it_was_interrupted(search, found, tmp_path, monkeypatch):
    done = []

    def until_two(*told):
        done.append(told)
        if len(done) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_search(search, tmp_path, 1, until_two)
    path = tmp_path / FILE_NAME
    assert len(path.read_text().splitlines()) == 1 + 2
    path.write_text(path.read_text() + '{"settings":{"tracker":"bytetrack"},"ro')  # the power went off
    computed = []
    evaluate = searching.evaluate
    monkeypatch.setattr(searching, "evaluate", lambda *one, **more: computed.append(one) or evaluate(*one, **more))
    known = []
    again = run_search(search, tmp_path, 1, on_known=known.append)
    assert len(known) == 2 and all(rows.shape == (3, WIDTH) for rows in known)
    assert sum(len(trials) for _, trials in computed) == 2 * 3 and np.allclose(again.rows, found.rows, atol=1e-8)
    lines = path.read_text().splitlines()
    assert len([line for line in lines if line.startswith("{") and line.endswith("}")]) == 1 + 4
    assert run_search(search, tmp_path, 1, lambda *told: pytest.fail("nothing was missing")) is not None


def test_results_of_other_data_are_not_mixed(search, tmp_path):
    run_search(Search(search.scenes[:1], search.trials[:1]), tmp_path, 1)
    with pytest.raises(UserError, match="other sequences"):
        run_search(search, tmp_path, 1)
    faithful = Search(search.scenes[:1], search.trials[:1], faithful=True)
    with pytest.raises(UserError, match="other sequences"):
        run_search(faithful, tmp_path, 1)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / FILE_NAME).write_text("my notes\n")
    with pytest.raises(UserError, match="was not written by"):
        Record(tmp_path / "foreign", ["a"], "b")


@pytest.mark.slow
def test_processes_find_the_same(search, found, tmp_path):
    several = run_search(search, tmp_path, workers=2)
    assert (several.rows == found.rows).all()
    entry = json.loads((tmp_path / FILE_NAME).read_text().splitlines()[1])
    assert set(entry) == {"settings", "rows"} and len(entry["rows"]) == 3


def test_the_best_its_uncertainty_and_what_each_setting_does(found):
    seen = find_out(found, "HOTA")
    hota = [figures_of(rows)["HOTA"] for rows in found.rows]
    assert seen.figures["HOTA"].tolist() == pytest.approx(hota) and hota[seen.best] == max(hota)
    assert seen.interval.low <= hota[seen.best] <= seen.interval.high
    assert seen.left_out <= max(hota) + 1e-12 and 0 <= seen.share_best <= 1
    assert seen.order[0] == seen.best or hota[seen.order[0]] == hota[seen.best]
    effects = {effect.name: effect for effect in seen.effects}
    assert set(effects) == {"conf", "match_thresh"}
    strict, loose = effects["match_thresh"].values
    assert (strict.value, strict.number, strict.count) == ("0.6", 0.6, 3)
    chosen = [value for value, trial in zip(hota, found.trials, strict=True) if trial["match_thresh"] == 0.9]
    assert loose.mean == pytest.approx(np.mean(chosen)) and loose.best == max(chosen)
    (own,) = seen.defaults
    assert own.value == hota[seen.best] - hota[own.trial] >= 0 and own.interval.low <= own.value <= own.interval.high
    assert found.trials[own.trial] == {"tracker": "bytetrack", "conf": 0.05, "match_thresh": 0.9}, "no effect, default"
    assert seen.usual == {1, 3}


def test_of_equals_the_defaults_are_best(found):
    trials = tuple({"tracker": "bytetrack", "match_thresh": value} for value in (0.7, 0.9, 0.8))
    rows = np.stack([found.rows[0]] * 3)
    seen = find_out(searching.Searched(trials, found.sequences, rows, 3), "HOTA")
    assert seen.best == 1 and seen.order == (1, 0, 2)
    assert seen.share_best == 1, "nothing is better in any sample"
    (own,) = seen.defaults
    assert own.trial == 1 and own.value == 0 and own.interval == (0, 0)


def test_fewer_switches_may_be_asked_for(found):
    seen = find_out(found, "IDSW")
    assert seen.figures["IDSW"][seen.best] == seen.figures["IDSW"].min()
    assert seen.interval.low <= seen.figures["IDSW"][seen.best] <= seen.interval.high


def test_one_sequence_leaves_uncertainty_open(search, tmp_path):
    seen = find_out(run_search(Search(search.scenes[:1], search.trials), tmp_path, 1), "MOTA")
    assert seen.interval is None and seen.left_out is None and seen.share_best is None and seen.as_good == ()


def test_how_far_others_are_behind_the_best(found):
    """The same sequences are drawn for both, so a difference is surer than the figures: it is what defaults get."""
    order = np.argsort(-found.rows.sum(1)[:, 0])  # the best need not come first
    again = find_out(found, "HOTA")
    behind = behind_best(found.rows[order], "HOTA")
    place = order.tolist().index(again.best)
    assert behind[place] == (0, 0) and len(behind) == len(order)
    (usual,) = again.defaults
    assert behind[order.tolist().index(usual.trial)] == pytest.approx(usual.interval, abs=1e-6)


def test_the_front_is_what_nothing_dominates():
    random = np.random.default_rng(0)
    values = random.integers(0, 6, (80, 3)).astype(float)
    wanted = {
        tuple(one) for one in values
        if not ((values >= one).all(1) & (values > one).any(1)).any()
    }  # fmt: skip
    found = front_of(values)
    assert {tuple(values[place]) for place in found} == wanted and len(found) == len(wanted)


def test_numbers_that_were_drawn_are_shown_in_bins(search, found):
    random = np.random.default_rng(1)
    rows = found.rows[random.integers(0, 6, 60)]
    trials = tuple({"tracker": "bytetrack", "conf": float(value)} for value in random.random(60).round(4))
    seen = find_out(searching.Searched(trials, found.sequences, rows, 60), "HOTA")
    (effect,) = seen.effects
    assert len(effect.values) == 8 and sum(one.count for one in effect.values) == 60
