"""Scores of cases a person can follow, the events behind them, and the forms in which sequences may be given."""

import numpy as np
import pytest

import yolofast
from tests.track.golden import GOLDEN, expected
from yolofast import UserError, score_tracks
from yolofast.track.formats.mot import sequence_of_rows, write_mot, write_seqinfo
from yolofast.track.formats.sequence import make_sequence

SIZE = 10


def rows(*tracks):
    """Tracks as (id, {frame: x}); boxes are squares on one line."""
    found = [(frame, id, x, 0, SIZE, SIZE) for id, places in tracks for frame, x in places.items()]
    return np.array(sorted(found), np.float64).reshape(-1, 6)


def at(x, *frames):
    return dict.fromkeys(frames, x)


TWO = rows((1, at(0, 1, 2, 3, 4)), (2, at(50, 1, 2, 3, 4)))


def test_a_perfect_result():
    scores = score_tracks(TWO, TWO).combined
    assert (scores.HOTA, scores.MOTA, scores.IDF1, scores.IDSW, scores["HOTA(0)"]) == (1, 1, 1, 0, 1)
    assert scores.per_alpha("AssA").tolist() == [1.0] * 19 and scores.alphas[0] == 0.05


def test_two_objects_exchange_their_ids():
    """Half of each track is right: DetA is 1, AssA 1/3 (2 of 4 + 4 - 2), IDF1 1/2."""
    swapped = rows((1, at(0, 1, 2) | at(50, 3, 4)), (2, at(50, 1, 2) | at(0, 3, 4)))
    scores = score_tracks(TWO, swapped)
    assert scores.combined.DetA == 1 and scores.combined.AssA == pytest.approx(1 / 3)
    assert pytest.approx(3**-0.5) == scores.combined.HOTA and scores.combined.IDF1 == 0.5
    assert scores.combined.IDSW == 2 and pytest.approx(6 / 8) == scores.combined.MOTA
    switches = [event for event in scores.frame_events if event.kind == "switched"]
    assert [(e.frame, e.truth_id, e.from_id, e.to_id, e.last_frame, e.rival) for e in switches] == [
        (3, 1, 1, 2, 2, 2),
        (3, 2, 2, 1, 2, 1),
    ]


def test_a_gap_is_a_miss_and_a_fragment_and_a_new_id_after_it_a_switch():
    results = rows((7, at(0, 1)), (8, at(0, 4)), (2, at(50, 1, 2, 3, 4)))
    scores = score_tracks(TWO, results)
    events = [(e.kind, e.frame, e.truth_id, e.from_id, e.to_id, e.last_frame) for e in scores.frame_events]
    assert events == [
        ("missed", 2, 1, 7, None, 1),
        ("missed", 3, 1, 7, None, 1),
        ("fragmented", 4, 1, 7, 8, 1),
        ("switched", 4, 1, 7, 8, 1),
    ]
    assert (scores.combined.Frag, scores.combined.IDSW, scores.combined.CLR_FN) == (1, 1, 2)


def test_a_missed_object_whose_result_went_to_another_says_so():
    """Two objects at one place and one result: it belongs to the object it followed before."""
    truth = rows((1, at(0, 1, 2)), (2, at(40, 1) | at(1, 2)))
    (event,) = (e for e in score_tracks(truth, rows((5, at(0, 1, 2)), (6, at(40, 1)))).frame_events)
    assert (event.kind, event.frame, event.truth_id, event.from_id, event.rival) == ("missed", 2, 2, 6, 1)


@pytest.mark.parametrize("variant", ["all", "swap05", "gaps", "emptyframes", "none", "falsepos"])
def test_there_are_as_many_events_as_the_figures_count(variant):
    folder = GOLDEN / "metrics"
    scores = score_tracks(folder / "gt", folder / "results" / variant, lengths=expected(folder)["lengths"])
    counts = {kind: sum(e.kind == kind for e in scores.frame_events) for kind in ("switched", "missed", "fragmented")}
    together = scores.combined
    assert counts == {"switched": together.IDSW, "missed": together.CLR_FN, "fragmented": together.Frag}


