"""Files made to harm: each must be refused as a user error, quickly, in little memory, and without running anything."""

import io
import os
import pickle
import time
import tracemalloc
import zipfile
from contextlib import contextmanager

import pytest
import torch

from tests.checkpoint.files import group, integer, save_published, state_dict, tensor, text, write_pickle, write_zip
from yolofast.checkpoint.pickle_graph import MAX_STEPS, file_budget, read_graph
from yolofast.checkpoint.read import read_weights
from yolofast.errors import UserError

MODULE = b"cmodels.yolo\nModel\n)\x81"


@contextmanager
def harmless(seconds: float = 5, mebibytes: int = 100, traced: bool = True):
    """Bounds what the block may take, in processor time because tests run beside others.

    Tracing memory makes allocation several times slower: the large cases bound time and memory in separate runs.
    """
    if traced:
        tracemalloc.start()
    started = time.process_time()
    try:
        yield
        assert time.process_time() - started < seconds
        assert not traced or tracemalloc.get_traced_memory()[1] < mebibytes << 20
    finally:
        tracemalloc.stop()


def refuse(path, match, **bounds):
    with harmless(**bounds), pytest.raises(UserError, match=match) as caught:
        read_weights(path)
    assert caught.value.where == str(path)
    assert caught.value.fix
    return str(caught.value)


class Runs:
    """Pickles as a call of `function`, the way an attacker writes it."""

    def __init__(self, function, *args):
        self.function, self.args = function, args

    def __reduce__(self):
        return self.function, self.args


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize(
    ("function", "name"),
    [
        (os.system, "(posix|nt).system"),
        (eval, "(builtins|__builtin__).eval"),
        (getattr, "getattr"),
        (bytearray, "bytearray"),
    ],
)
def test_code_is_named_and_not_run(tmp_path, function, name, legacy):
    canary = tmp_path / "canary"
    argument = {os.system: f"touch {canary}", eval: f"open({str(canary)!r}, 'w')", bytearray: 10**12}.get(function, "x")
    torch.save(
        {"model": {"w": torch.ones(2)}, "x": Runs(function, argument)},
        tmp_path / "x.pt",
        _use_new_zipfile_serialization=not legacy,
    )
    refuse(tmp_path / "x.pt", rf"refused: the file asks for \S*{name}, which is code and not weights")
    assert not canary.exists()


@pytest.mark.parametrize(
    "pickle_bytes",
    [
        b"cos\nsystem\n(X\x04\x00\x00\x00truetR.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",
        b"ctorch\nos.system\n.",
        b"ctorch.nn.modules\n\x1b[31m\n)R.",
        b"cmodels.yolo\nModel\n)R.",  # a class is never called
        b"ctorch\nSize\n)\x81.",  # a function is never a class
        b"ctorch\nFloatStorage\n)R.",
        b"ccollections\nOrderedDict\n)R)R.",  # the result of a call is no function
        text("os.system") + b")R.",
        text("x") + b")\x81.",
        b"c_codecs\nencode\n" + group(text("x"), text("rot13")) + b"R.",
    ],
)
def test_only_listed_names_are_called(tmp_path, pickle_bytes):
    message = refuse(write_pickle(tmp_path / "x.pt", pickle_bytes), "refused")
    assert message.replace("\n", "").isprintable()


@pytest.mark.parametrize("opcode", [b"i", b"\x82\x01", b"\x83\x01\x01", b"P", b"o", b"\x97", b"S'x'\n"])
def test_other_opcodes_are_named(tmp_path, opcode):
    path = write_pickle(tmp_path / "x.pt", b"\x80\x02" + opcode + (b"os\nsystem\n" if opcode in (b"i", b"P") else b"."))
    refuse(path, "opcode [A-Z0-9_]+, which no torch file needs")


@pytest.mark.parametrize(
    "pickle_bytes",
    [
        b"",
        b"\x80\x02",
        b".",
        b"R.",
        b"u.",
        b"t.",
        b"N0.",
        b"1.",
        b"a.",
        b"b.",
        b"NNb.",
        b"NNs.",
        b"NNa.",
        b"N(NNu.",
        b"}(Nu.",
        b"]]\x90.",
        b"](N\x90.",
        b"h\x07.",
        b"q\x00.",
        b"p-1\n.",
        b"Np-1\n.",
        b"NN\x93.",
        b"}]Ns.",  # a list as a key
        b"}" + integer(1 << 100) + b"Ns.",
        integer(1 << 300) + b".",
        b"c__builtin__\nset\n" + group(b"]", b"]") + b"R.",
        b"ccollections\nOrderedDict\n" + group(b"]") + b"R.",
        b"X\xff\xff\xff\xffabc",
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc",
        b"\x8b\xff\xff\xff\x7f1",
        b"\x8c\x02\xff\xfe.",
        b"I" + b"9" * 10_000 + b"\n.",
        b"\xee\xee",
    ],
)
def test_broken_pickles(tmp_path, pickle_bytes):
    refuse(write_pickle(tmp_path / "x.pt", pickle_bytes), "damaged|opcode")


