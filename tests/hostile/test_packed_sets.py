"""Tar, zip and parquet files that promise more than they hold, turn in circles, or never end."""

import io
import os
import tarfile
import zipfile

import numpy as np
import pytest

from tests.dataset.packed.test_import import png, tar_of
from tests.hostile.cost import cheap, refused
from yolofast.dataset.packed.sources import open_source
from yolofast.dataset.yolo_labels import read_label
from yolofast.errors import UserError
from yolofast.files.budget import LARGEST_IMAGE, open_regular, read_bounded
from yolofast.files.tar_file import members_of

SOUND = {"data.yaml": b"names: [a]", "images/a.png": png(), "labels/a.txt": b"0 0.5 0.5 0.1 0.1\n"}


def header(name="x", kind=tarfile.REGTYPE, size=0):
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf()


def with_size(size):
    """In the form for sizes that octal digits do not hold."""
    content = bytearray(header("neg"))
    content[124:136] = size.to_bytes(12, "big", signed=True)
    content[148:156] = b"%06o\0 " % (256 + sum(content[:148]) + sum(content[156:512]))
    return bytes(content)


def extended(content):
    return header(kind=tarfile.XHDTYPE, size=len(content)) + content + bytes(-len(content) % 512)


def tar_with(path, after=b"", before=b""):
    """Sound members between these."""
    inside = io.BytesIO()
    with tarfile.open(fileobj=inside, mode="w") as tar:
        for name, content in SOUND.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        end = tar.offset
    path.write_bytes(before + inside.getvalue()[:end] + after + bytes(1024))
    return path


def read(path):
    """As a data set, and as what is imported."""
    with refused(r"cannot be read as a tar file"):
        members_of(path)
    with refused(r"cannot be read as a tar file"):
        list(open_source(str(path), []).items)


DAMAGED = {
    "a size below zero": {"after": with_size(-1024)},
    "digits that are looked through again": {"before": extended(b"1" * 200_000)},
    "a long name": {"after": header(kind=tarfile.GNUTYPE_LONGNAME, size=10**6) + b"x" * 10**6},
    "a header with flipped bits": {"after": header("b.png").replace(b"b.png", b"c.png") + header("d.png")},
    "half a header": {"after": header("b.png")[:100] + b"x" * 2000},
}


@pytest.mark.parametrize("change", DAMAGED.values(), ids=DAMAGED)
def test_headers(tmp_path, change):
    read(tar_with(tmp_path / "x.tar", **change))


def test_a_sound_one_is_read(tmp_path):
    path = tar_with(tmp_path / "x.tar")
    assert len(members_of(path).names) == 3 and len(list(open_source(str(path), []).items)) == 1


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2"])
def test_packed_tar_files(tmp_path, mode):
    """A thousandth of what they unpack to, or less."""
    with tarfile.open(tmp_path / "x.tar", mode) as tar:
        tar.addfile(tarfile.TarInfo("images/a.png"))
    read(tmp_path / "x.tar")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "x.tar")
    with refused("a pipe or a device"):
        members_of(tmp_path / "x.tar")


def test_members_of_any_size(tmp_path):
    """They take no room on the disk."""
    size = 2**33
    path = tmp_path / "x.tar"
    path.write_bytes(header("images/a.png", size=size))
    with path.open("r+b") as file:
        file.truncate(size + 10_240)
    with cheap(), pytest.raises(OSError, match="are allowed"):
        open_regular(f"{path}/images/a.png")
    with refused("no image with a YOLO label"):
        list(open_source(str(path), []).items)


def test_an_index_beside_it_that_leads_elsewhere(tmp_path):
    tar_of(tmp_path / "x.tar", SOUND)
    found = members_of(tmp_path / "x.tar")
    status = os.stat(tmp_path / "x.tar")
    of = np.array([status.st_size, status.st_mtime_ns])
    for places in ([[0, 2**62]], [[-5, 5]], [[status.st_size, 1]], [[2**63 - 1, 2]]):
        _forget()
        np.savez(tmp_path / "x.tar.index.npz", names=np.array([b"images/a.png"]), places=np.array(places), of=of)
        assert members_of(tmp_path / "x.tar").places.tolist() == found.places.tolist()
    _forget()
    swelling = {"names": np.zeros(10**8, "S1"), "places": np.array([[0, 1]]), "of": of}
    np.savez_compressed(tmp_path / "x.tar.index.npz", **swelling)
    del swelling
    with cheap():
        assert members_of(tmp_path / "x.tar").places.tolist() == found.places.tolist()


def _forget():
    from yolofast.files import tar_file

    tar_file._members.cache_clear()


def zip_of(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("noise"), os.urandom(2**21))  # so that the rest is not out of proportion
        for name, content in files.items():
            archive.writestr(name, content)
    return str(path)


def test_zips_of_many_or_large_texts(tmp_path):
    yamls = {f"{n}/data.yaml": b"#" * 2**22 for n in range(60)}
    with cheap():
        assert len(list(open_source(zip_of(tmp_path / "x.zip", {**yamls, **SOUND}), []).items)) == 1


def test_labels_and_images_of_any_size(tmp_path):
    with (tmp_path / "a.txt").open("wb") as file:
        file.truncate(2**33)
    with cheap():
        assert "are allowed" in read_label(str(tmp_path / "a.txt")).reason
        with pytest.raises(OSError, match=f"{LARGEST_IMAGE:,}"):
            read_bounded(tmp_path / "a.txt")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1", b"x" * 1000])
def test_parquet_files_that_are_none(tmp_path, content):
    pytest.importorskip("pyarrow", reason="reads parquet files")
    (tmp_path / "x.parquet").write_bytes(content)
    with pytest.raises(UserError, match="cannot be read as a parquet file"):
        open_source(str(tmp_path / "x.parquet"), [])


def test_rows_of_a_parquet_file_that_swell(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="reads parquet files")
    parquet = pytest.importorskip("pyarrow.parquet", reason="reads parquet files")
    rows = [{"bytes": bytes([n]) * 2**24} for n in range(20)]
    objects = [{"bbox": [[1.0, 1, 2, 2]], "category": [0]}] * len(rows)
    table = pyarrow.table({"image": rows, "objects": objects})
    parquet.write_table(table, tmp_path / "x.parquet", compression="zstd")
    del rows, table
    with refused("would unpack to"):
        list(open_source(str(tmp_path / "x.parquet"), ["a"]).items)
