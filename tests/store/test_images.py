"""The pixels: every way of keeping them gives what cv2.imread and cv2.resize give."""

import os
import pickle
import struct
import subprocess
import sys
import warnings

import cv2
import numpy as np
import psutil
import pytest
import torch

from tests.store.made_up import announcing_png, every_kind, index_of, picture, some_pictures, turned_jpeg
from yolofast.errors import UserError
from yolofast.store import FileImages, JpegImages, PackedStore, in_host_memory, open_packed, pack, pack_jpeg, to_device
from yolofast.store.fitted import is_cut_off
from yolofast.store.images import read_whole
from yolofast.store.packed_store import RECORD


def by_hand(file, width, height, augmented):
    """The published rule: fit, cut fractions off, linear when augmenting or enlarging, area otherwise."""
    image = cv2.imread(str(file))
    ratio = min(width / image.shape[1], height / image.shape[0])
    if ratio == 1:
        return image
    size = max(int(image.shape[1] * ratio), 1), max(int(image.shape[0] * ratio), 1)
    area = ratio < 1 and not augmented
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA if area else cv2.INTER_LINEAR)


@pytest.mark.parametrize("augmented", [True, False])
@pytest.mark.parametrize(("width", "height"), [(64, 64), (96, 40)])
def test_packed_pixels_are_those_of_imread_and_resize(tmp_path, width, height, augmented):
    files = every_kind(tmp_path / "images")
    index = index_of(files)
    packed = open_packed(pack(index, width, height, tmp_path / "store", augmented=augmented))
    plain = FileImages(index, width, height, augmented)
    assert np.array_equal(packed.sizes, plain.sizes)
    for number, file in enumerate(files):
        expected = by_hand(file, width, height, augmented)
        np.testing.assert_array_equal(packed.image(number), expected, err_msg=file.name)
        np.testing.assert_array_equal(plain.image(number), expected, err_msg=file.name)
        assert tuple(packed.sizes[number]) == expected.shape[1::-1]


def test_the_interpolations_differ():
    shrunk = [by_hand_resize(picture(100, 60), augmented) for augmented in (True, False)]
    assert not np.array_equal(*shrunk), "otherwise the test above could not tell them apart"


def by_hand_resize(image, augmented):
    return cv2.resize(image, (64, 38), interpolation=cv2.INTER_LINEAR if augmented else cv2.INTER_AREA)


def test_jpeg_keeps_files_that_fit_and_encodes_the_others(tmp_path):
    files = every_kind(tmp_path / "images")
    images = JpegImages(pack_jpeg(index_of(files), 64, 64, tmp_path / "store"))
    kept = {
        file.name for number, file in enumerate(files) if images.encoded([number])[0].tobytes() == file.read_bytes()
    }
    assert kept == {"fitting.jpg", "upright.jpg"}
    for number, file in enumerate(files):
        expected = by_hand(file, 64, 64, True)
        if file.name not in kept:
            encoded = cv2.imencode(".jpg", expected, [cv2.IMWRITE_JPEG_QUALITY, 95])[1]
            expected = cv2.imdecode(encoded, cv2.IMREAD_COLOR)
        np.testing.assert_array_equal(images.image(number), expected, err_msg=file.name)
        assert tuple(images.sizes[number]) == expected.shape[1::-1]


def test_jpeg_images_open_again_in_another_process(tmp_path):
    images = JpegImages(pack_jpeg(index_of(some_pictures(tmp_path / "images", 2)), 48, 48, tmp_path / "store"))
    pickled = pickle.dumps(images)
    assert len(pickled) < 4000, "the data is not sent along"
    np.testing.assert_array_equal(pickle.loads(pickled).image(1), images.image(1))


def test_jpegs_in_memory_need_their_file_no_more(tmp_path):
    store = pack_jpeg(index_of(some_pictures(tmp_path / "images", 3)), 48, 48, tmp_path / "store")
    mapped, resident = JpegImages(store), JpegImages(store, read_whole(store))
    expected = [mapped.image(number) for number in range(3)]
    with store.data.open("r+b") as file:  # as if a disk had lost it: what is mapped changes
        file.write(bytes(store.nbytes))
    for number in range(3):
        np.testing.assert_array_equal(resident.image(number), expected[number])
    with pytest.raises(UserError, match="is damaged"):
        mapped.image(0)


def test_a_write_by_mistake_does_not_reach_the_store(tmp_path):
    store = pack(index_of(some_pictures(tmp_path / "images", 2)), 48, 48, tmp_path / "store")
    before = store.data.read_bytes()
    store.data.chmod(0o444)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_packed(store).image(0)[:] = 0
    assert store.data.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"not an image", "half", "end"])