def test_huge_memo_index_costs_nothing(tmp_path):
    pickled = state_dict(tensor()).replace(b"}", b"}r\xff\xff\xff\xff", 1)
    with harmless():
        file = read_weights(write_pickle(tmp_path / "x.pt", pickled, {"0": bytes(16)}))
    assert list(file.tensors) == ["weight"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "opener", [b"(", b"](", b"}N", b"cmodels.yolo\nModel\n("], ids=["mark", "list", "dict", "object"]
)
def test_deep_nesting(tmp_path, opener):
    closer = {b"(": b"t", b"](": b"e", b"}N": b"s"}.get(opener, b"t\x81")
    inner = {b"}N": b"N"}.get(opener, b"")
    pickled = b"\x80\x02" + opener * 10_000 + inner + closer * 10_000 + b"."  # Python gives up at 1,000
    refuse(write_pickle(tmp_path / "x.pt", pickled), "no weights", traced=False)
    weights = text("model") + b"}" + text("w") + tensor() + b"ss"
    hidden = b"\x80\x02}" + weights + text("graph") + pickled[2:-1] + b"s."
    with harmless(seconds=30):
        assert read_weights(write_pickle(tmp_path / "y.pt", hidden, {"0": bytes(16)})).graph is None


@pytest.mark.slow
def test_deep_tuple_as_key(tmp_path):
    pickled = b"}" + b"(" * 100_000 + b"t" * 100_000 + b"Ns."
    refuse(write_pickle(tmp_path / "x.pt", pickled), "dictionary key")


def test_shared_references_do_not_unfold(tmp_path):
    """Sixty doublings: 2^60 values if anything walked or copied them all."""
    doubled = b"]" + b"q\x010(h\x01h\x01l" * 60
    weights = text("model") + b"}" + text("w") + tensor() + b"ss"
    extra = text("graph") + b"}" + text("a") + doubled + b"ss" + text("names") + doubled + b"s"
    with harmless():
        file = read_weights(write_pickle(tmp_path / "x.pt", b"}" + weights + extra + b".", {"0": bytes(16)}))
    assert file.graph is None
    assert file.names is None


@pytest.mark.slow
def test_modules_that_share_do_not_unfold(tmp_path):
    pickled = MODULE + b"q\x01"
    for _ in range(60):
        both = b"(" + text("a") + b"h\x01" + text("b") + b"h\x01u"
        pickled += MODULE + b"}" + text("_modules") + b"}" + both + b"sb" + b"q\x01"
    refuse(write_pickle(tmp_path / "x.pt", pickled + b"."), "without end")


def test_module_that_contains_itself(tmp_path):
    pickled = MODULE + b"q\x01}" + text("_modules") + b"}" + text("a") + b"h\x01ssb."
    refuse(write_pickle(tmp_path / "x.pt", pickled), "without end")


@pytest.mark.parametrize("container", [b"]q\x01h\x01a", b"}q\x01" + text("model") + b"h\x01s"])
def test_container_that_contains_itself(tmp_path, container):
    refuse(write_pickle(tmp_path / "x.pt", container + b"."), "no weights")


