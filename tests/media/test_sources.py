"""What can be looked at, and what is said when it cannot."""

import base64
import contextlib
import io
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import ClassVar

import cv2
import numpy as np
import pytest

from tests.detect.seeing import picture, save_video
from yolofast.errors import UserError
from yolofast.media import addresses
from yolofast.media import frames as media_frames
from yolofast.media.pictures import UniqueNames
from yolofast.media.sources import frame_batches, is_live
from yolofast.media.streams import LiveStreams


def frames(source, batch=4, every=1):
    faults = []
    found = [frame for some in frame_batches(str(source), batch, every=every, on_fault=faults.append) for frame in some]
    return found, faults


@pytest.fixture
def folder(tmp_path):
    for name in ("b.png", "a.png"):
        cv2.imwrite(str(tmp_path / name), picture(ord(name[0])))
    (tmp_path / "notes.md").write_text("no picture")
    return tmp_path


def piped(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(content))))


def test_a_folder_a_glob_and_a_file(folder):
    found, faults = frames(folder)
    assert [frame.name for frame in found] == [str(folder / "a.png"), str(folder / "b.png")] and not faults
    assert np.array_equal(found[0].image, picture(ord("a")))
    assert [frame.name for frame in frames(folder / "b*.png")[0]] == [str(folder / "b.png")]
    assert [frame.name for frame in frames(folder / "b.png")[0]] == [str(folder / "b.png")]


def test_a_damaged_file_is_named_and_the_rest_continues(folder):
    (folder / "aa.jpg").write_bytes(b"\xff\xd8\xff nothing")
    (folder / "ab.mp4").write_bytes(b"no video")
    found, faults = frames(folder)
    assert [frame.name[-5:] for frame in found] == ["a.png", "b.png"]
    assert [fault.where[-6:] for fault in faults] == ["aa.jpg", "ab.mp4"]


def test_a_video(tmp_path):
    video = save_video(tmp_path / "video.mp4", frames=10, fps=12)
    batches = list(frame_batches(str(video), 4, on_fault=pytest.fail))
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert [frame.number for batch in batches for frame in batch] == list(range(10))
    assert batches[0][0].video.fps == pytest.approx(12) and str(batches[0][0]) == f"{video} 1/10"
    thin, _ = frames(video, every=3)
    assert len(thin) == 4 and thin[0].video.fps == pytest.approx(4) and thin[0].video.length == 10
    assert [frame.number for frame in thin] == [0, 3, 6, 9] and str(thin[1]) == f"{video} 4/10"
    assert np.array_equal(thin[1].image, batches[0][3].image)


def test_names_on_standard_input(folder, monkeypatch):
    piped(monkeypatch, f"{folder / 'b.png'}\n\n{folder / 'missing.png'}\n{folder / 'a.png'}".encode())
    found, faults = frames("-")
    assert [frame.name[-5:] for frame in found] == ["b.png", "a.png"]
    assert len(faults) == 1 and "missing.png" in str(faults[0])


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".bmp", ".webp"])
def test_a_picture_on_standard_input(suffix, monkeypatch):
    piped(monkeypatch, cv2.imencode(suffix, picture(3, 90, 70))[1].tobytes())
    (found,), faults = frames("-")
    assert found.image.shape == (90, 70, 3) and found.name == "stdin" and not faults


def test_a_list_of_files(folder):
    (folder / "list.txt").write_text(f"# mine\n{folder / 'b.png'}\n")
    assert [frame.name[-5:] for frame in frames(folder / "list.txt")[0]] == ["b.png"]


@pytest.mark.parametrize(
    ("source", "message"), [("", "--source is empty"), ("none.jpg", "no such file"), ("*.nothing", "holds no image")]
)
def test_sources_that_cannot_be_meant(source, message):
    with pytest.raises(UserError, match=message):
        frame_batches(source, 4, on_fault=pytest.fail)


def test_which_sources_are_live():
    assert is_live("0") and is_live("rtsp://10.0.0.1/stream") and is_live("http://camera/video")
    assert not is_live("http://server/a.JPG?x=1") and is_live("rtsp://camera/a.jpg")
    assert not is_live("http://server/video.mp4?x=1") and not is_live("video.mp4") and not is_live("folder")


def test_streams_end_one_by_one_each_with_one_message(tmp_path):
    """Files stand in for streams: whatever OpenCV opens."""
    names = [str(save_video(tmp_path / f"{n}.mp4", frames=n)) for n in (3, 6)] + [str(tmp_path / "none.mp4")]
    faults = []
    seen = [frame for some in LiveStreams(names, faults.append).batches() for frame in some]
    last = {name: [frame.number for frame in seen if frame.name == name][-1] for name in names[:2]}
    assert last == {names[0]: 2, names[1]: 5}  # pictures may be left out, but never the last
    assert all(frame.video.live for frame in seen)
    said = sorted(str(fault) for fault in faults)
    assert (
        len(said) == 3 and "ended after 3" in said[0] and "ended after 6" in said[1] and "cannot be opened" in said[2]
    )


