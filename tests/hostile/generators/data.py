"""Data sets: YAML of all kinds, label files, COCO's JSON, and images."""

import json
import struct
import zlib
from pathlib import Path
from random import Random
from typing import Any

import yaml

from tests.hostile.generators.bytes_and_values import NUMBERS, TEXTS, changed_somewhere, damaged
from tests.hostile.generators.sound import Sound
from tests.hostile.harness import Case
from yolofast.resources import find_resource

CHECK = ("check", "--data")


def _laughs(random: Random) -> str:
    """Aliases of aliases, plain or as merge keys."""
    levels, times = random.randrange(3, 30), random.choice((2, 10, 30))
    merged = random.random() < 0.5
    lines = ["a0: &a0 {x: 1}" if merged else "a0: &a0 [x]"]
    for n in range(levels):
        many = ", ".join([f"*a{n}"] * times)
        lines.append(f"a{n + 1}: &a{n + 1} " + (f"{{<<: [{many}]}}" if merged else f"[{many}]"))
    key = random.choice(("names", "train", "val", "path", "nc", "data", "x"))
    return "\n".join([*lines, f"{key}: *a{levels}", "train: images/train", "val: images/val"])


def _raw_yaml(random: Random) -> str:
    return random.choice((
        "!!python/object/apply:os.system ['touch canary']", "x: !!python/name:os.system",
        "names: !!python/object/new:os.system [touch canary]",
        "!!binary aGk=", "? [a, b]\n: c", "[" * random.choice((50, 5000)), "{" * 3000, "- " * 5000,
        "a: " * 2000 + "b", "&a [*a]", "a: &a {b: *a}",
        "%YAML 9.9\n---\na: 1", "--- a\n--- b\n", "a: 1\na: 2", "\t- x", "a: |\n" + " x\n" * 1000,
        "'" + "x" * 100_000, "a: " + "9" * 5000,
        "a: 1_0_0:5:5", "a: 0x" + "f" * 5000, "a: 2001-99-99", "a: .inf", "a: 190:20:30.15", "\ufeffa: 1", "a: \x00",
        "!<!> x", "!!set {a, b}",
        "names: {" + ", ".join(f"{n}: c" for n in range(20_000)) + "}", "nc: 10000000\nnames: []",
        "names: [" + "a, " * 50_000 + "]",
        "download: touch canary\ntrain: x",
        "download: |\n  import os; os.system('touch canary')\ntrain: images/train", "train: /proc/self",
        "train: /dev",
        "".join(f"%TAG !{n}! tag:x,{n}:\n" for n in range(20_000)) + "--- {a: 1}", "names: ['\\ud800']",
        "names: {" + ", ".join(f"{n * (2**61 - 1)}: a" for n in range(15_000)) + "}", 'names: ["\\ud800"]',
        "path: /\ntrain: [.]\nnames: [a]", "train: " + "../" * 500, "train: https://127.0.0.1:9/x.zip",
        "train: " + "a/" * 3000,
    ))  # fmt: skip


def _dumped(value: Any) -> str:
    try:
        return str(yaml.safe_dump(value, allow_unicode=True))
    except (yaml.YAMLError, ValueError):
        return "{}"


KINDS = {
    "cfg": ("yolov7-tiny", ("info", "--cfg", "x.yaml")),
    "hyp": ("hyp.scratch.tiny", ("train", "--explain", "--cfg", "mini", "--hyp", "x.yaml", "--weights", "")),
    "plan": ("yolox-progressive", ("train", "--explain", "--cfg", "mini", "--plan", "x.yaml", "--weights", "")),
    "recipe": ("yolox-s", ("train", "--explain", "--cfg", "yolox-nano", "--recipe", "x.yaml", "--weights", "")),
    "heads": ("standard", ("info", "--cfg", "mini", "--head-config", "x.yaml")),
}


def yamls(random: Random, folder: Path, sound: Sound) -> Case:
    kind = random.choice(("data", "data", *KINDS))
    base, command = "", (*CHECK, "x.yaml")
    if kind == "data":
        base = sound.data.read_text()
    else:
        name, command = KINDS[kind]
        base = find_resource(name, kind).read_text()
        if command[0] == "train":
            command = (*command, "--data", str(sound.data), "--device", "cpu")
    how = random.randrange(5)
    if how == 0:
        content, about = _raw_yaml(random), "raw"
    elif how == 1:
        content, about = _laughs(random), "laughs"
    elif how == 2:
        content, about = damaged(random, base.encode()).decode("utf-8", "surrogateescape"), "damaged"
    else:
        value = yaml.safe_load(base)
        for _ in range(random.choice((1, 1, 2, 5))):
            value = changed_somewhere(random, value)
        content, about = _dumped(value), "other values"
    (folder / "x.yaml").write_bytes(content.encode("utf-8", "surrogateescape" if how == 2 else "surrogatepass"))
    return Case(f"{kind}: {about}", command)


def labels(random: Random, folder: Path, sound: Sound) -> Case:
    data = sound.copy_data(folder)
    for path in random.sample(sorted((data.parent / "labels").glob("*/*.txt")), 3):
        path.write_bytes(_label_file(random, path.read_bytes()))
    return Case("labels", random.choice(((*CHECK, str(data)), (*CHECK, str(data), "--json"))))


