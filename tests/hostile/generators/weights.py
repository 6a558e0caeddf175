"""Weight files: pickles that call things in every way there is, lies about tensors, damaged archives, safetensors."""

import io
import json
import struct
import zipfile
from pathlib import Path
from random import Random

from tests.checkpoint.files import group, integer, tensor, text, write_pickle, write_zip
from tests.hostile.generators.bytes_and_values import NUMBERS, TEXTS, damaged, odd_value
from tests.hostile.generators.sound import Sound
from tests.hostile.harness import Case
from yolofast.checkpoint.containers import MAGIC

GADGETS = (
    ("os", "system"), ("posix", "system"), ("nt", "system"), ("os", "popen"), ("os", "execvp"), ("posix", "execv"),
    ("os", "spawnlp"), ("os", "posix_spawn"), ("os", "remove"), ("os", "unlink"), ("os", "rename"), ("os", "putenv"),
    ("os", "mkdir"), ("os", "kill"), ("os", "_exit"), ("sys", "exit"), ("builtins", "eval"), ("builtins", "exec"),
    ("builtins", "compile"), ("builtins", "open"), ("builtins", "__import__"), ("builtins", "getattr"),
    ("builtins", "input"),
    ("builtins", "breakpoint"), ("builtins", "map"), ("builtins", "bytearray"), ("builtins", "range"),
    ("builtins", "print"),
    ("__builtin__", "eval"), ("__builtin__", "execfile"), ("subprocess", "Popen"), ("subprocess", "call"),
    ("subprocess", "check_output"), ("subprocess", "run"), ("subprocess", "getoutput"), ("commands", "getoutput"),
    ("pty", "spawn"), ("shutil", "rmtree"), ("shutil", "copy"), ("shutil", "move"), ("runpy", "run_path"),
    ("runpy", "_run_code"), ("importlib", "import_module"), ("imp", "load_source"), ("pickle", "loads"),
    ("_pickle", "loads"),
    ("torch", "load"), ("torch.hub", "load"), ("torch.jit", "load"), ("torch.utils.data", "DataLoader"),
    ("numpy", "load"),
    ("numpy", "fromfile"), ("numpy.testing._private.utils", "runstring"), ("functools", "partial"),
    ("functools", "reduce"),
    ("operator", "attrgetter"), ("operator", "methodcaller"), ("itertools", "repeat"), ("types", "FunctionType"),
    ("types", "CodeType"), ("marshal", "loads"), ("code", "interact"), ("timeit", "timeit"), ("cProfile", "run"),
    ("pdb", "run"), ("bdb", "Bdb"), ("webbrowser", "open"), ("socket", "create_connection"),
    ("urllib.request", "urlopen"),
    ("http.client", "HTTPConnection"), ("ctypes", "CDLL"), ("ctypes", "string_at"),
    ("multiprocessing.util", "spawnv_passfds"),
    ("logging.config", "fileConfig"), ("yaml", "unsafe_load"), ("pathlib", "Path.touch"), ("pathlib", "PosixPath"),
    ("tempfile", "NamedTemporaryFile"), ("threading", "Timer"), ("signal", "alarm"), ("gc", "get_objects"),
    ("asyncio.unix_events", "_UnixSubprocessTransport._start"), ("pip", "main"), ("ensurepip", "_run_pip"),
    ("torch._utils", "_rebuild_parameter"), ("torch._tensor", "_rebuild_from_type_v2"), ("copyreg", "_reconstructor"),
    ("collections", "OrderedDict"), ("torch.nn.modules.module", "Module.__setstate__"), ("dill._dill", "_load_type"),
)  # fmt: skip
PAYLOADS = ("touch canary", "open('canary','w')", "__import__('os').system('touch canary')", "canary")


def _global(module: str, name: str, style: int) -> bytes:
    if style == 0:
        return f"c{module}\n{name}\n".encode()
    return text(module) + text(name) + b"\x93"  # STACK_GLOBAL


