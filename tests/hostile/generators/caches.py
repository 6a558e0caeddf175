"""Caches that are not what was written: indexes of data sets, packed images, and the record of a run's images."""

import io
import os
import shutil
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from tests.hostile.generators.bytes_and_values import damaged, odd_value
from tests.hostile.generators.sound import Sound
from tests.hostile.harness import Case
from yolofast.dataset.split import read_split
from yolofast.errors import UserError
from yolofast.store import open_images, verify
from yolofast.store.packed_store import read_store


def caches(random: Random, folder: Path, sound: Sound) -> Case:
    data = sound.copy_data(folder)
    read_split(data, "train")
    index = read_split(data, "val")
    open_images(index, 64, 64, "disk", say=str)
    kept = sorted((data.parent / ".yolofast").glob("*.index*"))
    chosen = random.choice(kept)
    how = random.randrange(5)
    if how == 4:
        chosen = random.choice([*kept, *(data.parent / ".yolofast").glob("*.pixels")])
        chosen.unlink()
        place = random.choice(("/dev/zero", "/dev/null", chosen.name, "/proc/self/mem", "fifo"))
        if place == "fifo":
            os.mkfifo(chosen)
        else:
            chosen.symlink_to(place)
    elif how == 0:
        chosen.write_bytes(damaged(random, chosen.read_bytes()))
    elif how == 1:
        chosen.write_bytes(_with_other_array(random, chosen.read_bytes()))
    elif how == 2:
        chosen.write_bytes(_with_lying_header(random, chosen.read_bytes()))
    else:
        pixels = next((data.parent / ".yolofast").glob("*.pixels"))
        pixels.write_bytes(damaged(random, pixels.read_bytes()))
        chosen = pixels
    return Case(f"{chosen.suffix}, way {how}", call=lambda: _used(data))


def _with_other_array(random: Random, content: bytes) -> bytes:
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        arrays: dict[str, Any] = {name: stored[name] for name in stored.files}
    name = random.choice(list(arrays))
    array = arrays[name]
    flat = array.reshape(-1).copy()
    how = random.randrange(6)
    if how == 0 and flat.size and flat.dtype.kind in "iuf":
        flat[random.randrange(flat.size)] = np.array(random.choice((-1, 0, 1, 127))).astype(flat.dtype)
        arrays[name] = flat.reshape(array.shape)
    elif how == 1:
        arrays[name] = array[:0]
    elif how == 2:
        arrays[name] = np.concatenate((flat, flat))
    elif how == 3:
        arrays[name] = array.astype("U10") if array.dtype.names is None else np.zeros(3)
    elif how == 4:
        arrays[name] = np.array(str(odd_value(random))[:1000].replace("\0", ""))
    else:
        del arrays[name]
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def _with_lying_header(random: Random, content: bytes) -> bytes:
    """An entry that says it has far more numbers than it has."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    name = random.choice(list(entries))
    shape = random.choice(
        ("(100000000000,)", "(-1,)", "(2**40,)", "(1,)" * 40, "()", "(10,)" + " " * 10_000, "(3, 10000000000)")
    )
    kind = random.choice(("<i8", "|O", "|V8", "<f4", "<U99999999", "|S1"))
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    entries[name] = b"\x93NUMPY\x01\x00" + (len(header) % 65536).to_bytes(2, "little") + header + bytes(100)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for entry, value in entries.items():
            archive.writestr(entry, value)
    return out.getvalue()


def _used(data: Path) -> int:
    """As training uses them; other labels under the right key are believed, and refused if they cannot be used."""
    try:
        for split in ("train", "val"):
            index = read_split(data, split)
            images, _ = open_images(index, 64, 64, "disk", say=str)
            for image in range(len(index)):
                index.boxes[index.boxes_of(image)].sum()
                images.image(image).sum()
        for path in (data.parent / ".yolofast").glob("*.index"):
            if (store := read_store(path)) is not None:
                verify(store)
    except UserError as error:
        print(error)
        return 2
    finally:
        shutil.rmtree(data.parent, ignore_errors=True)
    return 0
