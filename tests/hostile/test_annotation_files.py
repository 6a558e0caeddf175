"""XML and zip files that ask for more than they are: refused cheaply, with one message, and nothing is written."""

import os
import stat
import struct
import zipfile

import pytest

from tests.dataset.formats import samples
from tests.dataset.make import image, write
from tests.hostile.cost import cheap, refused
from yolofast.cli import main
from yolofast.dataset.data_argument import data_file
from yolofast.dataset.formats.convert import Conversion, ConvertRequest, read_labelled
from yolofast.dataset.formats.recognise import recognise
from yolofast.errors import UserError
from yolofast.files.archive import Archive
from yolofast.files.xml_file import read_xml

LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10 if i else "ha"}">' for i in range(12))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"<!DOCTYPE annotation [{LAUGHS}]><annotation>&l11;</annotation>", "document type"),
        ('<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', "document type"),
        ("<a>" * 10_000, "50 deep"),
        pytest.param("<annotation>" + "<object/>" * 110_000, "100,000 values", marks=pytest.mark.slow),
        ('<annotation a="' + "x" * 10_000_000, "8,388,608 bytes"),
        ("<annotation><filename>" + "x" * 17_000_000, "16,777,216"),
        ("<annotation", "unclosed token"),
        ("", "no element found"),
        ("<annotation>&bomb;</annotation>", "undefined entity"),
        ('<?xml version="1.0" encoding="no-such-code"?><a/>', "unknown encoding"),
        ("\0\0\0", "not well-formed"),
    ],
)
def test_xml(tmp_path, text, message):
    write(tmp_path / "a.xml", text)
    with refused(message):
        list(read_xml(tmp_path / "a.xml", most_bytes=2**24))


def test_a_bomb_among_labels_is_a_fault_of_its_file(tmp_path):
    samples.voc(tmp_path / "voc")
    write(tmp_path / "voc/Annotations/a.xml", f"<!DOCTYPE a [{LAUGHS}]><annotation>&l11;</annotation>")
    with cheap():
        found = read_labelled(tmp_path / "voc", "voc", None)
    assert [(fault.where[-5:], fault.line) for fault in found.faults] == [("a.xml", 1)] and len(found.images) == 2


@pytest.mark.slow
def test_a_long_file_passes_through_a_small_room(tmp_path):
    """Records are given out one by one: a file of any length is read, and only one record is held."""
    image = '<image id="0" name="a.jpg"><box label="x" xtl="1" ytl="1" xbr="2" ybr="2"/></image>\n'
    write(tmp_path / "a.xml", "<annotations>" + image * 20_000 + "</annotations>")
    with cheap():
        count = sum(one.tag == "image" for one in read_xml(tmp_path / "a.xml", records=("image",)))
    assert count == 20_000


def zipped(path, **parts):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize(
    "name", ["../out.txt", "a/../../out.txt", "/etc/out.txt", "C:/out.txt", "..\\out.txt", "a//b.txt", "a/./b", "a\nb"]
)
def test_names_that_lead_out(tmp_path, name):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), "x")
    with refused("would not stay in its folder"):
        Archive(path)
    with refused("would not stay in its folder"):
        data_file(path)


def test_a_link_a_password_and_a_name_twice(tmp_path):
    link = zipfile.ZipInfo("labels")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as archive:
        archive.writestr(link, "/etc")
    with refused("holds a link"):
        Archive(tmp_path / "link.zip")

    path = zipped(tmp_path / "secret.zip", a="x" * 100)
    content = bytearray(path.read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + flags] |= 1
    path.write_bytes(content)
    with refused("password"):
        Archive(path)

    with zipfile.ZipFile(tmp_path / "twice.zip", "w") as archive:
        archive.writestr("a.txt", "1")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("a.txt", "2")
    with refused("twice"):
        Archive(tmp_path / "twice.zip")


def test_bombs(tmp_path):
    path = zipped(tmp_path / "bomb.zip", a=bytes(2**24 + 1))
    assert path.stat().st_size < 100_000
    with refused("zip bomb"):
        Archive(path)
    with refused("zip bomb"):
        recognise(path)


def test_parts_that_lie_over_one_another(tmp_path):
    """As in bombs without nesting: many entries of the directory mean the same bytes."""
    path = zipped(tmp_path / "a.zip", a=os.urandom(1000))
    content = path.read_bytes()
    start = content.index(b"PK\x01\x02")
    end = content.index(b"PK\x05\x06")
    entry = content[start:end]
    entries = [bytearray(entry) for _ in range(50)]
    for number, one in enumerate(entries):
        one[46:47] = bytes([65 + number])
    directory = b"".join(entries)
    tail = bytearray(content[end:])
    tail[8:12] = struct.pack("<HH", 50, 50)
    tail[12:16] = struct.pack("<I", len(directory))
    path.write_bytes(content[:start] + directory + tail)
    with refused("over one another"):
        Archive(path)


