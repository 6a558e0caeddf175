"""`yolofast watch` as it is typed."""

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from urllib.parse import urlsplit

import pytest

from tests.patience import PATIENCE
from tests.watch.made_runs import make_run
from yolofast.cli import main
from yolofast.commands.watch import address_of, make_server


@pytest.mark.slow
def test_it_says_where_it_is_and_ends_with_ctrl_c(tmp_path):
    make_run(tmp_path / "exp")
    command = [sys.executable, "-m", "yolofast", "watch", str(tmp_path), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        address = re.fullmatch(r"1 run below .*: (http://127\.0\.0\.1:\d+/)\n", line)[1]
        assert b"yolofast watch" in urllib.request.urlopen(address, timeout=PATIENCE).read()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, errors) == (0, "")


def test_the_address_is_one_that_others_can_type(tmp_path):
    with make_server(tmp_path, "0.0.0.0", 0, "a-token-for-the-tests") as server:
        others = urlsplit(address_of(server, socket.gethostname()))
        assert (others.hostname, others.port) == (socket.gethostname().lower(), server.server_port)
        assert urlsplit(address_of(server)).hostname == "localhost"
    with make_server(tmp_path, "127.0.0.1", 0, None) as server:
        assert address_of(server, "gpu-box") == address_of(server) == f"http://127.0.0.1:{server.server_port}/"


def test_mistakes_are_named(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["watch", str(tmp_path / "file")]) == 2
    assert "is not a folder" in capsys.readouterr().err
    assert main(["watch", str(tmp_path / "nowhere")]) == 2
    assert "there is no such folder" in capsys.readouterr().err
    assert main(["watch", str(tmp_path), "--token", "x"]) == 2
    assert "too short" in capsys.readouterr().err
    assert main(["watch", str(tmp_path), "--host", "no such host"]) == 2
    assert "no address" in capsys.readouterr().err
