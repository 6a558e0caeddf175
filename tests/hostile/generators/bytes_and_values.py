"""What all generators use: damaged bytes, and values that nobody expects."""

import math
import struct
from random import Random
from typing import Any

NUMBERS = (
    0, -1, 1, 2, 255, 256, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, 10**400,
    0.0, -0.0, 0.5, 1e-320, 1e308, math.inf, -math.inf, math.nan,
)  # fmt: skip
TEXTS = (
    "", " ", "0", "nan", "1e999", "x" * 5000, "../../etc/passwd", "/dev/zero", "/dev/stdin", "/proc/self/environ",
    "~root",
    "\x1b[2J\x1b]0;x\x07", "\u202eabc", "\ud800", "\x00", "a\nb", "<script>alert(1)</script>",
    "'\"><img src=x onerror=1>",
    "{{7*7}}", "%s%n", "${PATH}", "$(touch canary)", "`touch canary`", "; touch canary", "|touch canary",
    "__import__('os')",
    "http://127.0.0.1:9/x", "file:///etc/passwd", "\\\\server\\share", "CON", "é" * 300, "-rf", "--help", "@file",
)  # fmt: skip


def odd_value(random: Random, depth: int = 0) -> Any:
    """Of any plain kind."""
    kind = random.randrange(9 if depth < 3 else 5)
    if kind == 0:
        return random.choice(NUMBERS)
    if kind == 1:
        return random.choice(TEXTS)
    if kind == 2:
        return random.choice((None, True, False))
    if kind == 3:
        return random.randrange(-10, 1000)
    if kind == 4:
        return random.uniform(-2, 2)
    if kind in (5, 6):
        return [odd_value(random, depth + 1) for _ in range(random.choice((0, 1, 2, 3, 7)))]
    return {str(odd_value(random, 9)): odd_value(random, depth + 1) for _ in range(random.choice((0, 1, 2, 5)))}


def changed_somewhere(random: Random, value: Any) -> Any:
    """The value with one of its parts, chosen at random, taken away, repeated or replaced."""
    if isinstance(value, dict) and value and random.random() < 0.85:
        key = random.choice(list(value))
        copy = dict(value)
        if random.random() < 0.1:
            del copy[key]
        elif random.random() < 0.05:
            copy[str(random.choice(TEXTS))] = copy.pop(key)
        else:
            copy[key] = changed_somewhere(random, value[key])
        return copy
    if isinstance(value, list) and value and random.random() < 0.85:
        place, copy = random.randrange(len(value)), list(value)
        if random.random() < 0.1:
            del copy[place]
        elif random.random() < 0.05:
            copy *= random.choice((2, 50))
        else:
            copy[place] = changed_somewhere(random, value[place])
        return copy
    return odd_value(random)


def damaged(random: Random, content: bytes) -> bytes:
    """Some bytes flipped, replaced, repeated, removed or inserted; or the end cut off."""
    edited = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8, 30))):
        place, length = random.randrange(len(edited) + 1), random.choice((1, 1, 2, 4, 8, 64))
        how = random.randrange(7)
        if how == 0 and edited:
            edited[place % len(edited)] ^= 1 << random.randrange(8)
        elif how == 1:
            edited[place : place + length] = random.randbytes(length)
        elif how == 2:
            edited[place:place] = random.randbytes(length)
        elif how == 3:
            del edited[place : place + length]
        elif how == 4:
            edited[place:place] = edited[place : place + 64] * random.choice((1, 2, 100))
        elif how == 5:
            edited[place : place + 4] = struct.pack(random.choice("<>") + "I", random.choice((0, 1, 2**31, 2**32 - 1)))
        elif random.random() < 0.3:
            del edited[place:]
    return bytes(edited)
