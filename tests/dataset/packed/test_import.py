"""Data sets as tar files: streamed from zip, tar and parquet, and the same to training as loose files."""

import io
import json
import os
import sys
import tarfile
import zipfile

import cv2
import numpy as np
import pytest

from tests.train.small_run import shapes_in
from yolofast.cli import main
from yolofast.dataset.split import read_split
from yolofast.files.budget import open_regular, state_of
from yolofast.files.tar_file import members_of, names_in
from yolofast.store.images import open_images


@pytest.fixture
def place(tmp_path, monkeypatch):
    shapes_in(tmp_path / "shapes", 24)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tar_of(path, files):
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def png(width=40, height=20):
    return cv2.imencode(".png", np.full((height, width, 3), 90, np.uint8))[1].tobytes()


def test_a_packed_set_is_the_same_to_training(place, capsys):
    assert main(["pack", "--data", "shapes/data.yaml", "--to", "tars"]) == 0
    assert sorted(path.name for path in (place / "tars").iterdir()) == ["data.yaml", "train.tar", "val.tar"]
    loose, packed = (read_split(f"{name}/data.yaml", "train") for name in ("shapes", "tars"))
    for name in ("sizes", "starts", "labels", "boxes", "crowd"):
        np.testing.assert_array_equal(getattr(loose, name), getattr(packed, name))
    pixels = [open_images(index, 32, 32, "disk", say=print)[0].data.numpy() for index in (loose, packed)]
    np.testing.assert_array_equal(*pixels)
    off = open_images(packed, 32, 32, "off", say=print)[0]
    np.testing.assert_array_equal(off.image(3).shape[:2], off.sizes[3][::-1])
    assert (place / "tars" / ".yolofast").is_dir(), "stores lie beside the tar files"
    assert main(["check", "--data", "tars/data.yaml"]) == 0
    assert main(["pack", "--data", "shapes/data.yaml", "--to", "tars"]) == 2
    assert "there is a data set already" in capsys.readouterr().err


def test_a_folder_as_tar_takes_it(place):
    """All images before all labels, other files before both, and the classes somewhere between."""
    (place / "shapes" / "annotations" / "more.json").write_text("{}")
    with tarfile.open("whole.tar", "w") as tar:
        for name in ("annotations", "images", "data.yaml", "labels"):
            tar.add(place / "shapes" / name, f"./{name}")
    assert main(["import", "whole.tar", "--out", "set"]) == 0
    loose, read = read_split("shapes/data.yaml", "train"), read_split("set/data.yaml", "train")
    np.testing.assert_array_equal(loose.labels, read.labels)
    assert len(read_split("set/data.yaml", "val")) == len(read_split("shapes/data.yaml", "val"))


def test_other_files_before_the_classes_of_a_stream(place):
    import fsspec

    pairs = {
        f"{name}{end}": content
        for name in ("train-a", "val-b")
        for end, content in ((".png", png()), (".txt", b"0 .5 .5 .2 .2\n"))
    }
    tar_of("shard.tar", {"a.json": b"{}", "b.json": b"{}", "c.json": b"{}", "classes.txt": b"cat\n", **pairs})
    with fsspec.open("memory://bucket/shard.tar", "wb") as file:
        file.write((place / "shard.tar").read_bytes())
    assert main(["import", "memory://bucket/shard.tar", "--out", "set"]) == 0
    assert "cat" in (place / "set" / "data.yaml").read_text()


def test_at_a_url_and_back(place):
    """In fsspec's memory, as it would be at s3."""
    import fsspec

    assert main(["pack", "--data", "shapes/data.yaml", "--to", "memory://bucket/set"]) == 0
    names = {file.rpartition("/")[2] for file in fsspec.filesystem("memory").ls("/bucket/set", detail=False)}
    assert names == {"data.yaml", "train.tar", "val.tar"}
    classes = [str(number) for number in range(8)]
    url = "memory://bucket/set/train.tar"
    assert main(["import", url, "--out", "back", "--val", "0.3", "--names", *classes]) == 0
    train, val = (read_split("back/data.yaml", split) for split in ("train", "val"))
    assert len(train) + len(val) == len(read_split("shapes/data.yaml")) and len(val)


def test_a_zip_with_its_splits_and_names(place):
    rows = {"a": b"1 .5 .5 .2 .2\n", "b": b"0 .5 .5 .2 .2\n"}
    with zipfile.ZipFile("set.zip", "w") as file:
        file.writestr("data.yaml", "names: {0: cat, 1: dog}\n")
        for name, split in (("a", "train"), ("b", "valid")):
            file.writestr(f"{split}/images/{name}.png", png())
            file.writestr(f"{split}/labels/{name}.txt", rows[name])
        file.writestr("train/images/c.png", png())
    assert main(["import", "set.zip"]) == 0
    train, val = (read_split("set/data.yaml", split) for split in ("train", "val"))
    assert train.names == ("cat", "dog") and train.labels.tolist() == [1] and len(train) == 2
    assert val.labels.tolist() == [0] and train.sizes[0].tolist() == [40, 20]