def test_marks_and_lengths():
    truth = np.column_stack([TWO, TWO[:, 1] == 1])  # the second object does not count
    scores = score_tracks(truth, TWO, lengths=9).combined
    assert (scores.CLR_TP, scores.CLR_FP, scores.CLR_Frames) == (4, 4, 9)


def test_distractors_cost_nothing_and_vehicles_do():
    def truth_with(label):
        extra = np.where(TWO[:, 1] == 2, label, 1)
        return np.column_stack([TWO, np.where(extra == 1, 1, 0), extra, np.ones(8)])

    for benchmark, label, wrong in (("mot17", 8, 0), ("mot17", 3, 4), ("mot17", 6, 4), ("mot20", 6, 0), ("none", 8, 4)):
        scores = score_tracks(truth_with(label), TWO, benchmark=benchmark).combined
        assert (4, wrong) == (scores.CLR_TP, scores.CLR_FP), (benchmark, label)


def test_folders_files_arrays_and_sequences_score_the_same(tmp_path):
    results = rows((1, at(0, 1, 2)), (2, at(50, 2, 3, 4)), (3, at(99, 1)))
    wanted = score_tracks(TWO, results).to_dict()["COMBINED"]
    truth_sequence, result_sequence = sequence_of_rows("A", TWO, "truth"), sequence_of_rows("A", results, "results")
    write_mot(tmp_path / "truth" / "A" / "gt" / "gt.txt", truth_sequence, "truth")
    write_seqinfo(tmp_path / "truth" / "A" / "seqinfo.ini", truth_sequence)
    write_mot(tmp_path / "results" / "A.txt", result_sequence, "results")
    write_mot(tmp_path / "results" / "stranger.txt", result_sequence, "results")
    write_mot(tmp_path / "other_name.txt", result_sequence, "results")
    forms = [
        (tmp_path / "truth", tmp_path / "results"),
        (str(tmp_path / "truth" / "A" / "gt" / "gt.txt"), tmp_path / "other_name.txt"),
        ({"A": TWO}, {"A": result_sequence}),
        (truth_sequence, result_sequence),
        (TWO, tmp_path / "other_name.txt"),
        (tmp_path / "truth", {"A": results.tolist()}),
    ]
    for truth, found in forms:
        assert score_tracks(truth, found).to_dict()["COMBINED"] == wanted
    remarks = score_tracks(tmp_path / "truth", tmp_path / "results").remarks
    assert remarks == ("not scored, because there is no truth of them: stranger",)


