"""Random bytes and random damage: a file is read or refused as a user error, and nothing else ever happens."""

import io
import zipfile
from contextlib import suppress

import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.checkpoint.files import save_published, write_zip
from yolofast.checkpoint.containers import MAGIC
from yolofast.checkpoint.pickle_graph import file_budget, read_graph
from yolofast.checkpoint.read import read_weights
from yolofast.errors import UserError

UNCHECKED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]  # busy machines are slow, not wrong
fuzz = settings(deadline=None, max_examples=80, suppress_health_check=UNCHECKED)
places = st.floats(0, 1, exclude_max=True)
edits = st.lists(
    st.tuples(places, st.sampled_from(["flip", "delete", "insert"]), st.binary(min_size=1, max_size=8)),
    min_size=1,
    max_size=6,
)


def damage(content: bytes, changes) -> bytes:
    edited = bytearray(content)
    for where, how, piece in changes:
        at = int(where * len(edited))
        if how == "flip":
            edited[at : at + len(piece)] = piece
        elif how == "delete":
            del edited[at : at + len(piece)]
        else:
            edited[at:at] = piece
    return bytes(edited)


def read_or_refuse(path, content: bytes) -> None:
    path.write_bytes(content)
    with suppress(UserError):
        read_weights(path)


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    """One small valid file of each container."""
    folder = tmp_path_factory.mktemp("valid")
    save_published(folder / "zip.pt")
    save_published(folder / "legacy.pt", legacy=True)
    torch.save({"start_epoch": 1, "model": {"a.b": torch.ones(2, 3), "c": torch.ones(4)[1:]}}, folder / "state.pt")
    safetensors.torch.save_file({"a": torch.ones(3)}, folder / "tensors", {"yolofast": '{"nc": 3, "names": ["a"]}'})
    return {file.stem: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.slow
@fuzz
@given(content=st.binary(max_size=400))
@pytest.mark.parametrize("head", [b"", b"PK\x03\x04", MAGIC, MAGIC + b"\x80\x02M\xe9\x03.", b"\x10" + bytes(7) + b"{"])
def test_random_bytes(tmp_path, head, content):
    read_or_refuse(tmp_path / "x.pt", head + content)


@fuzz
@given(content=st.binary(max_size=400))
def test_random_pickles(content):
    with suppress(UserError):
        read_graph(io.BytesIO(content), file_budget())


OPCODES = b"(.012NIKMJ\x88\x89\x8a\x80\x81\x85\x86\x87\x8c\x8f\x90\x91\x92\x93\x94\x95])}delstuacbRQqhrjXGBC\x8d\x8e"


@pytest.mark.slow
@fuzz
@given(content=st.lists(st.sampled_from(list(OPCODES)) | st.integers(0, 3), max_size=200))
def test_random_opcodes(content):
    """Mostly meaningful opcodes get deeper into the machine than random bytes do."""
    with suppress(UserError):
        read_graph(io.BytesIO(bytes(content)), file_budget())


@pytest.mark.slow
@fuzz
@given(changes=edits)
@pytest.mark.parametrize("kind", ["zip", "legacy", "state", "tensors"])
def test_damaged_files(tmp_path, valid, kind, changes):
    read_or_refuse(tmp_path / "x.pt", damage(valid[kind], changes))


@pytest.mark.slow
@fuzz
@given(changes=edits)
@pytest.mark.parametrize("kind", ["zip", "state"])
def test_damaged_pickle_in_a_sound_zip(tmp_path, valid, kind, changes):
    """The checksum would hide the machine from plain damage of the file."""
    with zipfile.ZipFile(io.BytesIO(valid[kind])) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    pickle_name = next(name for name in entries if name.endswith("data.pkl"))
    entries[pickle_name] = damage(entries[pickle_name], changes)
    read_or_refuse(tmp_path / "x.pt", write_zip(tmp_path / "y.pt", entries).read_bytes())


@pytest.mark.slow
@fuzz
@given(where=places, piece=st.binary(min_size=1, max_size=8))
def test_damaged_safetensors_header(tmp_path, valid, where, piece):
    content = bytearray(valid["tensors"])
    header = 8 + int.from_bytes(content[:8], "little")
    at = 8 + int(where * (header - 8))
    content[at : at + len(piece)] = piece
    read_or_refuse(tmp_path / "x.pt", bytes(content))