@pytest.mark.slow
def test_too_many_instructions():
    with harmless(traced=False), pytest.raises(UserError, match="steps"):
        read_graph(io.BytesIO(b"N0" * (MAX_STEPS // 2 + 1)), file_budget())


def test_too_large_a_pickle(tmp_path, monkeypatch):
    monkeypatch.setattr("yolofast.checkpoint.containers.MAX_BYTES", 1 << 20)
    refuse(write_pickle(tmp_path / "x.pt", bytes(2 << 20)), "larger than 1 MiB", mebibytes=1)


@pytest.mark.parametrize(
    "described",
    [
        tensor(numel=10**12, size=(10**12,)),
        tensor(numel=10**30, size=(10**30,)),
        tensor(numel=5),
        tensor(numel=-1),
        tensor(size=(10**9,), stride=(0,)),
        tensor(size=(2, 3), stride=(0, 1)),
        tensor(size=(5,)),
        tensor(size=(2,), stride=(4,)),
        tensor(size=(-1,)),
        tensor(stride=(-1,)),
        tensor(offset=1),
        tensor(offset=-1),
        tensor(size=(0,), offset=5),
        tensor(size=(0, 1 << 47, 1 << 47), stride=(1, 1, 1)),
        tensor(size=(4, 1)),
        tensor(size=(1,) * 70, stride=(1,) * 70),
        tensor(key="1"),
        tensor(key="../data.pkl"),
        tensor(storage="float32"),
        tensor().replace(text("storage"), text("STORAGE")),
        tensor().replace(b"Q", b""),
        b"ctorch._utils\n_rebuild_tensor_v2\n)R",
        b"ctorch._utils\n_rebuild_parameter\n)R",
        b"ctorch._utils\n_rebuild_parameter\n" + group(b"N") + b"R",
        b"ctorch._utils\n_rebuild_parameter\nq\x00" + group(b"h\x00" + group(tensor()) + b"R") + b"R",
    ],
)
def test_tensors_that_claim_too_much(tmp_path, described):
    refuse(write_pickle(tmp_path / "x.pt", state_dict(described), {"0": bytes(16)}), "damaged")


def test_one_storage_under_many_names(tmp_path):
    names = b"".join(text(f"w{index}") + tensor(1 << 18, (1 << 18,)) for index in range(100))
    pickled = b"}(" + names + b"u."
    refuse(write_pickle(tmp_path / "x.pt", pickled, {"0": bytes(1 << 20)}), "many times", mebibytes=10)


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/etc/passwd", "C:/evil", "a\\..\\evil"])
def test_zip_slip(tmp_path, name):
    valid = {"archive/data.pkl": state_dict(tensor()), "archive/data/0": bytes(16)}
    refuse(write_zip(tmp_path / "x.pt", {**valid, name: b"x"}), "outside the archive")
    assert not (tmp_path.parent / "evil").exists()


@pytest.mark.slow
def test_compressed_bomb(tmp_path):
    entries = {"archive/data.pkl": state_dict(tensor()), "archive/data/0": bytes(200 << 20)}
    write_zip(tmp_path / "x.pt", entries, zipfile.ZIP_DEFLATED)
    assert (tmp_path / "x.pt").stat().st_size < 1 << 20
    refuse(tmp_path / "x.pt", "compressed", mebibytes=10)


def test_odd_archives(tmp_path):
    valid = {"archive/data.pkl": state_dict(tensor()), "archive/data/0": bytes(16)}
    refuse(write_zip(tmp_path / "a.pt", {"x.txt": b"x"}), "no data.pkl")
    refuse(write_zip(tmp_path / "b.pt", {**valid, "other/data.pkl": b"."}), "more than one")
    refuse(write_zip(tmp_path / "c.pt", {**valid, "archive/byteorder": b"big"}), "big-endian")
    with zipfile.ZipFile(tmp_path / "d.pt", "w") as archive:
        archive.writestr("archive/data.pkl", b"N.")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("archive/data.pkl", b"N.")
    refuse(tmp_path / "d.pt", "twice")


def test_entries_that_overlap(tmp_path):
    """Every directory record points at the same bytes: a bomb without compression."""
    path = write_pickle(tmp_path / "x.pt", state_dict(tensor()), {str(index): bytes(1 << 16) for index in range(3)})
    content = bytearray(path.read_bytes())
    body_end = content.index(b"PK\x01\x02")
    first = content.index(b"PK\x03\x04", content.index(b"archive/data/0") - 40)
    body, directory = content[: first + 30 + 14 + (1 << 16)], content[body_end:]
    for key in (b"archive/data/1", b"archive/data/2"):
        at = directory.index(key)
        directory[at - 4 : at] = first.to_bytes(4, "little")
    end = directory.index(b"PK\x05\x06")
    directory[end + 16 : end + 20] = len(body).to_bytes(4, "little")
    path.write_bytes(bytes(body + directory))
    refuse(path, "more bytes than the file has")


@pytest.mark.slow
@pytest.mark.parametrize("legacy", [False, True])
def test_cut_anywhere(tmp_path, legacy):
    save_published(tmp_path / "whole.pt", legacy=legacy)
    whole = (tmp_path / "whole.pt").read_bytes()
    cut = tmp_path / "cut.pt"
    for length in [*range(64), *range(64, len(whole) - 30, len(whole) // 60), *range(len(whole) - 30, len(whole))]:
        cut.write_bytes(whole[:length])
        with pytest.raises(UserError):
            read_weights(cut)


def test_flipped_weight_bytes_are_noticed(tmp_path):
    """The zip's checksum covers the storages, so silent damage of a download does not reach a model."""
    torch.save({"w": torch.full((64,), 1.25)}, tmp_path / "x.pt")
    content = (tmp_path / "x.pt").read_bytes()
    needle = torch.full((64,), 1.25).numpy().tobytes()
    (tmp_path / "x.pt").write_bytes(content.replace(needle, b"\xff" + needle[1:]))
    refuse(tmp_path / "x.pt", "cut or overwritten")


def test_raw_pickle_is_no_weight_file(tmp_path):
    (tmp_path / "x.pt").write_bytes(pickle.dumps(Runs(os.system, f"touch {tmp_path / 'canary'}")))
    refuse(tmp_path / "x.pt", "no weight file")
    assert not (tmp_path / "canary").exists()