def test_sequences_are_combined_and_can_be_chosen():
    truth, results = {"a": TWO, "b": TWO}, {"a": TWO, "b": TWO[:0]}
    scores = score_tracks(truth, results)
    assert list(scores.sequences) == ["a", "b"] and scores.combined.MOTA == 0.5
    assert score_tracks(truth, results, names=["a"]).combined.MOTA == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({"a": TWO}, {"b": TWO}), "no results of sequence a"),
        (({}, {}), "there is no truth"),
        ((TWO, TWO, {"benchmark": "mot71"}), "benchmark is 'mot71', did you mean 'mot"),
        ((TWO, TWO, {"lengths": 3}), "frame 4, but there are 3"),
        ((TWO, TWO, {"lengths": {"sequence": 2.5}}), "the length of sequence is 2.5"),
        ((TWO, np.column_stack([TWO, np.ones(8), np.full(8, 3)]), {"benchmark": "mot17"}), "results of class 3"),
        ((TWO, TWO, {"benchmark": "mot17", "classes": [1]}), "knows pedestrians only"),
        ((TWO, TWO, {"classes": "cars"}), "classes is 'cars'"),
        ((TWO, TWO, {"classes": []}), "classes is empty"),
        ((TWO, TWO, {"classes": 1}), "classes is 1\n  fix: give a list of labels"),
        ((TWO, TWO, {"classes": [1.5]}), "class 1.5"),
        ((TWO, np.vstack([TWO, TWO[:1]])), "is in frame 1 already"),
        ((TWO, np.full((1, 6), np.nan)), "nan is not a finite number"),
        (("no_such_folder", TWO), "no_such_folder: does not exist"),
        ((TWO, "words"), "words: does not exist"),
        ((TWO, [["x"]]), r"results, rows of sequence are \[\['x'\]\]"),
        ((TWO[:, :4], TWO), r"truth, rows of sequence have the shape \(8, 4\)"),
        ((np.full((1, 6), np.nan), TWO), "truth, rows of sequence: 1 fault"),
        ((TWO, TWO, {"lengths": {"sequences": 9}}), "lengths has 'sequences', .* did you mean 'sequence'"),
        ((TWO, TWO, {"lengths": float("inf")}), "the length of sequence is inf"),
        ((TWO, TWO, {"class_names": "car"}), "class_names is 'car'"),
        ((TWO, np.ma.masked_array(TWO, TWO == 50)), "results, rows of sequence: some values are masked"),
        ((TWO, TWO, {"lengths": "nine"}), "the length of sequence is 'nine'"),
        (({"a": TWO, "b": TWO}, {"a": TWO, "b": TWO}, {"lengths": 9}), "lengths is 9, but there are 2 sequences"),
        (({"a": TWO, "b": TWO}, {"a": TWO}, {"names": ["a", "c"]}), "truth has no sequence c"),
        ((TWO, TWO, {"classes": ["car"], "class_names": {1: "bus"}}), "class 'car' is unknown; there are bus"),
    ],
)
def test_what_is_refused(arguments, message):
    truth, results, *options = arguments
    with pytest.raises(UserError, match=message):
        score_tracks(truth, results, **(options[0] if options else {}))


def test_bad_rows_of_arrays_are_skipped_too():
    bad = [[5, 1, 0, 0, -9, 9], [1, 1, 0, 0, 9, 9], [0, 1, 0, 0, 9, 9], [2, np.nan, 0, 0, 9, 9]]
    dirty = np.vstack([TWO, bad])
    scores = score_tracks(dirty, {"sequence": dirty}, skip_bad=True)
    assert scores.combined.HOTA == 1 and scores.combined.CLR_TP == 8 and len(scores.remarks) == 8
    assert scores.remarks[0].startswith("truth, rows of sequence: 1 row omitted")
    with pytest.raises(UserError, match="8 faults in 2 places") as error:
        score_tracks(dirty, dirty)
    assert "truth, rows of sequence" in str(error.value) and "results, rows of sequence" in str(error.value)


def test_lengths_of_one_sequence_and_one_name(tmp_path):
    write_mot(tmp_path / "A.txt", sequence_of_rows("A", TWO, "truth"), "truth")
    assert score_tracks(tmp_path, TWO, lengths=9).combined.CLR_Frames == 9
    assert score_tracks({"ab": TWO, "b": TWO}, {"ab": TWO}, names="ab", lengths={"ab": 9}).combined.CLR_Frames == 9


def test_classes_have_names():
    truth, results = (
        make_sequence("a", frame=[1, 1], id=[1, 2], box=[[0, 0, 9, 9], [20, 0, 29, 9]], label=labels, classes=names)
        for labels, names in (([1, 4], {1: "car", 4: "bus"}), ([1, 1], {}))
    )
    scores = score_tracks(truth, results, classes=["bus", 1, 4])
    assert list(scores.per_class) == [4, 1] and scores.class_names == {1: "car", 4: "bus"}
    assert score_tracks(truth, results, class_names=["a", "b"]).class_names == {1: "a", 4: "b"}
    assert score_tracks(truth, results, class_names=list("abcde")).class_names[4] == "d"


