"""What may be searched: values as text and YAML, grids, draws, and names that are wrong."""

import pytest

from yolofast.errors import UserError
from yolofast.track.sweep.space import drawn, grid, key_of, parse_space, searched_names, simplest
from yolofast.track.trackers.table import TRACKERS


def test_values_are_read_as_they_are_meant():
    space = parse_space(["conf=0.1:0.6:0.1", "match_thresh=0.7, 0.8", "track_buffer=20:40:10", "mot20=true,false"])
    assert space.values["conf"] == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    assert space.values["match_thresh"] == (0.7, 0.8)
    assert space.values["track_buffer"] == (20, 30, 40) and isinstance(space.values["track_buffer"][0], int)
    assert space.values["mot20"] == (True, False)
    assert len(grid(space)) == 6 * 2 * 3 * 2
    assert searched_names(grid(space)) == ["conf", "match_thresh", "track_buffer", "mot20"]
    words = parse_space(["tracker=botsort", "cmc_method=none,orb", "mot20=yes,off"]).values
    assert words["cmc_method"] == ("none", "orb"), "a word, and not nothing"
    assert words["mot20"] == (True, False)


def test_a_yaml_file_says_the_same_and_the_command_line_is_above_it(tmp_path):
    file = tmp_path / "search.yaml"
    file.write_text("tracker: [bytetrack, botsort]\nconf: 0.1:0.3:0.1\nmatch_thresh: [0.7, 0.9]\nmot20: true\n")
    space = parse_space(["match_thresh=0.8"], file)
    assert space.trackers == ("bytetrack", "botsort") and space.values["match_thresh"] == (0.8,)
    assert space.values["conf"] == (0.1, 0.2, 0.3) and space.values["mot20"] == (True,)


def test_a_tracker_gets_only_its_own_settings():
    found = grid(parse_space(["tracker=bytetrack,ocsort", "match_thresh=0.7,0.8", "max_age=10,20,30", "conf=0.2"]))
    assert len(found) == 2 + 3
    assert {frozenset(one) for one in found} == {
        frozenset({"tracker", "match_thresh", "conf"}), frozenset({"tracker", "max_age", "conf"}),
    }  # fmt: skip


def test_without_a_word_each_tracker_has_a_usual_grid():
    found = grid(parse_space([], None, list(TRACKERS)))
    assert {one["tracker"] for one in found} == set(TRACKERS) and len(found) > 100


def test_draws_are_different_settings_and_a_seed_repeats_them():
    space = parse_space(["conf=0.05:0.6", "track_buffer=10:90", "match_thresh=0.7,0.8"])
    first = drawn(space, 40, seed=3)
    assert len({key_of(one) for one in first}) == 40 and first == drawn(space, 40, seed=3) != drawn(space, 40, seed=4)
    assert all(isinstance(one["track_buffer"], int) and 10 <= one["track_buffer"] <= 90 for one in first)
    assert len(drawn(parse_space(["match_thresh=0.7,0.8"]), 40, 0)) == 2  # there are no more


def test_settings_without_effect_are_the_same_search():
    low = {"tracker": "bytetrack", "conf": 0.05}
    assert simplest(low) == {"tracker": "bytetrack"} == simplest({"tracker": "bytetrack", "conf": 0.1})
    assert simplest({**low, "conf": 0.3}) == {**low, "conf": 0.3}
    assert simplest({**low, "conf": 0.6, "track_low_thresh": 0.2}) == {**low, "conf": 0.6}
    assert simplest({"tracker": "ocsort", "conf": 0.05}) == {"tracker": "ocsort", "conf": 0.05}


def test_learned_motion_is_searched_beside_kalman(monkeypatch):
    asked = []
    monkeypatch.setattr("yolofast.motion.predictor.predictor", lambda path, **_: asked.append(path))
    motions = ["motion=kalman,trackssm", "motion_weights=a.pt,b.pt"]
    trials = grid(parse_space(["tracker=bytetrack", *motions, "match_thresh=0.8"]))
    assert sorted(set(asked)) == ["a.pt", "b.pt"], "both are checked before the search"
    assert len(trials) == 4
    without = {"tracker": "bytetrack", "match_thresh": 0.8}
    assert [simplest(one) for one in trials] == [
        without, without, *({**without, "motion": "trackssm", "motion_weights": one} for one in ("a.pt", "b.pt"))
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["motion=trackssm"], "there are no weights"),
        (["motion_weights=a.pt"], "not the motion they are for"),
        (["match_tresh=0.7"], "there is no setting 'match_tresh', did you mean 'match_thresh'?"),
        (["max_age=3"], "botsort has no setting max_age"),
        (["tracker=bytetrak"], "did you mean 'bytetrack'?"),
        (["match_thresh"], "--set match_thresh"),
        (["conf=0.1:0.6:0"], "conf=0.1:0.6:0"),
        (["conf=2"], "conf is 2"),
        (["track_buffer=long"], "track_buffer of botsort is 'long'"),
        (["conf=0:1:1e-9"], "values"),
        (["classes=some"], "classes is 'some'"),
    ],
)
def test_what_is_refused(texts, message):
    with pytest.raises(UserError) as refused:
        parse_space(texts)
    assert message in str(refused.value) and refused.value.fix


def test_a_grid_has_an_end():
    with pytest.raises(UserError, match="no end of combinations"):
        grid(parse_space(["conf=0.1:0.5"]))
    with pytest.raises(UserError, match="combinations for botsort"):
        grid(parse_space(["conf=0:1:0.001", "match_thresh=0:0.999:0.001"]))


def test_a_yaml_value_that_cannot_be_is_named_with_its_line(tmp_path):
    (tmp_path / "s.yaml").write_text("conf: [0.1]\nmatch_thresh: {a: 1}\n")
    with pytest.raises(UserError, match=r"s.yaml:2: match_thresh is"):
        parse_space([], tmp_path / "s.yaml")