def _label_file(random: Random, sound: bytes) -> bytes:
    def number() -> str:
        return str(
            random.choice(
                (random.uniform(-0.5, 1.5), random.choice(NUMBERS), random.choice(TEXTS), random.randrange(9))
            )
        )

    how = random.randrange(6)
    if how == 0:
        return damaged(random, sound)
    if how == 1:
        return random.randbytes(random.choice((0, 1, 100, 5000)))
    if how == 2:
        return (" ".join(["0"] * random.choice((1, 4, 6, 8, 50_000))) + "\n").encode()
    if how == 3:
        return b"0 0.5 0.5 0.1 0.1\n" * random.choice((1, 2, 20_000))
    if how == 4:
        return b"0 0.5 0.5 0.1 0.1" + random.choice(
            (b"\r", b"\x00", b"\xff", b"\n\n\n", b" " * 10_000, b"9" * 5000, "٣".encode())
        )
    lines = (
        " ".join(number() for _ in range(random.choice((1, 4, 5, 5, 5, 6, 7, 9)))) for _ in range(random.randrange(20))
    )
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def coco(random: Random, folder: Path, sound: Sound) -> Case:
    data = sound.copy_data(folder)
    path = data.parent / "annotations" / "instances_train.json"
    how = random.randrange(4)
    if how == 0:
        path.write_bytes(damaged(random, path.read_bytes()))
    elif how == 1:
        path.write_text(
            random.choice(
                (
                    "[" * 50_000,
                    '{"images":' * 20_000,
                    "1" * 6000,
                    '{"images": [' + "1," * 1000,
                    "nul",
                    '{"a": "\\ud800"}',
                    "[]",
                )
            )
        )
    else:
        value = json.loads(path.read_text())
        for _ in range(random.choice((1, 1, 2, 6))):
            value = changed_somewhere(random, value)
        path.write_bytes(json.dumps(value).encode("utf-8", "surrogatepass"))
    (data.parent / "x.yaml").write_text(
        f"path: {data.parent}\ntrain: annotations/instances_train.json\nval: annotations/instances_train.json\n"
    )
    return Case("coco", (*CHECK, str(data.parent / "x.yaml")))


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _promising(random: Random) -> bytes:
    """Headers of more pixels than there are."""
    width, height = random.choice(
        ((65535, 65535), (2**31 - 1, 2), (16384, 16384), (8193, 8193), (1, 2**26), (0, 5), (40_000, 1700))
    )
    png = b"\x89PNG\r\n\x1a\n" + _chunk(
        b"IHDR", struct.pack(">II5B", width, height, 8, random.choice((0, 2, 3, 6)), 0, 0, random.randrange(2))
    )
    png += _chunk(b"IDAT", zlib.compress(bytes(100_000))) + _chunk(b"IEND", b"")
    low, wide = min(height, 65535), min(width, 65535)
    jpeg = (
        b"\xff\xd8\xff\xc0"
        + struct.pack(">HBHHB", 17, 8, low, wide, 3)
        + b"\x01\x22\x00\x02\x11\x01\x03\x11\x01"
        + b"\xff\xd9"
    )
    bmp = (
        b"BM"
        + struct.pack("<IHHIIiiHHIIiiII", 154, 0, 0, 54, 40, width, height, 1, 24, 0, 100, 0, 0, 0, 0)
        + bytes(100)
    )
    webp = (
        b"RIFF\x40\0\0\0WEBPVP8X\x0a\0\0\0"
        + bytes(4)
        + struct.pack("<I", width - 1 & 0xFFFFFF)[:3]
        + struct.pack("<I", height - 1 & 0xFFFFFF)[:3]
        + bytes(40)
    )
    gif = (
        b"GIF89a"
        + struct.pack("<HH", wide, low)
        + b"\x80\0\0"
        + bytes(6)
        + b","
        + struct.pack("<HHHH", 0, 0, wide, low)
        + b"\0\x02\x02D\x01\0;"
    )
    tiff = (
        b"II*\0\x08\0\0\0\x02\0"
        + struct.pack("<HHII", 256, 4, 1, width)
        + struct.pack("<HHII", 257, 4, 1, height)
        + bytes(4)
    )
    return random.choice((png, png, jpeg, bmp, webp, gif, tiff, f"P6 {width} {height} 255\n".encode() + bytes(100)))


def images(random: Random, folder: Path, sound: Sound) -> Case:
    data = sound.copy_data(folder)
    for path in random.sample(sorted((data.parent / "images").glob("*/*.jpg")), 3):
        how = random.randrange(8)
        if how < 5:
            path.write_bytes(damaged(random, random.choice(list(sound.images.values()))))
        elif how == 5:
            path.write_bytes(_promising(random))
        elif how == 6:
            path.write_bytes(random.randbytes(random.choice((0, 1, 10, 1000))))
        else:
            path.unlink()
            path.symlink_to(random.choice(("/dev/zero", "/dev/null", "/proc/self/mem", path.name, "/nowhere", "/etc")))
    best, pictures = str(sound.run / "weights" / "best.pt"), str(data.parent / "images" / "train")
    pack = ("pack", "--data", str(data), "--img", "64", "--out", str(folder / "store"))
    predict = ("predict", "--weights", best, "--source", pictures, "--img", "64", "--device", "cpu")
    return Case("images", random.choice(((*CHECK, str(data)), pack, (*predict, "--project", str(folder / "out")))))