@pytest.mark.parametrize("label", [None, 3])
def test_truth_of_which_nothing_counts_is_remarked(label):
    truth = TWO if label is None else np.column_stack([TWO, np.ones(8), np.full(8, label), np.ones(8)])
    (remark,) = score_tracks(truth, TWO, benchmark="mot17").remarks
    said = "it has no classes" if label is None else "its classes (column 8) are 3"
    assert remark.startswith(f"truth, rows of sequence: {said}") and "none of its 8 boxes" in remark


def test_figures_are_asked_for_by_name():
    scores = score_tracks(TWO, TWO)
    with pytest.raises(AttributeError, match="there is no figure 'MOTAX', did you mean 'MOTA"):
        _ = scores.combined.MOTAX
    with pytest.raises(KeyError, match="does not depend on the overlap"):
        scores.combined.per_alpha("MOTA")
    with pytest.raises(UserError, match="scored without classes"):
        _ = scores.per_class


def test_classes_without_truth_or_results():
    truth = make_sequence("a", frame=[1, 1], id=[1, 2], box=[[0, 0, 9, 9], [20, 0, 29, 9]], label=[1, 2])
    results = make_sequence("a", frame=[1, 1], id=[1, 2], box=[[0, 0, 9, 9], [20, 0, 29, 9]], label=[1, 3])
    scores = score_tracks(truth, results, classes="all")
    assert {label: one.MOTA for label, one in scores.per_class.items()} == {1: 1.0, 2: 0.0, 3: -1.0}
    averages = scores.class_average, scores.class_average_of_truth, scores.detection_average, scores.class_agnostic
    assert [one.MOTA for one in averages] == [0.0, 0.5, 0.0, 1.0]


def test_empty_truth_and_empty_sequences():
    scores = score_tracks(TWO[:0], TWO[:0]).combined
    assert (scores.HOTA, scores.LocA, scores.MOTA) == (0, 1, 0)
    assert score_tracks(TWO[:0], TWO).combined.CLR_FP == 8 and score_tracks(TWO, TWO[:0]).combined.CLR_FN == 8


def test_it_is_public():
    assert yolofast.score_tracks is score_tracks and "score_tracks" in dir(yolofast)


def test_a_class_of_which_nothing_is_there():
    """Its scores are those of nothing, and so are averages over it alone."""
    scores = score_tracks(TWO, TWO, classes=[99])
    assert scores.class_average_of_truth.HOTA == 0 and scores.detection_average["GT_Dets"] == 0


def test_a_class_that_occurs_nowhere_is_said():
    (said,) = score_tracks(TWO, TWO, classes=[99], class_names={99: "car"}).remarks
    assert said == "in neither truth nor results, and 0 in the average over all classes: class car"
    assert not score_tracks(TWO, TWO, classes="all").remarks


def test_truth_may_be_a_list_of_sequences_with_the_names_of_its_classes(tmp_path):
    for name in ("A", "B", "C"):
        folder = tmp_path / name
        (folder / "gt").mkdir(parents=True)
        (folder / "gt" / "gt.txt").write_text("1,1,5,5,9,9,1,1,1\n")
        (folder / "seqinfo.ini").write_text(f"[Sequence]\nname={name}\nseqLength=2\n")
    (tmp_path / "sequences.yaml").write_text("names: [cat, dog]\nsequences: [A, B]\n")
    results = {name: [[1, 1, 5, 5, 9, 9, 1, 1]] for name in "ABC"}
    scores = score_tracks(tmp_path / "sequences.yaml", results, classes=["dog"])
    assert list(scores.sequences) == ["A", "B"] and scores.per_class[1].HOTA == 1
    assert list(score_tracks(tmp_path / "sequences.yaml", results, names=["B"]).sequences) == ["B"]
    results["A"].append([3, 1, 5, 5, 9, 9, 1, 1])
    with pytest.raises(UserError, match="frame 3, but there are 2"):
        score_tracks(tmp_path / "sequences.yaml", results)