def test_shards_have_labels_beside_the_images(place):
    pairs = {f"{key}.{end}": text for key in "abc" for end, text in (("png", png()), ("txt", b"0 .5 .5 .5 .5"))}
    tar_of("shard.tar", {"classes.txt": b"cat\n", **pairs})
    assert main(["import", "shard.tar", "--out", "set", "--val", "0.5"]) in (0, 2)
    assert main(["import", "shard.tar", "--out", "set2", "--val", "0"]) == 2, "nothing to validate on"
    assert not (place / "set2").exists(), "nothing half-made is left"


def test_parquet_as_the_hub_has_it(place):
    pyarrow = pytest.importorskip("pyarrow", reason="the extra yolofast[parquet] is not installed")
    from pyarrow import parquet

    rows = [{"image": {"bytes": png(), "path": None}, "objects": {"bbox": [[10, 5, 20, 10]], "category": [1]}}] * 20
    features = {"info": {"features": {"objects": {"feature": {"category": {"names": ["cat", "dog"]}}}}}}
    table = pyarrow.Table.from_pylist(rows).replace_schema_metadata({"huggingface": json.dumps(features)})
    parquet.write_table(table, "train-0.parquet")
    assert main(["import", "train-0.parquet", "--out", "set", "--val", "0.3"]) == 0
    found = read_split("set/data.yaml")
    assert found.names == ("cat", "dog") and set(found.labels.tolist()) == {1}
    np.testing.assert_allclose(found.boxes[0], [0.5, 0.5, 0.5, 0.5])


def test_a_set_of_the_hub(place, monkeypatch, capsys):
    """A file system of memory stands in for the Hub's."""
    pyarrow = pytest.importorskip("pyarrow", reason="the extra yolofast[parquet] is not installed")
    import fsspec
    from fsspec.implementations.memory import MemoryFileSystem
    from pyarrow import parquet

    class Hub(MemoryFileSystem):
        protocol, store, pseudo_dirs = ("hf",), {}, [""]

        @classmethod
        def _strip_protocol(cls, path):
            return super()._strip_protocol(path.removeprefix("hf://"))

    monkeypatch.setitem(sys.modules["fsspec.registry"]._registry, "hf", Hub)
    rows = [{"image": {"bytes": png()}, "objects": {"bbox": [[10, 5, 20, 10]], "category": [0]}}] * 3
    for split in ("train", "validation"):
        with fsspec.open(f"hf://datasets/me/cats/data/{split}-00000.parquet", "wb") as file:
            parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    assert main(["import", "hf:me/cats", "--names", "cat", "--out", "set"]) == 0
    assert [len(read_split("set/data.yaml", split)) for split in ("train", "val")] == [3, 3]
    assert main(["import", "hf:me/dogs", "--names", "dog", "--out", "other"]) == 2
    assert "hf:me/dogs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nope.zip", "there is no such file"),
        ("shapes/data.yaml", "is of no form that is imported"),
        ("empty.zip", "it has no image with a YOLO label"),
        ("text.tar", "cannot be read as a tar file"),
        ("nameless.tar", "it does not name its classes"),
    ],
)
def test_what_cannot_be_imported(place, capsys, source, message):
    with zipfile.ZipFile("empty.zip", "w") as file:
        file.writestr("a.png", png())
    (place / "text.tar").write_bytes(b"text" * 1000)
    tar_of("nameless.tar", {"a.png": png(), "a.txt": b""})
    assert main(["import", source, "--out", "set"]) == 2
    assert message in capsys.readouterr().err
    assert not (place / "set").exists() or not list((place / "set").iterdir())


def test_members_are_found_and_nothing_else_is(place):
    outside = place / "secret"
    outside.write_text("private")
    with tarfile.open("odd.tar", "w") as tar:
        for name, kind in (("link", tarfile.SYMTYPE), ("hard", tarfile.LNKTYPE), ("pipe", tarfile.FIFOTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, str(outside)
            tar.addfile(info)
        info = tarfile.TarInfo("../secret")
        info.size = 4
        tar.addfile(info, io.BytesIO(b"mine"))
    path = place / "odd.tar"
    assert list(names_in(path)) == [f"{path}/../secret"]
    assert open_regular(f"{path}/../secret").read() == b"mine", "what stands in the file, not beside it"
    for name in ("link", "hard", "pipe", "no", "x" * 5000):
        with pytest.raises(OSError):
            open_regular(f"{path}/{name}")
        assert state_of(f"{path}/{name}") is None
    assert (place / "odd.tar.index.npz").is_file()
    (place / "odd.tar.index.npz").write_bytes(b"damaged")
    members_of.__globals__["_members"].cache_clear()
    assert len(members_of(path).names) == 1, "found again"
    tar_of("odd.tar", {"new": b"12345"})
    os.utime("odd.tar", ns=(1, 1))
    assert state_of(f"{path}/new") == (5, 1) and state_of(f"{path}/../secret") is None
