"""A path with a slip of the pen: the message names what lies there."""

import os

import pytest

from yolofast.cli import main
from yolofast.errors import UserError, nearest, nearest_file
from yolofast.media.sources import frame_batches
from yolofast.resources import find_resource


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        ("val --data shapes --weights {}/bset.pt", "best.pt"),
        ("train --data {}/my_dta.yaml --cfg mini", "my_data.yaml"),
        ("train --resume {}/my_rnu", "my_run"),
        ("diagnose {}/my_rnu", "my_run"),
        ("compare {}/my_rnu {}/my_rnu", "my_run"),
        ("report {}/my_rnu", "my_run"),
    ],
)
def test_commands_name_what_is_there(command, meant, tmp_path, capsys):
    for name in ("best.pt", "my_data.yaml"):
        (tmp_path / name).touch()
    (tmp_path / "my_run").mkdir()
    assert main(command.replace("{}", str(tmp_path)).split()) == 2
    assert f"did you mean '{tmp_path / meant}'?" in capsys.readouterr().err


def test_what_lies_there_but_is_no_file_is_not_meant(tmp_path):
    os.mkfifo(tmp_path / "best.pt")
    assert nearest_file(tmp_path / "best.pt") == ""


def test_the_path_named_leads_there_from_where_the_wrong_one_was_typed(tmp_path, monkeypatch):
    (tmp_path / "shapes").mkdir()
    (tmp_path / "shapes" / "data.yaml").touch()
    monkeypatch.chdir(tmp_path / "shapes")
    assert nearest_file("dta.yaml") == ", did you mean 'data.yaml'?"
    assert nearest_file("../shapes/dta.yaml") == ", did you mean '../shapes/data.yaml'?"
    monkeypatch.chdir(tmp_path)
    assert nearest_file("shapes/dta.yaml") == ", did you mean 'shapes/data.yaml'?"
    with pytest.raises(UserError, match=r"did you mean 'shapes/data\.yaml'\?"):
        find_resource("shapes/dta.yaml", "data")


def test_sources_too(tmp_path):
    (tmp_path / "cat.jpg").touch()
    with pytest.raises(UserError, match=r"did you mean '.*/cat\.jpg'\?"):
        list(frame_batches(str(tmp_path / "ct.jpg"), 1, on_fault=pytest.fail))


def test_nothing_to_name(tmp_path):
    (tmp_path / "something_else").touch()
    for name in (tmp_path / "best.pt", tmp_path / "no" / "such" / "folder", "a\0b", ""):
        assert nearest_file(name) == ""


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("nope", "pe", None),
        ("nope", "no", None),
        ("type", "pe", None),
        ("something", "somewhere", None),
        ("dgo", "dog", "dog"),
        ("vla", "val", "val"),
        ("haed", "head", "head"),
        ("runn", "run", "run"),
        ("mosaic", "mosaic_prob", "mosaic_prob"),
    ],
)
def test_only_what_is_surely_meant_is_named(word, known, meant):
    assert nearest(word, [known]) == ("" if meant is None else f", did you mean {meant!r}?")
