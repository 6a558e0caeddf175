"""Published weights: where they are, and how they come onto the disk, from a server that may fail halfway."""

import hashlib
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from yolofast.checkpoint import published
from yolofast.checkpoint.published import PUBLISHED, published_weights
from yolofast.cli import main
from yolofast.errors import UserError
from yolofast.media.download import download
from yolofast.resources import short_names

CONTENT = bytes(range(256)) * 5000
SUM = hashlib.sha256(CONTENT).hexdigest()


class Files(BaseHTTPRequestHandler):
    """Serves CONTENT under any name: in parts, or only whole; a part of it if it is to fail."""

    def do_GET(self):
        server = self.server
        asked = self.headers.get("Range")
        server.asked.append(asked)
        first = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and server.sends_parts else 0
        if first >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", server.length or str(len(CONTENT) - first))
        self.end_headers()
        self.wfile.write(CONTENT[first : server.until])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    one = ThreadingHTTPServer(("127.0.0.1", 0), Files)
    one.asked, one.sends_parts, one.until, one.length = [], True, None, None
    thread = threading.Thread(target=one.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    one.address = f"http://127.0.0.1:{one.server_port}"
    yield one
    one.shutdown()
    one.server_close()
    thread.join()


def test_every_network_of_the_publishers_has_its_file():
    networks = {one.network for one in PUBLISHED}
    assert networks <= set(short_names("cfg")) and {"yolox-nano", "yolov7-tiny", "yolov7-e6e"} <= networks
    assert len({one.name for one in PUBLISHED}) == len(PUBLISHED) == len({one.address for one in PUBLISHED})
    assert all(one.page in one.address.replace("/download/", "/tag/") for one in PUBLISHED)
    stated = {one.name: one.sha256 for one in PUBLISHED if one.sha256 is not None}
    assert {one.name for one in PUBLISHED if one.network.startswith("yolox")} | {"yolov7", "yolov7-tiny"} == {*stated}
    assert all(len(digest) == 64 for digest in stated.values()) and len({*stated.values()}) == len(stated)


@pytest.mark.parametrize("name", ["yolox-nano", "yolox_nano", "yolox_nano.pth", "weights/YOLOX-Nano.pth"])
def test_however_it_is_spelt(name):
    assert published_weights(name).file == "yolox_nano.pth"
    assert published_weights("yolov7").file == "yolov7.pt" != published_weights("yolov7_training").file
    assert published_weights("best.pt") is None and published_weights("yolov8n.pt") is None


def test_a_file_that_is_not_here_is_named_with_its_place(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("yolov7-tiny.pt", "yolox-nano"):
        assert main(["info", "--weights", name]) == 2
        said = capsys.readouterr().err
        assert f"weights {name.removesuffix('.pt')}` downloads" in said and published_weights(name).page in said


def test_all_are_listed(capsys):
    assert main(["weights"]) == 0
    said = capsys.readouterr().out
    assert all(one.name in said and one.file in said for one in PUBLISHED) and "not known" in said


@pytest.mark.slow
def test_downloaded_and_checked(server, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ours = tuple(replace(one, sha256=one.sha256 and SUM) for one in PUBLISHED)
    monkeypatch.setattr(published, "PUBLISHED", ours)
    for name, file, checked in (("yolox-s", "yolox_s.pth", "as recorded"), ("yolov7x", "yolov7x.pt", "not checked")):
        assert main(["weights", name, "--from", f"{server.address}/mirror/"]) == 0
        assert (tmp_path / file).read_bytes() == CONTENT
        said = capsys.readouterr().out
        assert f"sha256 {SUM} ({checked}" in said and f"{server.address}/mirror/{file}" in said
        assert main(["weights", name, "--from", server.address]) == 0 and len(server.asked) == 1
        assert "is there already" in capsys.readouterr().out
        server.asked.clear()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["yolov7x.pt", "yolox_s.pth"]
    assert main(["weights", "yolov7x", "--from", server.address, "--out", "new/folder"]) == 0
    assert (tmp_path / "new" / "folder" / "yolov7x.pt").exists()


def test_another_file_than_the_published_one(server, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["weights", "yolox-nano", "--from", server.address]) == 2
    said = capsys.readouterr().err
    assert SUM in said and published_weights("yolox-nano").sha256 in said and not list(tmp_path.iterdir())
    (tmp_path / "yolox_nano.pth").write_bytes(b"mine")
    assert main(["weights", "yolox-nano", "--from", server.address]) == 2
    assert "is not the published yolox_nano.pth" in capsys.readouterr().err
    assert (tmp_path / "yolox_nano.pth").read_bytes() == b"mine"


@pytest.mark.parametrize("sends_parts", [True, False])
def test_a_download_that_stopped_is_continued(server, tmp_path, sends_parts):
    target, server.sends_parts, server.until = tmp_path / "some.pt", sends_parts, 700_000
    with pytest.raises(
        UserError, match=r"stopped after 700.0 kB of 1.3 MB[^\n]*\n  fix: the same command continues it"
    ):
        download(f"{server.address}/some.pt", target, SUM)
    assert not target.exists() and (tmp_path / "some.pt.part").stat().st_size == 700_000
    server.until = None
    assert download(f"{server.address}/some.pt", target, SUM) == SUM
    assert target.read_bytes() == CONTENT and server.asked == [None, "bytes=700000-"]


def test_one_that_was_whole_but_for_its_name(server, tmp_path):
    (tmp_path / "some.pt.part").write_bytes(CONTENT)
    assert download(f"{server.address}/some.pt", tmp_path / "some.pt", SUM) == SUM


def test_where_there_is_no_network(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["weights", "yolox-nano", "--from", "http://127.0.0.1:9"]) == 2
    said = capsys.readouterr().err
    assert "cannot be reached" in said and "yolox_nano.pth from https://github.com/Megvii" in said
    assert "put it here as yolox_nano.pth" in said and not list(tmp_path.iterdir())
    assert main(["weights", "yolox-nanno"]) == 2
    assert "did you mean 'yolox-nano'" in capsys.readouterr().err


def test_a_place_that_cannot_be_written(server, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["weights", "yolov7", "--from", server.address, "--out", str(tmp_path / "file" / "yolov7.pt")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_a_link_that_somebody_has_put_there_is_not_written_through(server, tmp_path):
    (tmp_path / "theirs").write_bytes(b"theirs")
    (tmp_path / "a.pt.part").symlink_to(tmp_path / "theirs")
    with pytest.raises(UserError, match="cannot be written"):
        download(f"{server.address}/a.pt", tmp_path / "a.pt")
    assert (tmp_path / "theirs").read_bytes() == b"theirs"


def test_a_length_of_thousands_of_digits(server, tmp_path):
    server.length = "9" * 5000
    assert download(f"{server.address}/a.pt", tmp_path / "a.pt") == SUM
