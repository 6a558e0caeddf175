"""What messages say can be typed."""

import os

from yolofast.words import own_command


def made(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_command_on_the_path_is_its_name(tmp_path, monkeypatch):
    own = made(tmp_path / "bin" / "yolofast")
    monkeypatch.setenv("PATH", str(own.parent))
    assert own_command(str(own.parent / "python")) == "yolofast"


def test_one_in_an_environment_is_named_by_its_path(tmp_path, monkeypatch):
    own, other = made(tmp_path / "here" / ".venv" / "bin" / "yolofast"), made(tmp_path / "other" / "yolofast")
    for path in (tmp_path, other.parent):  # none on the path, or that of another environment
        monkeypatch.setenv("PATH", str(path))
        monkeypatch.chdir(tmp_path / "here")
        assert own_command(str(own.parent / "python")) == os.path.join(".venv", "bin", "yolofast")
        monkeypatch.chdir(other.parent)
        assert own_command(str(own.parent / "python")) == str(own)


def test_a_path_with_a_space_is_quoted(tmp_path, monkeypatch):
    own = made(tmp_path / "my files" / "yolofast")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert own_command(str(own.parent / "python")) == f"'{own}'"


def test_without_a_command_there_is_the_module(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert own_command(str(tmp_path / "python3")) == f"{tmp_path}/python3 -m yolofast"
    made(tmp_path / "scripts" / "yolofast")  # where pip puts the commands of one user
    monkeypatch.setenv("PATH", str(tmp_path / "scripts"))
    assert own_command(str(tmp_path / "python3")) == "yolofast"
