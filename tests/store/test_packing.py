"""Making a store: whole or not at all, once, and again only what has changed."""

import os
import shutil
import signal
import subprocess
import sys
from collections import namedtuple

import cv2
import numpy as np
import pytest

from tests.patience import PATIENCE
from tests.programs import Program
from tests.sample_data import sample
from tests.store.made_up import announcing_png, every_kind, index_of, picture, some_pictures
from yolofast.errors import UserError
from yolofast.store import JpegImages, open_packed, pack, pack_jpeg, verify

PACK = """
import os, signal, sys
from pathlib import Path
from tests.store.made_up import index_of
from yolofast.store import pack, pack_jpeg

def report(done, total):
    global steps
    steps += 1
    if sys.argv[5] and done == 1:
        print("one is done", flush=True)
        sys.stdin.readline()
    if done == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)

steps = 0
make = {"pixels": pack, "jpeg": pack_jpeg}[sys.argv[3]]
index = index_of(sorted(Path(sys.argv[1]).iterdir()))
print("ready", flush=True)
sys.stdin.readline()
store = make(index, 40, 40, Path(sys.argv[2]), threads=2, progress=report, say=lambda text: print(text, flush=True))
print(steps, store.data)
"""


def start(images, store, flavour="pixels", *, die_after=-1, waits=False):
    """A process that packs as soon as it is told to; one that `waits` has to be told again after its first image."""
    command = [sys.executable, "-c", PACK, *map(str, (images, store, flavour, die_after, "waits" if waits else ""))]
    return Program(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def go(process):
    process.stdin.write("go\n")
    process.stdin.flush()


@pytest.fixture
def counted():
    """Counts the images a pack has gone through."""

    class Counted(list):
        def __call__(self, done, total):
            self.append((done, total))

    return Counted()


@pytest.mark.slow
@pytest.mark.parametrize("flavour", ["pixels", "jpeg"])
def test_a_killed_pack_continues_where_it_was(tmp_path, counted, flavour):
    make = {"pixels": pack, "jpeg": pack_jpeg}[flavour]
    files = some_pictures(tmp_path / "images", 20)
    process = start(tmp_path / "images", tmp_path / "killed", flavour, die_after=13)
    process.communicate("go\n", timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL
    assert not list((tmp_path / "killed").glob("*.index")), "nothing half-made under its name"

    resumed = make(index_of(files), 40, 40, tmp_path / "killed", progress=counted)
    assert counted[0] == (14, 20)
    untouched = make(index_of(files), 40, 40, tmp_path / "whole")
    assert resumed.data.name == untouched.data.name
    assert resumed.data.read_bytes() == untouched.data.read_bytes()
    assert {file.suffix for file in (tmp_path / "killed").iterdir()} == {".index", ".lock", f".{flavour}"}


def stop_after(count):
    def progress(done, total):
        if done == count:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize("damage", ["data", "data cut", "journal cut", "source"])
def test_a_resumed_pack_trusts_nothing_that_has_changed(tmp_path, counted, damage):
    files = some_pictures(tmp_path / "images", 8)
    store_folder = tmp_path / "store"
    with pytest.raises(KeyboardInterrupt):
        pack(index_of(files), 40, 40, store_folder, progress=stop_after(6))
    (partial,), (journal,) = store_folder.glob("*.partial"), store_folder.glob("*.journal")
    image_bytes = 40 * 26 * 3
    if damage == "data":
        content = bytearray(partial.read_bytes())
        content[2 * image_bytes + 5] ^= 1
        partial.write_bytes(content)
    elif damage == "data cut":
        os.truncate(partial, 3 * image_bytes - 1)
    elif damage == "journal cut":
        os.truncate(journal, journal.stat().st_size // 6 * 2 + 7)
    else:
        cv2.imwrite(str(files[2]), picture(48, 32, 99))
    store = pack(index_of(files), 40, 40, store_folder, progress=counted)
    assert counted[0] == (3, 8), "images 0 and 1 are still good"
    assert store.data.read_bytes() == pack(index_of(files), 40, 40, tmp_path / "whole").data.read_bytes()


@pytest.mark.slow
def test_of_two_processes_one_packs_and_the_other_waits(tmp_path):
    some_pictures(tmp_path / "images", 20)
    first, second = both = [start(tmp_path / "images", tmp_path / "store", waits=waits) for waits in (True, False)]
    for process, said in ((first, "one is done"), (second, "another process is packing")):
        assert process.stdout.readline() == "ready\n"
        go(process)
        assert process.stdout.readline().startswith(said)
    go(first)
    outputs = [process.communicate(timeout=PATIENCE) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    steps, data = zip(*(out.splitlines()[-1].split() for out, _ in outputs), strict=True)
    assert steps == ("20", "0")
    assert data[0] == data[1]


@pytest.mark.parametrize("make", [pack, pack_jpeg])
def test_an_image_too_large_to_decode_is_named_and_nothing_stays(tmp_path, make):
    files = some_pictures(tmp_path / "images", 4)
    index = index_of(files)
    files[2].write_bytes(announcing_png(60_000, 60_000))
    index.sizes[2] = 60_000
    with pytest.raises(UserError, match=r"1 of 4 images cannot be packed:\s+.*002\.png: says it has 60000×60000"):
        make(index, 40, 40, tmp_path / "store")
    assert {file.suffix for file in (tmp_path / "store").iterdir()} == {".lock"}


@pytest.mark.parametrize("make", [pack, pack_jpeg])
def test_a_finished_store_is_used_as_it_is(tmp_path, counted, make):
    index = index_of(some_pictures(tmp_path / "images", 4))
    first = make(index, 40, 40, tmp_path / "store")
    again = make(index, 40, 40, tmp_path / "store", progress=counted)
    assert not counted
    assert (again.data, again.nbytes) == (first.data, first.nbytes)


def test_each_size_interpolation_flavour_and_list_of_files_has_a_store_of_its_own(tmp_path):
    index = index_of(some_pictures(tmp_path / "images", 3))
    folder = tmp_path / "store"
    stores = [
        pack(index, 40, 40, folder),
        pack(index, 40, 40, folder, augmented=False),
        pack(index, 40, 41, folder),
        pack_jpeg(index, 40, 40, folder),
        pack(index.take([0, 1]), 40, 40, folder),
        pack(index.take([1, 0, 2]), 40, 40, folder),
    ]
    assert len({store.data for store in stores}) == len(stores)
    assert all(store.is_whole() for store in stores)


@pytest.mark.parametrize("size", [(48, 32), (32, 48), (48, 20)])
def test_a_changed_image_is_packed_again_and_the_others_copied(tmp_path, size):
    files = some_pictures(tmp_path / "images", 6)
    old = pack(index_of(files), 40, 40, tmp_path / "store")
    mapped = open_packed(old)
    before = mapped.image(2).copy()
    cv2.imwrite(str(files[2]), picture(*size, 77))
    # Bytes that are no image, with the old size and time: only copying can get past them.
    state = files[4].stat()
    files[4].write_bytes(bytes(state.st_size))
    os.utime(files[4], ns=(state.st_atime_ns, state.st_mtime_ns))
    index = index_of(files[:4] + [files[0]] + files[5:])
    index.files[4] = os.fsencode(files[4])

    new = pack(index, 40, 40, tmp_path / "store")
    images = open_packed(new)
    expected = cv2.imread(str(files[2]))
    ratio = 40 / max(size)
    expected = cv2.resize(expected, (int(size[0] * ratio), int(size[1] * ratio)))
    np.testing.assert_array_equal(images.image(2), expected)
    np.testing.assert_array_equal(images.image(4), mapped.image(4))
    np.testing.assert_array_equal(mapped.image(2), before, err_msg="who had mapped the old store keeps it")
    assert new.data != old.data
    assert not old.data.exists()


def test_an_image_changed_back_in_time_is_noticed(tmp_path, counted):
    files = some_pictures(tmp_path / "images", 2)
    pack(index_of(files), 40, 40, tmp_path / "store")
    os.utime(files[1], ns=(0, 0))
    pack(index_of(files), 40, 40, tmp_path / "store", progress=counted)
    assert counted


@pytest.mark.parametrize("make", [pack, pack_jpeg])
def test_verify_names_the_image_whose_bytes_are_damaged(tmp_path, make):
    files = some_pictures(tmp_path / "images", 5)
    store = make(index_of(files), 40, 40, tmp_path / "store")
    assert verify(store) == ()
    content = bytearray(store.data.read_bytes())
    content[int(store.starts[3])] ^= 0x10
    store.data.write_bytes(content)
    assert verify(store, threads=2) == (files[3],)


def test_a_damaged_jpeg_is_named_when_it_is_used(tmp_path):
    store = pack_jpeg(index_of(some_pictures(tmp_path / "images", 2)), 40, 40, tmp_path / "store")
    content = bytearray(store.data.read_bytes())
    content[int(store.starts[1]) : int(store.starts[1]) + 20] = bytes(20)
    store.data.write_bytes(content)
    with pytest.raises(UserError, match=r"001\.png is damaged"):
        JpegImages(store).image(1)


@pytest.mark.parametrize("damage", ["cut", "longer", "gone"])
def test_a_store_that_is_not_all_there_is_refused_and_made_anew(tmp_path, damage):
    index = index_of(some_pictures(tmp_path / "images", 4))
    store = pack(index, 40, 40, tmp_path / "store")
    whole = store.data.read_bytes()
    if damage == "gone":
        store.data.unlink()
    else:
        store.data.write_bytes(whole[:-1] if damage == "cut" else whole + b"x")
    with pytest.raises(UserError, match="pack them again"):
        open_packed(store)
    assert pack(index, 40, 40, tmp_path / "store").data.read_bytes() == whole


@pytest.mark.parametrize("content", [b"", b"junk", b"PK\x03\x04 junk", "cut", "array"])
def test_a_damaged_index_is_made_anew(tmp_path, content):
    index = index_of(some_pictures(tmp_path / "images", 4))
    store = pack(index, 40, 40, tmp_path / "store")
    (index_file,) = (tmp_path / "store").glob("*.index")
    if content == "array":
        with index_file.open("wb") as file:
            np.save(file, np.zeros(3))
    else:
        index_file.write_bytes(index_file.read_bytes()[:-30] if content == "cut" else content)
    again = pack(index, 40, 40, tmp_path / "store")
    assert verify(again) == ()
    assert again.data == store.data


def test_all_bad_images_are_named_at_once(tmp_path):
    files = some_pictures(tmp_path / "images", 20)
    index = index_of(files)
    for file in files[3:15]:
        file.write_bytes(b"junk")
    files[16].unlink()
    with pytest.raises(UserError, match="13 of 20 images cannot be packed") as caught:
        pack(index, 40, 40, tmp_path / "store")
    text = str(caught.value)
    assert [file.name in text for file in files[3:13]] == [True] * 10
    assert "… and 3 more" in text and files[13].name not in text
    assert [file.suffix for file in (tmp_path / "store").iterdir()] == [".lock"]


def test_too_little_disk_is_said_before_work_starts(tmp_path, monkeypatch, counted):
    index = index_of(some_pictures(tmp_path / "images", 4))
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(10**9, 10**9 - 5_000, 5_000))
    with pytest.raises(UserError, match=r"needs 12\.5 kB, but only 5\.0 kB of the disk are free") as caught:
        pack(index, 40, 40, tmp_path / "store", progress=counted)
    assert "--cache jpeg" in str(caught.value)
    assert not counted
    assert pack_jpeg(index, 40, 40, tmp_path / "store").is_whole(), "a fifth of it fits"


def test_a_folder_that_cannot_be_made_is_the_users_to_mend(tmp_path):
    index = index_of(some_pictures(tmp_path / "images", 1))
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="could not be written"):
        pack(index, 40, 40, tmp_path / "file" / "store")


def test_no_images_make_an_empty_store(tmp_path):
    store = pack(index_of([]), 40, 40, tmp_path / "store")
    assert len(store) == 0
    assert len(open_packed(store).data) == 0


def test_the_file_does_not_depend_on_the_number_of_threads(tmp_path):
    index = index_of(every_kind(tmp_path / "images"))
    one, many = (pack(index, 64, 64, tmp_path / str(threads), threads=threads) for threads in (1, 5))
    assert one.data.read_bytes() == many.data.read_bytes()


def test_real_images(tmp_path):
    files = sorted(sample("voc320/images/val").iterdir())[:40]
    packed = open_packed(pack(index_of(files), 256, 256, tmp_path / "store", augmented=False))
    for number, file in enumerate(files):
        image = cv2.imread(str(file))
        ratio = 256 / max(image.shape)
        size = int(image.shape[1] * ratio), int(image.shape[0] * ratio)
        interpolation = cv2.INTER_AREA if ratio < 1 else cv2.INTER_LINEAR
        np.testing.assert_array_equal(packed.image(number), cv2.resize(image, size, interpolation=interpolation))
