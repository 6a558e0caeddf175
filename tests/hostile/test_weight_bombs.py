"""Small weight files that ask for any amount of time or memory: copies, repetition, representation, collisions."""

import json
import struct

import pytest
import torch

from tests.checkpoint.files import integer, tensor, text, write_pickle
from tests.hostile.cost import cheap, refused
from yolofast.checkpoint import pickle_graph
from yolofast.checkpoint.read import contents_of, read_weights

MODEL = b"cmodels.yolo\nModel\n)\x81}"
REPEATED = "repeat one another without end: reading it would take more than"


def small(number):
    return b"J" + struct.pack("<i", number)


def group_of(opener, items):
    return opener + b"(" + b"".join(items) + {b"}": b"u", b"]": b"e"}[opener]


def copied_sets():
    numbers = group_of(b"]", map(small, range(20_000)))
    return numbers + b"\x85q\x000cbuiltins\nset\nq\x010(" + b"h\x01h\x00R" * 1000 + b"t."


def many_sets():
    return b"\x80\x04(" + b"\x8f" * 300_000 + b"t."


def many_names():
    return b"\x80\x04(" + b"ctorch\nSize\n" * 200_000 + b"t."


def modules_of_empty_tensors():
    names = (text(f"p{n}") + tensor(0, (0,)) for n in range(300))
    return modules_in_modules(MODEL + text("_parameters") + group_of(b"}", names) + b"sb")


def modules_of_nothing():
    """Entries that are no tensors and no modules cost time too."""
    nothing = (text(f"p{n}") + b"N" for n in range(20_000))
    return modules_in_modules(MODEL + text("_modules") + group_of(b"}", nothing) + b"sb")


def modules_in_modules(pickled):
    pickled += b"q\x00"
    for depth in range(4):
        children = (text(f"m{n}") + b"h%c" % depth for n in range(17))
        pickled += b"0" + MODEL + text("_modules") + group_of(b"}", children) + b"sbq%c" % (depth + 1)
    return pickled + b"."


def colliding(key=integer, bits=17):
    """A run of places that a search walks through to its end, and numbers that begin their search at its start."""
    place, run = 0, []
    for _ in range(int(0.35 * 2**bits)):
        run.append(place)
        place = (5 * place + 1) % 2**bits
    return group_of(b"}", (key(number) + b"N" for number in (*run, *((n + 1) << 40 for n in range(20_000))))) + b"."


def colliding_floats():
    return colliding(lambda number: b"G" + struct.pack(">d", number))


def colliding_tuples():
    return colliding(lambda number: integer(number) + b"\x85")


