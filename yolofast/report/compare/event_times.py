"""When things happened in a run, by the clock in TensorBoard's files: YOLOv7 writes no other times into its folder.

Only the first two fields of each record are looked at, time and step, so neither TensorBoard nor protobuf is needed. A
record is `length, checksum, bytes, checksum`; the fields are `0x09 float64` and `0x10 varint`.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

_MAX_RECORD = 64 * 2**20


def epoch_seconds(folder: Path, problems: list[str]) -> dict[int, float]:
    """Step -> seconds from the start, over all files of a run that was resumed; pauses in between do not count."""
    ended: dict[int, float] = {}
    before = 0.0
    for path in sorted(folder.glob("events.out.tfevents.*")):
        try:
            events = list(_events(path)) if path.is_file() else []
        except OSError as error:
            problems.append(f"{path.name} cannot be read: {error.strerror}")
            continue
        if len(events) < 2:
            continue
        start = events[0][0]
        for clock, step in events[1:]:
            ended[step] = max(clock - start, 0.0) + before
        before = max(ended.values())
    return ended


def _events(path: Path) -> Iterator[tuple[float, int]]:
    """Until the first record that is not whole: the file of a running training ends anywhere."""
    with path.open("rb") as file:
        while len(head := file.read(12)) == 12:
            (length,) = struct.unpack("<Q", head[:8])
            if length > _MAX_RECORD:
                return
            content = file.read(length)
            if len(content) < length or len(file.read(4)) < 4:
                return
            if len(content) >= 9 and content[0] == 0x09:
                yield struct.unpack("<d", content[1:9])[0], _step(content[9:])


def _step(content: bytes) -> int:
    """0 is not written."""
    if not content or content[0] != 0x10:
        return 0
    step = 0
    for place, byte in enumerate(content[1:10]):
        step |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    return step
