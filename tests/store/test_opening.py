"""What loaders call: every kind of cache opens, says so, and shows the same pixels."""

import errno
import os
from collections import namedtuple
from pathlib import Path

import cv2
import numpy as np
import psutil
import pytest
import torch

from tests.store.made_up import index_of, some_pictures
from yolofast.errors import UserError
from yolofast.pixels import PackedImages
from yolofast.store import FileImages, JpegImages, measure_room, open_images, store_folder, store_name
from yolofast.store.fitted import Fit


@pytest.fixture
def index(tmp_path, monkeypatch):
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    return index_of(some_pictures(tmp_path / "set" / "images" / "train", 4))


@pytest.mark.parametrize(
    ("cache", "kind", "form"),
    [
        ("auto", "ram", PackedImages),
        ("ram", "ram", PackedImages),
        ("disk", "disk", PackedImages),
        ("jpeg", "jpeg", JpegImages),
        ("jpeg-ram", "jpeg-ram", JpegImages),
        ("off", "off", FileImages),
    ],
)
def test_every_kind_opens_and_says_why(index, cache, kind, form):
    said = []
    images, choice = open_images(index, 48, 48, cache, say=said.append)
    assert choice.kind == kind
    assert isinstance(images, form)
    assert said == [f"images: cache {kind} ({choice.reason})"]
    tolerance = 60 if kind.startswith("jpeg") else 0  # the pictures are noisy, which JPEG smooths
    for number in range(4):
        expected = cv2.imread(str(index.path(number)))
        assert np.abs(images.image(number).astype(int) - expected).max() <= tolerance


def test_stores_lie_next_to_the_data_set(index, tmp_path):
    for cache in ("off", "disk"):
        assert not (tmp_path / "set" / ".yolofast").exists(), "without a store there is no folder"
        open_images(index, 48, 48, cache, say=str)
    assert len(list((tmp_path / "set" / ".yolofast").glob("*.pixels"))) == 1
    assert not (tmp_path / "cache").exists()


def test_a_read_only_data_set_is_left_alone(index, tmp_path):
    (tmp_path / "set").chmod(0o555)
    try:
        open_images(index, 48, 48, "disk", say=str)
    finally:
        (tmp_path / "set").chmod(0o755)
    assert not (tmp_path / "set" / ".yolofast").exists()
    assert len(list((tmp_path / "cache" / "stores").glob("*.pixels"))) == 1


def test_a_store_in_a_read_only_folder_is_used(index, tmp_path):
    open_images(index, 48, 48, "disk", say=str)
    beside = tmp_path / "set" / ".yolofast"
    beside.chmod(0o555)
    try:
        open_images(index, 48, 48, "disk", say=str)
    finally:
        beside.chmod(0o755)
    assert not (tmp_path / "cache").exists()


def test_images_without_a_folder_in_common_go_to_the_cache(index, tmp_path):
    apart = index.take([0, 1])
    apart.files[:] = [b"/one/a.png", b"/two/b.png"]
    assert store_folder(apart, store_name(apart, Fit(48, 48, True), "pixels")) == tmp_path / "cache" / "stores"


def test_memory_is_shared_among_the_processes_of_a_machine(tmp_path, monkeypatch):
    memory = namedtuple("memory", "available")
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory(800))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert measure_room(tmp_path / "not" / "yet", torch.device("cpu")).ram_free == 100


def test_a_finished_store_needs_no_more_room(index, monkeypatch):
    for cache in ("disk", "jpeg"):
        open_images(index, 48, 48, cache, say=str)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage(10**6, 10**6, 0))
    for cache in ("disk", "jpeg"):
        assert open_images(index, 48, 48, cache, say=str)[1].reason == "as requested; no more disk is needed"
        with pytest.raises(UserError, match=f"--cache {cache} cannot work"):
            open_images(index, 40, 40, cache, say=str)


def test_a_gpu_that_is_not_there_is_refused(index):
    with pytest.raises(UserError, match="--cache gpu cannot work: there is no GPU"):
        open_images(index, 48, 48, "gpu", device="cpu", say=str)


@pytest.mark.parametrize(
    ("device", "message"),
    [("gpu", "there is no device 'gpu'"), ("cuda:99", "the device is cuda:99, but (no|there are) ")],
)
def test_a_device_that_is_not_there_is_refused_before_packing(index, tmp_path, device, message):
    with pytest.raises(UserError, match=message):
        open_images(index, 48, 48, "disk", device=device, say=str)
    assert not (tmp_path / "set" / ".yolofast").exists()


def test_a_size_of_nothing_is_refused(index, tmp_path):
    for cache in ("auto", "off"):
        with pytest.raises(UserError, match="cannot be fitted to 0×64 pixels"):
            open_images(index, 0, 64, cache, say=str)
    assert not (tmp_path / "set" / ".yolofast").exists()


def test_fewer_than_no_threads_are_refused(index):
    with pytest.raises(UserError, match="cannot be packed by -3 threads"):
        open_images(index, 48, 48, "disk", threads=-3, say=str)


@pytest.mark.parametrize("why", [errno.EROFS, errno.EACCES])
def test_auto_does_without_a_store_where_none_can_be_written(index, monkeypatch, why):
    def refuse(path, *arguments, **settings):
        raise OSError(why, os.strerror(why), str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    said = []
    images, choice = open_images(index, 48, 48, "auto", say=said.append)
    assert isinstance(images, FileImages) and choice.kind == "off"
    assert said[-1].startswith("images: cache off instead (") and f"cannot be written: {os.strerror(why)}" in said[-1]
    with pytest.raises(UserError, match="the store could not be written"):
        open_images(index, 48, 48, "disk", say=str)