def test_a_bad_file_is_named_when_there_is_no_store(tmp_path, content):
    file = tmp_path / "bad.jpg"
    cv2.imwrite(str(file), picture(64, 64))
    index = index_of([file])
    whole = file.read_bytes()
    cut = {"half": whole[: len(whole) // 2], "end": whole[:-2]}
    file.write_bytes(cut.get(content, content))
    with pytest.raises(UserError, match=r"bad\.jpg: is (empty|damaged)"):
        FileImages(index, 32, 32, True).image(0)


def test_an_image_too_large_to_decode_is_named(tmp_path):
    file = tmp_path / "huge.png"
    cv2.imwrite(str(file), picture(64, 64))
    index = index_of([file])
    file.write_bytes(announcing_png(60_000, 60_000))
    index.sizes[:] = 60_000
    with pytest.raises(UserError, match=r"huge\.png: says it has 60000×60000 pixels, more than"):
        FileImages(index, 32, 32, True).image(0)


def test_no_memory_for_an_image_is_said_with_its_name(tmp_path, monkeypatch):
    file = tmp_path / "a.png"
    cv2.imwrite(str(file), picture(64, 64))
    images = FileImages(index_of([file]), 32, 32, True)

    def full(*args):
        raise MemoryError

    monkeypatch.setattr(cv2, "imdecode", full)
    with pytest.raises(UserError, match=r"a\.png: cannot be decoded: 64×64 pixels may be too many(?s:.)*fix: make"):
        images.image(0)


def test_a_stored_jpeg_whose_header_is_damaged_is_named(tmp_path):
    store = pack_jpeg(index_of(some_pictures(tmp_path / "images", 1)), 48, 48, tmp_path / "store")
    content = bytearray(store.data.read_bytes())
    size_at = content.index(b"\xff\xc0") + 5
    content[size_at : size_at + 4] = b"\xff\xdc\xff\xdc"  # 65,500 pixels high and wide
    store.data.write_bytes(content)
    with pytest.raises(UserError, match=r"the JPEG packed from .*000\.png is damaged"):
        JpegImages(store).image(0)


@pytest.mark.parametrize(("width", "height"), [(0, 64), (64, 0), (-1, 64)])
def test_a_size_of_nothing_is_refused(tmp_path, width, height):
    index = index_of(some_pictures(tmp_path / "images", 1))
    for make in (FileImages, lambda *args: pack(*args[:3], tmp_path / "store")):
        with pytest.raises(UserError, match=f"cannot be fitted to {width}×{height} pixels"):
            make(index, width, height, True)
    assert not (tmp_path / "store").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_images_do_not_move_to_a_gpu_that_is_not_there(tmp_path):
    packed = open_packed(pack(index_of(some_pictures(tmp_path / "images", 1)), 48, 48, tmp_path / "store"))
    with pytest.raises(UserError, match="the device is cuda, but no GPU can be used"):
        to_device(packed, "cuda")


def test_a_jpeg_without_its_end_is_cut_off_even_if_the_decoder_puts_up_with_it():
    thumbnail = turned_jpeg(picture(8, 8), 1)
    whole = thumbnail[:2] + b"\xff\xe2" + struct.pack(">H", len(thumbnail) + 2) + thumbnail + thumbnail[2:]
    assert not is_cut_off(whole)
    assert not is_cut_off(whole + b"junk")
    assert is_cut_off(whole[:-1]), "the end of the picture within does not count"
    assert not is_cut_off(cv2.imencode(".png", picture(8, 8))[1].tobytes())


def test_an_image_that_changed_its_size_is_not_used(tmp_path):
    file = tmp_path / "a.png"
    cv2.imwrite(str(file), picture(40, 30))
    index = index_of([file])
    cv2.imwrite(str(file), picture(30, 40))
    with pytest.raises(UserError, match=r"a\.png: is 30×40 pixels, but was 40×30"):
        FileImages(index, 32, 32, True).image(0)


def test_junk_behind_a_jpeg_is_harmless(tmp_path):
    file = tmp_path / "a.jpg"
    file.write_bytes(turned_jpeg(picture(40, 30), 1) + b"junk")
    np.testing.assert_array_equal(FileImages(index_of([file]), 40, 40, True).image(0), cv2.imread(str(file)))


@pytest.mark.parametrize("chunk", [1000, 4608, 10**6])
def test_moving_keeps_every_byte(tmp_path, chunk):
    packed = open_packed(pack(index_of(some_pictures(tmp_path / "images", 5)), 48, 48, tmp_path / "store"))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    moved = to_device(packed, device, chunk)
    assert moved.data.device.type == device.type
    assert moved.data.data_ptr() != packed.data.data_ptr()
    assert torch.equal(moved.data.cpu(), packed.data)
    assert np.array_equal(moved.starts, packed.starts) and np.array_equal(moved.sizes, packed.sizes)


@pytest.mark.parametrize("pinned", [False, True])
def test_a_copy_in_memory_is_independent_of_the_file(tmp_path, pinned):
    store = pack(index_of(some_pictures(tmp_path / "images", 3)), 48, 48, tmp_path / "store")
    packed = in_host_memory(open_packed(store), pinned)
    assert packed.data.is_pinned() == (pinned and torch.cuda.is_available())
    expected = store.data.read_bytes()
    store.data.unlink()
    assert packed.data.numpy().tobytes() == expected


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere large private mappings need memory to back them")
def test_a_store_larger_than_memory_can_be_mapped(tmp_path):
    size = 2 * (psutil.virtual_memory().total + psutil.swap_memory().total)
    records = np.zeros(1, RECORD)
    records["length"] = size
    store = PackedStore(tmp_path / "sparse", np.array([b"a.png"]), np.array([[1, 1]]), records)
    store.data.touch()
    os.truncate(store.data, size)  # takes no room: nothing is written
    assert open_packed(store).data[-1] == 0


READ_ALL = """
import sys
from pathlib import Path
from yolofast.store import open_packed
from yolofast.store.packed_store import read_store

def own_memory():
    lines = Path("/proc/self/status").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon", "RssShmem")))

before = own_memory()
images = open_packed(read_store(Path(sys.argv[1])))
assert all(images.image(number).max() > 0 for number in range(len(images.starts)))
print(images.data.numel(), own_memory() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_reading_a_mapped_store_takes_no_memory_of_its_own(tmp_path):
    pack(index_of(some_pictures(tmp_path / "images", 8, 640, 512)), 1600, 1600, tmp_path / "store")
    (index_file,) = (tmp_path / "store").glob("*.index")
    done = subprocess.run([sys.executable, "-c", READ_ALL, index_file], capture_output=True, text=True, check=True)
    read, grown = map(int, done.stdout.split())
    assert read > 40e6
    assert grown < 4e6