@pytest.fixture
def a_tenth(monkeypatch):
    """Of the steps: what is refused after them is refused after all of them, and tests are to be fast."""
    monkeypatch.setattr(pickle_graph, "MAX_STEPS", pickle_graph.MAX_STEPS // 10)


BOMBS = [
    *((bomb, read_weights) for bomb in (modules_of_empty_tensors, modules_of_nothing)),
    *((bomb, read) for bomb in (copied_sets, many_sets, many_names) for read in (read_weights, contents_of)),
    *((bomb, read) for bomb in (colliding, colliding_floats, colliding_tuples) for read in (read_weights, contents_of)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("bomb", "read"), BOMBS)
@pytest.mark.usefixtures("a_tenth")
def test_work_without_end(tmp_path, bomb, read):
    path = write_pickle(tmp_path / "x.pt", bomb(), {"0": b""})
    with refused(REPEATED):
        read(path)


@pytest.mark.slow
def test_numbers_of_values_that_collide(tmp_path):
    """Stored and fetched under numbers that a dictionary of numbers would search for long."""
    indices = [(n + 1) << 17 for n in range(2**15 - 1)]
    pickled = b"(N" + b"".join(b"r" + struct.pack("<I", index) for index in indices)
    path = write_pickle(tmp_path / "x.pt", pickled + b"".join(b"j" + struct.pack("<I", n) for n in indices) + b"t.")
    with refused("no weights found"):
        read_weights(path)


@pytest.mark.parametrize("place", ["key", "version", "part"])
def test_values_that_are_long_when_written_out(tmp_path, place):
    pickled = b"ctorch\nSize\n)Rq\x00"
    for depth in range(8):
        pickled += b"0ctorch\nSize\n(" + b"h%c" % depth * 10 + b"tRq%c" % (depth + 1)
    if place == "version":
        pickled += b"0}(" + text("format") + text("yolofast") + text("version") + b"h\x08"
        pickled += text("model") + group_of(b"}", [text("w") + tensor()]) + b"u."
    else:
        pickled += b"0}(h\x08" + (tensor() if place == "part" else b"K\x01") + b"N" + tensor() + text("a") + b"Nu."
    path = write_pickle(tmp_path / "x.pt", b"\x80\x02" + pickled, {"0": bytes(16)})
    if place == "part":
        with cheap():
            assert list(contents_of(path)) == ["torch.Size(…) (float32)", "None (float32)"]
        return
    with refused("no weights found|format version"):
        read_weights(path)


def test_equal_keys_that_are_long(tmp_path):
    """Two of the same letters are compared to the last one, each time."""
    long = text("x" * 4_000_000)
    pickled = long + b"q\x000" + long + b"q\x010}h\x00Ns" + b"h\x01Ns" * 20_000
    with refused("key is impossibly long"):
        read_weights(write_pickle(tmp_path / "x.pt", pickled + b"."))


def test_long_names_of_classes(tmp_path):
    pickled = b"cmodels.yolo\n" + b"x" * 4_000_000 + b"\nq\x000(" + b"h\x00)\x81" * 20_000 + b"t."
    with refused("impossibly long text"):
        read_weights(write_pickle(tmp_path / "x.pt", pickled))


def test_long_names_of_storages(tmp_path):
    pickled = tensor(key="x" * 1_000_000)
    with refused("name of a storage is impossibly long"):
        read_weights(write_pickle(tmp_path / "x.pt", pickled + b"."))


@pytest.mark.usefixtures("a_tenth")
def test_long_class_names(tmp_path):
    names = text("x" * 4_000_000) + b"q\x000" + group_of(b"]", [b"h\x00"] * 20_000)
    weights = text("model") + b"}" + text("w") + tensor() + b"s"
    pickled = names + b"q\x010}" + weights + b"s" + text("names") + b"h\x01s."
    with refused(REPEATED):
        read_weights(write_pickle(tmp_path / "x.pt", pickled, {"0": bytes(16)}))


@pytest.mark.slow
@pytest.mark.usefixtures("a_tenth")
def test_parts_that_share_all_they_hold(tmp_path):
    shared = group_of(b"]", [b")" if n % 2 else b"]" for n in range(20_000)])
    pickled = shared + b"q\x000" + group_of(b"}", (text(f"k{n}") + b"h\x00" for n in range(2000))) + b"."
    with refused(REPEATED):
        contents_of(write_pickle(tmp_path / "x.pt", pickled))


@pytest.mark.slow
def test_safetensors_of_many_empty_tensors(tmp_path):
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    header = json.dumps({f"t{n}": entry for n in range(80_000)}).encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with refused("damaged: its header has"):
        read_weights(path)


def test_zips_of_many_entries(tmp_path):
    path = write_pickle(tmp_path / "x.pt", b"N.", {str(n): b"" for n in range(100)})
    content = path.read_bytes()
    start, end = content.index(b"PK\x01\x02"), content.index(b"PK\x05\x06")
    directory = content[start:end] * 1000
    closing = content[end : end + 12] + struct.pack("<I", len(directory)) + content[end + 16 :]
    path.write_bytes(content[:start] + directory + closing)
    with refused("damaged: its list of entries has"):
        read_weights(path)


@pytest.mark.slow
def test_what_writers_write_is_read(tmp_path):
    """Numbers from 0 on as keys are what optimizers and lists of names have."""
    names = {n: f"class {n}" for n in range(22_000)}
    state = {n: {"momentum": torch.zeros(1)} for n in range(2000)}
    torch.save({"model": {"w": torch.zeros(4)}, "names": names, "optimizer": {"state": state}}, tmp_path / "x.pt")
    file = read_weights(tmp_path / "x.pt")
    assert file.names == tuple(names.values())