@pytest.mark.slow
def test_a_stream_over_http(tmp_path):
    class Camera(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=frame")
            self.end_headers()
            for number in range(12):
                jpeg = cv2.imencode(".jpg", picture(number))[1].tobytes()
                head = f"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n"
                self.wfile.write(head.encode() + jpeg + b"\r\n")

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Camera)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "streams.txt").write_text(f"http://me:secret@127.0.0.1:{server.server_port}/camera\n")
    found, faults = frames(tmp_path / "streams.txt")
    server.shutdown()
    server.server_close()
    assert not any("secret" in str(one) for one in (*found, *faults))
    assert found and found[-1].image.shape == (48, 64, 3) and len(faults) == 1 and "has ended" in str(faults[0])


class Files(BaseHTTPRequestHandler):
    """A server that sends files as wholes only."""

    content: ClassVar[dict[str, tuple[str, bytes]]] = {}

    def do_GET(self):
        if self.headers["Authorization"] != f"Basic {base64.b64encode(b'me:se cret').decode()}":
            self.send_error(401)
        elif self.path not in self.content:
            self.send_error(404)
        else:
            kind, content = self.content[self.path]
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # who asks may have seen enough
                self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Files)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_picture_over_http_is_a_picture(server):
    Files.content = {"/a.png?size=1": ("image/png", cv2.imencode(".png", picture(3))[1].tobytes())}
    (found,), faults = frames(f"http://me:se%20cret@{server}/a.png?size=1")
    assert not faults and found.video is None and found.name == f"http://{server}/a.png?size=1"
    assert np.array_equal(found.image, picture(3))


def test_addresses_may_be_typed_as_they_read(server):
    Files.content = {"/my%20stra%C3%9Fe%2B1.png": ("image/png", cv2.imencode(".png", picture(3))[1].tobytes())}
    (found,), faults = frames(f"http://me:se%20cret@{server}/my straße%2B1.png")
    assert not faults and np.array_equal(found.image, picture(3))


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("http://me:se%20cret@{server}/none.png", "the server answers 404"),
        ("http://me:se%20cret@{server}/none.mp4", "the server answers 404"),
        ("http://{server}/video.mp4", "the server answers 401"),
        ("http://me:se%20cret@{server}/video.mp4", "sends only whole files (no Range)\n  fix: download it first"),
        ("http://me:se%20cret@{server}/page", "is a page or text (text/html)"),
        ("http://127.0.0.1:1/video.mp4", "the server cannot be reached"),
        ("http://127.0.0.1:1/a.jpg", "the server cannot be reached"),
        ("rtsp://me:se%20cret@127.0.0.1:1/live", "the stream cannot be opened\n  fix: check the address"),
    ],
)
def test_why_an_address_cannot_be_read(address, message, server):
    Files.content = {"/video.mp4": ("video/mp4", b"no video" * 9), "/page": ("text/html", b"<html>")}
    found, (fault,) = frames(address.format(server=server))
    assert not found and message in str(fault) and "cret" not in str(fault) and "MP4" not in str(fault)


def test_files_are_named_after_addresses():
    names = UniqueNames()
    for address, name in (
        ("http://10.0.0.1:80/a/street.jpg?x=1.png", "10.0.0.1_80_a_street"),
        ("rtsp://10.0.0.1", "10.0.0.1"),
        ("rtsp://10.0.0.1/live", "10.0.0.1_live"),
    ):
        assert names.of(address) == name


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary=f\r\n\r\n"]
)
def test_a_server_that_says_nothing_is_not_waited_for(answer, monkeypatch):
    monkeypatch.setattr(media_frames, "PATIENCE", 0.2)
    monkeypatch.setattr(addresses, "PATIENCE", 0.2)
    open_ = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    open_.append(server.accept()[0])
                    open_[-1].sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        began = time.monotonic()
        found, (fault,) = frames(f"http://127.0.0.1:{server.getsockname()[1]}/camera")
        assert time.monotonic() - began < 10 and not found
    for one in open_:
        one.close()
    assert ("cannot be reached: timed out" if not answer else "cannot be read as a video") in str(fault)


def test_every_second_image_of_each_folder(tmp_path):
    for folder, count in (("a", 5), ("b", 2)):
        (tmp_path / folder).mkdir()
        for number in range(count):
            cv2.imwrite(str(tmp_path / folder / f"{number}.png"), picture(number))
    found, _ = frames(tmp_path / "*" / "*.png", every=2)
    assert [frame.name[-7:] for frame in found] == ["a/0.png", "a/2.png", "a/4.png", "b/0.png"]
    assert [frame.number for frame in found] == [0, 2, 4, 0]
