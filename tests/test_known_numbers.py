"""Numbers that no run can have measured are not known."""

import pytest

from yolofast.files.known_numbers import known_number, parse_json, without_nan


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), -1e31, 10**400, True, "1", None, [1], {"a": 1}],
    ids=lambda value: str(value)[:9],
)
def test_what_is_not_known(value):
    assert known_number(value) is None


@pytest.mark.parametrize("value", [0, -4, 2.5, 1e30])
def test_what_is_known(value):
    assert known_number(value) == value


def test_json_keeps_what_is_known_and_tells_the_rest():
    text = '{"a": 1, "b": -2.5, "c": [1e400, NaN, -Infinity, 99999999999999999999, 0], "d": %s}' % ("1" * 5000)
    values, unknown = parse_json(text)
    assert values == {"a": 1, "b": -2.5, "c": [None, None, None, None, 0], "d": None} and type(values["a"]) is int
    assert unknown == ["1e400", "NaN", "-Infinity", "99999999999999999999", "11111111… (5000 digits)"]


@pytest.mark.parametrize("text", ["", "{", "[" * 100 + "]" * 100])
def test_what_is_no_json(text):
    with pytest.raises(ValueError):
        parse_json(text)


def test_json_has_null_for_what_is_not_finite():
    values = {"a": float("nan"), "b": [1.0, (float("inf"), 2)], "c": {"d": float("-inf"), "e": "nan"}}
    assert without_nan(values) == {"a": None, "b": [1.0, [None, 2]], "c": {"d": None, "e": "nan"}}
