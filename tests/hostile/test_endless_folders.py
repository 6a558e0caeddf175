"""Data yamls that name all of the machine, or lists without end: bounded, and said in one message."""

import os
import shutil

import pytest

from tests.hostile.cost import cheap, refused
from yolofast.dataset import listing
from yolofast.dataset.data_yaml import read_data_yaml
from yolofast.dataset.listing import images_below, list_split
from yolofast.files import budget


def listed(tmp_path, train):
    (tmp_path / "data.yaml").write_text(f"train: {train}\nnames: [a]\n")
    return list_split(read_data_yaml(tmp_path / "data.yaml"), "train").images


@pytest.mark.parametrize("place", ["/proc/self", "/proc", "/sys", "/dev", "/proc/self/task/../fd"])
def test_folders_of_the_system(tmp_path, place):
    with refused(f"^{place.replace('task/../', '')}: is a folder of the system"):
        listed(tmp_path, place)


@pytest.mark.parametrize("target", ["/proc/self", "/sys", "/dev"])
def test_links_to_them_are_not_followed(tmp_path, target):
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "a.jpg").touch()
    (folder / "link").symlink_to(target)
    with cheap():
        assert listed(tmp_path, folder) == [str(folder / "a.jpg")]


def test_a_link_to_much_that_is_no_data(tmp_path, monkeypatch):
    monkeypatch.setattr(budget, "_MOST_OTHERS", 1000)
    for n in range(110):
        (tmp_path / "all" / str(n)).mkdir(parents=True)
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "link").symlink_to(tmp_path / "all")
    with refused("images: has more than 1,000 folders and files below it that are neither images nor labels"):
        listed(tmp_path, tmp_path / "images")


def test_images_and_labels_may_be_any_number(tmp_path, monkeypatch):
    monkeypatch.setattr(budget, "_MOST_OTHERS", 100)
    for n in range(200):
        (tmp_path / f"{n}.JPG").touch()
        (tmp_path / f"{n}.txt").touch()
    assert len(list(images_below(tmp_path))) == 200


def test_memory_as_a_disk_is_no_folder_of_the_system():
    assert not budget._is_system("/dev/shm/data") and budget._is_system("/dev") and not budget._is_system("/device")


@pytest.mark.slow
def test_folders_in_folders_without_end(tmp_path):
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1100):  # more than Python's own walk recurses
        os.mkdir("a", dir_fd=here)
        inner = os.open("a", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    try:
        with refused("folders in folders, more than 100 deep"):
            listed(tmp_path, tmp_path)
    finally:
        while (tmp_path / "a/a").exists():  # from above: removing them as one would recurse
            (tmp_path / "a").rename(tmp_path / "b")
            (tmp_path / "b/a").rename(tmp_path / "a")
            (tmp_path / "b").rmdir()
        shutil.rmtree(tmp_path / "a")


def test_a_line_without_end(tmp_path):
    with (tmp_path / "list.txt").open("wb") as file:
        file.truncate(2**33)  # takes no room on the disk
    with refused(r"list\.txt: not a list of images: line 1 does not end"):
        listed(tmp_path, tmp_path / "list.txt")


def test_lines_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(listing, "_MOST_FAULTS", 50)
    (tmp_path / "list.txt").write_text("x\n" * 100_000)
    with refused("more than 50 lines name no image that is there, the last: 'x' is not an image"):
        listed(tmp_path, tmp_path / "list.txt")
