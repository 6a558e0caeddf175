"""What could not be read is told once."""

from yolofast.errors import UserError
from yolofast.media.faults import Faults

A, B = (UserError(f"{name} cannot be opened", where=name, fix="check the name") for name in ("a.mp4", "b.mp4"))


def test_the_only_one_is_the_error_and_no_warning_too():
    said = []
    faults = Faults(said.append)
    faults.add(A)
    assert not said and "nothing could be read: a.mp4 cannot be opened" in str(faults.error())


def test_where_something_is_read_each_is_a_warning_at_once():
    said = []
    faults = Faults(said.append)
    faults.add(A)
    faults.read()
    assert said == [f"warning: {A}"]
    faults.add(B)
    assert said == [f"warning: {A}", f"warning: {B}"]


def test_of_several_each_is_a_warning_and_the_error_repeats_none():
    said = []
    faults = Faults(said.append)
    faults.add(A)
    faults.add(B)
    assert len(said) == 2 and "cannot be opened" not in str(faults.error())