def test_what_is_no_zip_or_is_damaged(tmp_path):
    (tmp_path / "text.zip").write_text("no zip")
    with refused("cannot be read as a zip file"):
        Archive(tmp_path / "text.zip")
    path = zipped(tmp_path / "a.zip", **{"a.txt": os.urandom(5000)})
    content = bytearray(path.read_bytes())
    content[500] ^= 1
    path.write_bytes(content)
    (tmp_path / "out").mkdir()
    with Archive(path) as archive, refused("cannot be unpacked"):
        archive.unpack(tmp_path / "out", lambda name: True)


@pytest.mark.parametrize("way", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_file_in_each_way_of_packing(tmp_path, way):
    """The libraries that unpack have errors of their own, which have no class in common."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w", way) as file:
        file.writestr("a.txt", b"cat " * 1000)
    content = bytearray((tmp_path / "a.zip").read_bytes())
    content[50:60] = bytes(byte ^ 0x5A for byte in content[50:60])
    (tmp_path / "a.zip").write_bytes(content)
    (tmp_path / "out").mkdir()
    with Archive(tmp_path / "a.zip") as archive:
        assert len(archive.head("a.txt", 10)) < 10
        with refused("cannot be unpacked"):
            archive.read("a.txt")
        with refused("cannot be unpacked"):
            archive.unpack(tmp_path / "out", lambda name: True)
    assert main(["check", "--data", str(tmp_path / "a.zip")]) == 2


def test_a_file_without_a_name(tmp_path):
    path = zipped(tmp_path / "a.zip", a="cat")
    content = path.read_bytes()
    place = content.index(b"PK\x01\x02")
    without = content[place : place + 28] + b"\0\0" + content[place + 30 : place + 46] + content[place + 47 :]
    tail = without.index(b"PK\x05\x06")
    size = struct.pack("<I", tail)
    path.write_bytes(content[:place] + without[: tail + 12] + size + without[tail + 16 :])
    with refused("would not stay in its folder"):
        Archive(path)


def test_a_refused_zip_leaves_nothing(tmp_path):
    path = zipped(tmp_path / "a.zip", **{"../x.txt": "x"})
    with pytest.raises(UserError):
        Conversion(ConvertRequest(path, "yolo"), print).make(tmp_path / "out")
    path = zipped(tmp_path / "b.zip", **{"a.xml": "<annotation/>"})
    with pytest.raises(UserError, match="there is no image"):
        Conversion(ConvertRequest(path, "yolo"), print).make(tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == ["a.zip", "b.zip"]


@pytest.mark.parametrize(
    "content", ["[" * 100_000, '{"images": ' + "9" * 5000, "\x00", '{"shapes": 3, "flags": {}}', "[1, 2]"]
)
def test_json_of_no_form(tmp_path, content):
    write(tmp_path / "x/a.json", content)
    with cheap():
        for form in ("labelme", "labelstudio", "coco"):
            with pytest.raises(UserError):
                Conversion(ConvertRequest(tmp_path / "x", "yolo", form), print).make(tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_folder_that_links_to_itself_is_looked_at_once(tmp_path):
    samples.voc(tmp_path / "voc")
    (tmp_path / "voc" / "again").symlink_to(tmp_path / "voc", target_is_directory=True)
    (tmp_path / "voc" / "root").symlink_to("/", target_is_directory=True)
    with cheap():
        assert recognise(tmp_path / "voc").format == "voc"


@pytest.mark.parametrize("row", ["0 .5 .5 .2 .2", "x", "0 .5 .5 1 .{n}", "0 0 0 0 .{n}", "{n} 0 0 0 0"])
def test_a_megabyte_of_odd_rows_is_a_short_report(tmp_path, row, capsys):
    """Repeated, without sense, beyond the image, too small, of no class."""
    image(tmp_path / "images/train/a.jpg")
    data, count = tmp_path / "data.yaml", 1_000_000 // len(row.format(n=10_000) + "\n")
    write(data, "train: images/train\nnames: [a]\n")
    write(tmp_path / "labels/train/a.txt", "".join(f"{row}\n".format(n=n) for n in range(count)))
    with cheap():
        assert main(["check", "--data", str(data), "--splits", "train", "--json"]) == 1
    assert len(capsys.readouterr().out) < 300_000
