"""What a run is told about its data."""

import pytest

from yolofast.dataset import data_argument as named
from yolofast.dataset.data_argument import data_file, read_named_split
from yolofast.dataset.shapes.made_once import make_shapes
from yolofast.errors import UserError


def test_the_built_in_data_set_is_announced_when_it_is_made(tmp_path, monkeypatch):
    """With a few pictures instead of its thousand."""
    folder = tmp_path / "few"
    monkeypatch.setattr(named, "shapes_data_yaml", lambda: make_shapes(folder, n=5))
    monkeypatch.setattr(named, "is_made", lambda _: folder.exists())
    said = []
    assert data_file("shapes", said.append) == data_file("shapes", said.append) == folder / "data.yaml"
    assert said == ["data: the built-in shapes are made, once"]


def test_a_name_that_is_no_data_set(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"one of: coco.*, shapes"):
        data_file("nope.yaml", print)
    with pytest.raises(UserError, match="did you mean 'shapes'"):
        data_file("shape", print)


def test_a_split_to_validate_on_without_labels(tmp_path):
    path, said = make_shapes(tmp_path / "shapes", n=5), []
    for label in [*(tmp_path / "shapes").glob("labels/val/*"), *(tmp_path / "shapes").glob("annotations/*val.json")]:
        label.unlink()
    assert len(read_named_split(path, "train", said.append)) == 5 and not said
    index = read_named_split(path, "val", said.append)
    assert len(index) == 1 and not len(index.labels)
    (warning,) = said
    assert "none of the 1 val images has a label file; all of them count as background" in warning
