"""YAML as the safe loader of the library has it, except for numbers with an exponent; text survives being written."""

import math
import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from yolofast import build_model
from yolofast.dataset.data_yaml import read_data_yaml
from yolofast.errors import UserError
from yolofast.files.yaml_file import dump_yaml, parse_yaml


def read(text):
    return parse_yaml(f"value: {text}", None).values["value"]


@pytest.mark.parametrize("text", ["1e-5", "2E-5", "1e3", "+5e-1", "-3.5e2", "1.e4", ".5e+1", "1.5e-03"])
def test_a_number_with_an_exponent_is_one(text):
    assert type(read(text)) is float and read(text) == float(text)


@pytest.mark.parametrize(
    "text",
    ["'1e-5'", "e5", "1e", "1e-", "1e5x", "0x1e5", "1e5.5", "1.2.3e4", "e", ".e5", "-e5", "1 e5", "12:30e1", "1e-5 m"]
    + ["3", "0.5", "1_000", "0o7", "017", "yes", "~", ".inf", "1:30", "text", "1.0e-5"],
)
def test_everything_else_is_what_the_library_reads(text):
    assert repr(read(text)) == repr(yaml.safe_load(text))


@pytest.mark.slow
@given(st.from_regex(r"[-+.0-9eE_:x]{1,8}", fullmatch=True))
def test_text_that_looks_like_a_number_survives(text):
    assert parse_yaml(dump_yaml({"name": text, text: [text]}), None).values == {"name": text, text: [text]}


@given(st.floats(allow_nan=False))
def test_numbers_survive(number):
    (found,) = parse_yaml(dump_yaml({"a": [number]}), None).values["a"]
    assert type(found) is float and math.copysign(1, found) == math.copysign(1, number) and found == number


@pytest.mark.parametrize("names", ["[3E5, 2024-01-02, 7]", "{0: 3E5, 1: 2024-01-02, 2: 7}"])
def test_a_class_called_by_a_part_number_or_a_date_keeps_its_name(tmp_path, names):
    (tmp_path / "data.yaml").write_text(f"train: .\nval: .\nnames: {names}\n")
    assert read_data_yaml(tmp_path / "data.yaml").classes() == ("3E5", "2024-01-02", "7")


def test_other_numbers_are_named_as_before(tmp_path):
    (tmp_path / "data.yaml").write_text("train: .\nval: .\nnames: [1.50, 7]\n")
    assert read_data_yaml(tmp_path / "data.yaml").classes() == ("1.5", "7")


def test_a_folder_may_be_called_like_a_number(tmp_path):
    (tmp_path / "data.yaml").write_text("path: 1e5\ntrain: images\nnames: [cat]\n")
    assert tmp_path / "1e5" / "images" in read_data_yaml(tmp_path / "data.yaml").places("images")


def test_a_network_keeps_such_names_too(tmp_path):
    text = "family: yolox\nnc: 2\nnames: [3E5, cat]\ndepth_multiple: 33e-2\nwidth_multiple: 0.25\nimage_size: 64\n"
    (tmp_path / "net.yaml").write_text(text)
    assert build_model(tmp_path / "net.yaml").names == ("3E5", "cat")


def test_a_number_too_long_to_be_printed_is_refused():
    """Python reads any hexadecimal number, and prints none of more than some thousand digits."""
    with pytest.raises(UserError, match="a value YAML cannot build"):
        parse_yaml(f"seed: 0x{'f' * 5000}", None)


@pytest.mark.parametrize("inner", ["{<<: [%s]}", "[%s]"], ids=["merge keys", "lists"])
def test_what_unfolds_without_end_is_refused(inner):
    """A few hundred bytes took minutes and gigabytes."""
    levels = (f"a{number}: &a{number} {inner % ', '.join([f'*a{number - 1}'] * 10)}" for number in range(1, 12))
    lines = ["a0: &a0 {x: 1}", *levels]
    with pytest.raises(UserError, match="unfolds into more than 1,000,000 values"):
        parse_yaml("\n".join(lines), "bomb.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("text", ["[" * 100_000, "a: " + "[" * 900 + "]" * 900, "- " * 4000 + "a", "? " * 2000])
def test_deep_nesting_is_refused_before_libyaml_follows_it(text):
    with pytest.raises(UserError, match="nested too deeply"):
        parse_yaml(text, "deep.yaml")


def test_aliases_are_as_good_as_what_they_stand_for():
    found = parse_yaml("a: &a {x: 1, y: [1, 2]}\nb: {<<: *a, x: 2}\nc: *a\nd: &d [*d]\n", None)
    assert found.values["b"] == {"x": 2, "y": [1, 2]} and found.values["c"] == {"x": 1, "y": [1, 2]}
    assert found.line("c", "y") == 1


@pytest.mark.slow
def test_thousands_of_numbered_names_are_read_in_a_moment(tmp_path):
    """Each looked up by going through all of them took 26 seconds."""
    names = "".join(f"  {number}: {number}E5\n" for number in range(20_000))
    (tmp_path / "data.yaml").write_text(f"train: x\nnames:\n{names}")
    before = time.process_time()
    read = read_data_yaml(tmp_path / "data.yaml").names
    assert time.process_time() - before < 2 and read[-1] == "19999E5"
