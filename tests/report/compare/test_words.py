"""What is said of a comparison."""

from yolofast.report.compare.overtaking import Overtaking
from yolofast.report.compare.words import fine, overtakings


def places_changed(times: int) -> list[Overtaking]:
    return [Overtaking(*("ab" if number % 2 else "ba"), at=number, unit="epoch") for number in range(1, times + 1)]


def test_a_few_overtakings_are_reported_one_by_one():
    assert overtakings(places_changed(2)) == ["epoch 1: a overtakes b; epoch 2: b overtakes a"]


def test_of_many_the_last_counts_pair_by_pair():
    third = Overtaking("c", "a", 7, "epoch")
    said = overtakings([*places_changed(9), third])
    assert said == ["epoch 9: a overtakes b, after changing places 8 times", "epoch 7: c overtakes a"]


def test_epochs_and_hours_are_counted_apart():
    by_hours = Overtaking("a", "b", 0.5, "hours")
    by_epochs, other = overtakings([*places_changed(5), by_hours])
    assert by_epochs == "epoch 5: a overtakes b, after changing places 4 times"
    assert other == "after 0.5 hours: a overtakes b"


def test_an_end_within_chance_is_said_so():
    (said,) = overtakings([Overtaking("a", "b", 5, "epoch", by_chance=True)])
    assert said.endswith("b, within chance at the end")


def test_short_runs_keep_their_digits():
    assert (fine(0.0612), fine(0.065), fine(10.65), fine(None)) == ("0.0612", "0.0650", "10.65", "–")