def _call(random: Random) -> tuple[str, bytes]:
    """A gadget, called in one of the ways pickles have, and its name."""
    (module, name), payload = random.choice(GADGETS), text(random.choice(PAYLOADS))
    function, arguments = _global(module, name, random.randrange(2)), group(payload)
    ways = {
        "REDUCE": function + arguments + b"R",
        "INST": b"(" + payload + f"i{module}\n{name}\n".encode(),
        "OBJ": b"(" + function + payload + b"o",
        "NEWOBJ": function + arguments + b"\x81",
        "NEWOBJ_EX": function + arguments + b"}\x92",
        "BUILD": function + b")\x81" + group(payload, b"}") + b"b",
        "state": function + b")\x81}" + text("__reduce__") + payload + b"sb",
        "persistent id": group(text("storage"), function, text("0"), text("cpu"), b"K\x04") + b"Q",
        "persistent call": function + arguments + b"RQ",
        "EXT": b"\x82\x01" + arguments + b"R",
        "twice": function + arguments + b"R" + arguments + b"R",
        "append": function + arguments + b"R" + payload + b"a",
        "setitem": function + arguments + b"R" + payload + payload + b"s",
        "storage class": tensor().replace(b"ctorch\nFloatStorage\n", function),
        "rebuild": tensor().replace(b"ctorch._utils\n_rebuild_tensor_v2\n", function),
        "hook": tensor().replace(b"}R", b"}" + text("hook") + function + arguments + b"RsR"),
        "name only": function,
    }
    way = random.choice(list(ways))
    return f"{way} {module}.{name}", ways[way]


def _around(random: Random, value: bytes) -> bytes:
    """Somewhere in what a checkpoint is."""
    weights = b"}" + text("w") + tensor() + b"s"
    places = (
        b"}" + text("model") + value + b"s",
        b"}" + text("model") + weights + b"s" + text("x") + value + b"s",
        b"}" + value + weights + b"s",
        b"}" + text("model") + b"}" + text("w") + value + b"ss",
        b"}" + text("state_dict") + weights + b"s" + text("names") + value + b"s",
        b"}(" + text("format") + text("yolofast") + text("version") + value + text("model") + weights + b"u",
        value,
    )
    return random.choice((b"\x80\x02", b"\x80\x04", b"")) + random.choice(places) + b"."


def _legacy(pickled: bytes) -> bytes:
    """As torch wrote before it wrote zips: a magic number, a version, the machine, then the content and its keys."""
    machine = b"\x80\x02}(" + text("protocol_version") + integer(1001) + text("little_endian") + b"\x88u."
    return (
        MAGIC
        + b"\x80\x02M\xe9\x03."
        + machine
        + pickled
        + b"\x80\x02]"
        + text("0")
        + b"a."
        + struct.pack("<q", 4)
        + bytes(16)
    )


def _calls(random: Random, folder: Path, sound: Sound) -> str:
    kind, value = _call(random)
    pickled = _around(random, value)
    if random.random() < 0.3:
        (folder / "x.pt").write_bytes(_legacy(pickled) if random.random() < 0.8 else pickled)
        return f"{kind}, legacy"
    write_pickle(folder / "x.pt", pickled, {"0": bytes(16)})
    return kind


def _lies(random: Random, folder: Path, sound: Sound) -> str:
    whole = [number for number in NUMBERS if isinstance(number, int) and abs(number) < 2**70]

    def some(most: int = 4) -> tuple[int, ...]:
        return tuple(random.choice(whole) for _ in range(random.randrange(most)))

    storage = random.choice(
        (
            "FloatStorage",
            "ByteStorage",
            "HalfStorage",
            "QInt8Storage",
            "ComplexFloatStorage",
            "UntypedStorage",
            "Storage",
            "x",
        )
    )
    key = random.choice(("0", "1", "", "../0", "0/../0", "x" * 100))
    size = some(random.choice((2, 4, 80)))
    value = tensor(random.choice(whole), size, random.choice((some(), size)), random.choice(whole), key, storage)
    write_pickle(folder / "x.pt", _around(random, value), {"0": bytes(random.choice((0, 1, 16, 4096)))})
    return f"a tensor of {len(size)} sizes in {storage}"


OPCODES = (
    b"(.012NIKMJ\x88\x89\x8a\x80\x81\x85\x86\x87\x8c\x8f\x90\x91\x92\x93\x94\x95])}delstuacbRQqhrjXGBC\x8d\x8eFLSTUVPio"
)


def _machine_code(random: Random, folder: Path, sound: Sound) -> str:
    pickled = bytes(random.choice(OPCODES + bytes(range(4))) for _ in range(random.randrange(300)))
    write_pickle(folder / "x.pt", pickled, {"0": bytes(16)})
    return "random opcodes"


def _amplified(random: Random, folder: Path, sound: Sound) -> str:
    """Lists of the same lists, in the places where values are copied, hashed, compared or written out."""
    pickled, depth = (
        random.choice((b"]", b")", b"}", text("x" * 1000), b"ctorch\nSize\n)R")) + b"q\x00",
        random.randrange(2, 30),
    )
    for level in range(depth):
        inner = b"h%c" % level * random.choice((2, 10, 100))
        kind = random.choice(
            (b"(%st", b"](%se", b"ctorch\nSize\n(%stR", b"\x8f(%s\x90", b"(%s\x91", b"cbuiltins\nset\n(](%setR")
        )
        pickled += b"0" + kind % inner + b"q%c" % (level + 1)
    write_pickle(folder / "x.pt", _around(random, pickled + b"0h%c" % depth), {"0": bytes(16)})
    return f"amplified {depth} times"


