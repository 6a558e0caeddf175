"""The Dockerfiles, which cannot be built where tests run: what they copy exists, what they start is a command, and the
rules that hadolint would check.
"""

import json
import re
import tomllib
from pathlib import Path

import pytest

from yolofast.config.commands import COMMANDS
from yolofast.config.flags import from_args, parse_flags

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "deploy").glob("Dockerfile.*"))
KNOWN = {"FROM", "ENV", "RUN", "WORKDIR", "COPY", "USER", "EXPOSE", "HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT", "CMD"}


def instructions(path):
    """Word and rest, in order; lines that go on are joined."""
    text = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE))
    return [tuple(line.split(" ", 1)) for line in text.splitlines() if line.strip()]


def words(found, name):
    (rest,) = [rest for word, rest in found if word == name]
    return json.loads(rest)


@pytest.fixture(params=FILES, ids=lambda path: path.suffix[1:])
def found(request):
    return instructions(request.param)


def test_there_is_one_for_each():
    assert [path.suffix for path in FILES] == [".cpu", ".gpu"]


def test_what_is_copied_exists_and_is_not_ignored(found):
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for rest in (rest for word, rest in found if word == "COPY"):
        for name in rest.split()[:-1]:
            assert (ROOT / name).exists() and name in allowed, name


def test_it_starts_the_command_with_flags_that_it_has(found):
    line = words(found, "ENTRYPOINT") + words(found, "CMD")
    assert line[:2] == ["yolofast", "serve"]
    serve = next(command for command in COMMANDS if command.name == "serve").settings
    config = from_args(serve, parse_flags(serve, serve(), line[2:], "yolofast serve"))
    assert (config.host, config.weights) == ("0.0.0.0", ("/model",))
    assert ("EXPOSE", str(config.port)) in found and f":{config.port}/readyz" in dict(found)["HEALTHCHECK"]


def test_extras_are_there_and_versions_pinned(found):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pins = (ROOT / "constraints.txt").read_text()
    runs = " ".join(rest for word, rest in found if word == "RUN")
    for name in re.search(r"'\.\[(.+?)\]'", runs)[1].split(","):
        assert name in extras
    for name in re.findall(r"grep '\^(\w+)=='", runs):
        assert re.search(rf"^{name}==", pins, re.MULTILINE), name
    for one in re.findall(r"pip install (.+?)(?: &&|$)", runs):
        assert "-c /tmp/constraints.txt" in one or "$torch" in one or "==" in one, one


def test_what_hadolint_would_say(found):
    """DL3006, DL3007 tags; DL3002 user; DL3008, DL3009, DL3015 apt; DL3042 pip's cache; DL3025 forms; DL3000."""
    names = [word for word, _ in found]
    assert set(names) <= KNOWN and names[0] == "FROM"
    for word, rest in found:
        if word == "FROM":
            assert re.fullmatch(r"[\w./-]+:\d[\w.-]+", rest), "a tag, and not latest"
        elif word == "WORKDIR":
            assert rest.startswith("/")
        elif word in ("CMD", "ENTRYPOINT"):
            assert isinstance(json.loads(rest), list)
        elif word == "RUN":
            assert "sudo" not in rest and " cd " not in rest and "curl" not in rest
            if "apt-get install" in rest:
                assert "--no-install-recommends" in rest and "--yes" in rest and "rm -rf /var/lib/apt/lists/*" in rest
    assert any(word == "ENV" and "PIP_NO_CACHE_DIR=1" in rest for word, rest in found)
    users = [place for place, word in enumerate(names) if word == "USER"]
    assert users and found[users[-1]][1] not in ("root", "0") and users[-1] < names.index("ENTRYPOINT")
    assert "RUN" not in names[users[-1] :]
