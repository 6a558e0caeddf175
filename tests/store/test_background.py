"""Packed images that are not what was written: found while a run trains, made anew, and said."""

import itertools
import os
import time
from functools import partial

import numpy as np
import pytest

from tests.store.made_up import index_of, some_pictures
from tests.train.small_run import flags
from yolofast.cli import main
from yolofast.errors import UserError
from yolofast.store import background, open_images, packing, verify
from yolofast.store.background import BackgroundCheck
from yolofast.store.fitted import read_as_jpeg
from yolofast.store.packed_store import read_store


@pytest.fixture
def index(tmp_path, monkeypatch):
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    return index_of(some_pictures(tmp_path / "set" / "images" / "train", 6))


def store_of(tmp_path):
    (found,) = (tmp_path / "set" / ".yolofast").glob("*.index")
    return read_store(found)


def flip(store, image):
    """One bit of one image."""
    place = int(store.records[image]["start"]) + 7
    content = bytearray(store.data.read_bytes())
    content[place] ^= 4
    store.data.write_bytes(content)


def checked(index, cache, **settings):
    check = BackgroundCheck(**settings)
    images, _ = open_images(index, 48, 48, cache, say=str, opened=check.add)
    check.start()
    check.wait()
    return check, images


@pytest.mark.parametrize(("cache", "in_memory"), [("disk", False), ("ram", True), ("jpeg", False)])
def test_a_flipped_bit_is_mended_and_said(index, tmp_path, cache, in_memory):
    images, _ = open_images(index, 48, 48, cache, say=str)
    right = [images.image(number).copy() for number in range(6)]
    store = store_of(tmp_path)
    flip(store, 3)
    assert verify(store) == (index.path(3),)
    check, images = checked(index, cache)
    said = []
    assert check.mend(said.append) is in_memory
    assert len(said) == 1
    assert said[0].startswith(
        f"warning: {index.path(3)}: the pixels that were packed of it were damaged in {store.data}"
    )
    assert all(np.array_equal(images.image(number), right[number]) for number in range(6))
    assert verify(store) == () and store_of(tmp_path).data == store.data
    assert not check.mend(said.append) and len(said) == 1, "it is said once"


def test_what_is_whole_is_left_alone(index, tmp_path):
    check, _ = checked(index, "disk")
    before = store_of(tmp_path).data.stat()
    said = []
    assert not check.mend(said.append) and not said
    assert store_of(tmp_path).data.stat() == before


def test_what_does_not_fit_into_the_file_is_packed_by_the_next_run(index, tmp_path, monkeypatch):
    open_images(index, 48, 48, "jpeg", say=str)
    damaged = store_of(tmp_path)
    flip(damaged, 2)
    with monkeypatch.context() as patch:
        patch.setattr(packing, "read_as_jpeg", partial(read_as_jpeg, quality=50))
        check, images = checked(index, "jpeg")
    said = []
    assert check.mend(said.append)
    assert "for this run: the file cannot take them" in said[0]
    assert images.image(2).shape == (32, 48, 3) and len(images.encoded([2])[0]) < int(damaged.records[2]["length"])
    open_images(index, 48, 48, "jpeg", say=str)
    assert verify(store_of(tmp_path)) == ()


def test_pixels_that_another_decoder_would_show_differently(index, tmp_path, monkeypatch):
    open_images(index, 48, 48, "disk", say=str)
    flip(store_of(tmp_path), 2)
    brighter = packing.read_fitted
    with monkeypatch.context() as patch:
        patch.setattr(packing, "read_fitted", lambda *of: brighter(*of) ^ 1)
        check, _ = checked(index, "disk")
    assert not check.mend(str)
    assert verify(store_of(tmp_path)) == (), "the index has the new checksum"


def test_an_image_that_is_gone_ends_the_run(index, tmp_path):
    open_images(index, 48, 48, "disk", say=str)
    flip(store_of(tmp_path), 1)
    for skip_bad in (False, True):
        check = BackgroundCheck(skip_bad=skip_bad)
        open_images(index, 48, 48, "disk", say=str, opened=check.add)
        content = index.path(1).read_bytes()
        stamp = index.path(1).stat()
        index.path(1).unlink()
        check.start()
        check.wait()
        index.path(1).write_bytes(content)
        os.utime(index.path(1), ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        said = []
        if skip_bad:
            check.mend(said.append)
            assert len(said) == 1 and "are damaged, and it cannot be read: No such file" in said[0]
        else:
            with pytest.raises(UserError, match="are damaged, and it cannot be read: No such file"):
                check.mend(said.append)


def test_a_file_that_is_shorter_than_it_was(index, tmp_path):
    check = BackgroundCheck(skip_bad=True)
    open_images(index, 48, 48, "ram", say=str, opened=check.add)
    os.truncate(store_of(tmp_path).data, 100)
    check.start()
    check.wait()
    said = []
    check.mend(said.append)
    assert len(said) == 1 and "should be 27,648 bytes, but 100 are there" in said[0]


def test_many_are_counted(index, tmp_path):
    open_images(index, 48, 48, "disk", say=str)
    for image in range(6):
        flip(store_of(tmp_path), image)
    check, _ = checked(index, "disk")
    said = []
    check.mend(said.append)
    assert len(said) == 4 and said[-1] == "… and 3 more"


def test_it_takes_a_hundredth_of_the_cores(index, monkeypatch):
    """A thread that works for 10 ms an image waits 99 times as long on one core."""
    clock = itertools.count(step=0.01)
    monkeypatch.setattr(time, "thread_time", lambda: next(clock))
    monkeypatch.setattr(background, "usable_cores", lambda: 1)
    check, waited = BackgroundCheck(), []
    monkeypatch.setattr(check._stop, "wait", waited.append)
    open_images(index, 48, 48, "disk", say=str, opened=check.add)
    check._run()
    assert np.allclose(waited, [0.99] * 6)


@pytest.mark.slow
def test_a_run_says_it_and_goes_on(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    how = [*flags(tmp_path, cache="ram", epochs=1, workers=2), "--persistent-workers"]
    assert main(["train", *how]) == 0
    stores = [read_store(found) for found in (tmp_path / "shapes" / ".yolofast").glob("*.index")]
    for store in stores:
        flip(store, 2)
    start = BackgroundCheck.start
    monkeypatch.setattr(BackgroundCheck, "start", lambda check: (start(check), check.wait()))
    capfd.readouterr()
    assert main(["train", "--resume", str(tmp_path / "runs" / "exp"), "--epochs", "3"]) == 0
    out = capfd.readouterr().out
    assert len(stores) == 2 and out.replace("\n", "").count("were damaged in") == 2
    assert [verify(store) for store in stores] == [(), ()]