def _damaged_file(random: Random, folder: Path, sound: Sound) -> str:
    name = random.choice(list(sound.weights))
    (folder / "x.pt").write_bytes(damaged(random, sound.weights[name]))
    return f"damaged {name}"


def _damaged_entry(random: Random, folder: Path, sound: Sound) -> str:
    """With a right checksum, which would hide the machine from plain damage of the file."""
    name = random.choice([name for name, content in sound.weights.items() if content[:2] == b"PK"])
    with zipfile.ZipFile(io.BytesIO(sound.weights[name])) as archive:
        entries = {entry: archive.read(entry) for entry in archive.namelist()}
    pickle = next(entry for entry in entries if entry.endswith("data.pkl"))
    chosen = pickle if random.random() < 0.7 else random.choice(list(entries))
    entries[chosen] = damaged(random, entries[chosen])
    if random.random() < 0.1:
        entries[random.choice(("../x", "/etc/x", "a" * 300, "\x1b[2J"))] = b"x"
    compression = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    write_zip(folder / "x.pt", entries, compression)
    return f"damaged entry of {name}"


def _zip_bomb(random: Random, folder: Path, sound: Sound) -> str:
    """Storages that unfold to far more than the file has."""
    many = random.choice((2**20, 2**24, 2**27))
    entries = {
        "archive/data.pkl": b"\x80\x02}" + text("w") + tensor(many // 4, (many // 4,)) + b"s.",
        "archive/data/0": bytes(many),
    }
    write_zip(folder / "x.pt", entries, zipfile.ZIP_DEFLATED)
    return f"a zip that unfolds to {many} bytes"


WEIGHTS = (
    _calls,
    _calls,
    _calls,
    _lies,
    _machine_code,
    _amplified,
    _damaged_file,
    _damaged_file,
    _damaged_entry,
    _zip_bomb,
)


def weights(random: Random, folder: Path, sound: Sound) -> Case:
    kind = random.choice(WEIGHTS)(random, folder, sound)
    return Case(kind, _command(random, "x.pt"))


def _command(random: Random, name: str) -> tuple[str, ...]:
    return random.choice((
        ("info", "--weights", name), ("info", "--weights", name), ("strip", "--weights", name, "--out", "y.pt"),
        ("reparam", "--weights", name, "--out", "y.pt"), ("info", "--weights", name, "--cfg", "mini"),
    ))  # fmt: skip


def _safetensors_header(random: Random) -> bytes:
    names = (
        *("F32", "F16", "BF16", "F64", "I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64", "BOOL", "C64", "X"),
        *("F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E8M0", "F4", "F6_E2M3"),
    )
    header: dict[object, object] = {}
    for n in range(random.choice((0, 1, 2, 5, 200))):
        size = random.choice(([4], [], [0], [2, 2], [1] * 66, [-1], [2**40, 2**40], [4.0], ["4"], [True], None))
        offsets = random.choice(([0, 16], [0, 0], [16, 0], [0, 2**63], [-4, 12], [0], [4, 8, 12], "x", [0.0, 16.0]))
        entry: object = {"dtype": random.choice(names), "shape": size, "data_offsets": offsets}
        if random.random() < 0.2:
            entry = odd_value(random)
        header[random.choice((f"t{n}", random.choice(TEXTS), "model.0.conv.weight"))] = entry
    if random.random() < 0.4:
        header["__metadata__"] = random.choice(
            (odd_value(random), {"yolofast": json.dumps(odd_value(random))}, {"a": 1})
        )
    try:
        encoded = json.dumps(header).encode("utf-8", "surrogatepass")
    except ValueError:
        encoded = b"{}"
    deep = random.random()
    if deep < 0.05:
        encoded = b"[" * 100_000
    elif deep < 0.1:
        encoded = b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    elif deep < 0.15:
        encoded = b'{"a": ' + b"9" * 5000 + b"}"
    elif deep < 0.25:
        encoded = damaged(random, encoded)
    return encoded


def safetensors(random: Random, folder: Path, sound: Sound) -> Case:
    if random.random() < 0.4:
        (folder / "x.safetensors").write_bytes(damaged(random, sound.safetensors))
        return Case("damaged", _command(random, "x.safetensors"))
    header = _safetensors_header(random)
    length = random.choice((len(header), len(header), len(header), len(header) + 1, 0, 2**63, 2**64 - 1, 10**9))
    (folder / "x.safetensors").write_bytes(struct.pack("<Q", length) + header + bytes(random.choice((0, 16, 4096))))
    return Case("made by hand", _command(random, "x.safetensors"))
