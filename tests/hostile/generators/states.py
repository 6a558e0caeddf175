"""`--resume` of a `last.pt` that is not what it was: other values, code, flipped bits, files of other tools."""

from pathlib import Path
from random import Random
from typing import Any

import torch

from tests.hostile.generators import weights as weight_files
from tests.hostile.generators.bytes_and_values import NUMBERS, TEXTS, changed_somewhere, damaged, odd_value
from tests.hostile.generators.sound import Sound
from tests.hostile.harness import Case


def states(random: Random, folder: Path, sound: Sound) -> Case:
    run = sound.copy_run(folder)
    last = run / "weights" / "last.pt"
    (run / "weights" / "last.previous.pt").unlink(missing_ok=True)
    kind = random.choice((_value, _value, _value, _tensor, _code, _bytes, _foreign, _folder))(random, run, last, sound)
    target = random.choice((run, run, last)) if last.exists() else run
    return Case(kind, ("train", "--resume", str(target), "--epochs", "4", "--device", "cpu"))


def _value(random: Random, run: Path, last: Path, sound: Sound) -> str:
    """One of the settings, counters, rows or schedules."""
    plain = {key: value for key, value in sound.state.items() if key not in ("model", "ema", "step")}
    key = random.choice(list(plain))
    new = changed_somewhere(random, plain[key]) if random.random() < 0.8 else odd_value(random)
    torch.save({**sound.state, key: new}, last)
    return f"{key} is another"


def _tensor(random: Random, run: Path, last: Path, sound: Sound) -> str:
    """Other sizes, types, values or names among weights, averages and the optimizer's state."""
    part = random.choice(("model", "ema", "step"))

    def changed(value: Any) -> Any:
        if isinstance(value, dict) and value:
            key = random.choice(list(value))
            copy = dict(value)
            if random.random() < 0.05:
                del copy[key]
            else:
                copy[key] = changed(value[key])
            return copy
        if isinstance(value, list) and value:
            place = random.randrange(len(value))
            return [*value[:place], changed(value[place]), *value[place + 1 :]]
        if isinstance(value, torch.Tensor) and random.random() < 0.8:
            return random.choice((
                torch.zeros(0), value.flatten(), value[None],
                value.to(torch.complex64) if value.is_floating_point() else value,
                torch.full_like(value, random.choice((0, 1))), value.to(torch.int8), value.to(torch.float64),
                value.to_sparse() if value.ndim else value, torch.full(value.shape, float("nan")),
                value.expand(2, *value.shape),
                torch.zeros(1).expand(10**9), value.to(torch.float8_e4m3fn) if value.is_floating_point() else value,
            ))  # fmt: skip
        return odd_value(random)

    torch.save({**sound.state, part: changed(sound.state[part])}, last)
    return f"something in {part} is another"


def _code(random: Random, run: Path, last: Path, sound: Sound) -> str:
    kind = random.choice(weight_files.WEIGHTS)(random, run.parent, sound)
    (run.parent / "x.pt").rename(last)
    return kind


def _bytes(random: Random, run: Path, last: Path, sound: Sound) -> str:
    last.write_bytes(damaged(random, last.read_bytes()))
    return "damaged"


def _foreign(random: Random, run: Path, last: Path, sound: Sound) -> str:
    content = random.choice((
        {"step": 1}, {"config": {}}, {"epoch": 3, "model": {}}, [], 5, "text", None, {}, {1: 2}, torch.zeros(3),
        {"state_dict": {"w": torch.zeros(2)}}, {**dict.fromkeys(sound.state), "config": sound.state["config"]},
        {key: value for key, value in sound.state.items() if random.random() < 0.8},
        {**sound.state, random.choice(TEXTS): random.choice(NUMBERS)}, odd_value(random),
    ))  # fmt: skip
    torch.save(content, last, _use_new_zipfile_serialization=random.random() < 0.8)
    return "of another tool"


def _folder(random: Random, run: Path, last: Path, sound: Sound) -> str:
    """What lies beside the checkpoint."""
    if random.random() < 0.5:
        last.unlink()
    name = random.choice(("args.yaml", "hyp.yaml", "results.csv", "batches.csv", "images.npz", ".run.lock", "env.json"))
    path = run / name
    before = path.read_bytes() if path.exists() else b"x"
    path.unlink(missing_ok=True)
    how = random.randrange(5)
    if how == 0:
        path.mkdir()
    elif how == 1:
        path.symlink_to(random.choice(("/dev/zero", "/etc/passwd", name, "/nowhere")))
    elif how == 2:
        path.write_bytes(random.randbytes(random.choice((0, 1, 100, 10_000))))
    elif how == 3:
        path.write_bytes(damaged(random, before))
    return f"{name} is another"
