"""Lines of a file that another process appends to, replaces or shortens.

The position reached is remembered together with the bytes before it. If those are still there, reading continues from
it; otherwise the file is read from its beginning. A file of 100 MB is therefore read once. An edit in its middle that
keeps every length is not noticed.
"""

from typing import NamedTuple

from yolofast.watch.watched_folder import FolderFile, Stamp

_REMEMBERED = 256
_LONGEST_LINE = 2**16


class News(NamedTuple):
    lines: list[bytes]
    """Complete ones, without their ends."""
    restarted: bool = False
    """They begin the file: what was read before no longer counts."""
    more: bool = False
    """There is more than the limit allowed."""


class GrowingFile:
    def __init__(self, file: FolderFile) -> None:
        self.file = file
        self._last_stamp: Stamp | None = None
        self._place, self._before = 0, b""

    def news(self, most: int) -> News:
        """The lines that were completed since the last call, of up to `most` bytes."""
        now, most = self.file.stamp(), max(most, _LONGEST_LINE)
        if now is not None and now == self._last_stamp:
            return News([])
        try:
            content, restarted = self._read(most)
        except OSError:  # gone, or being replaced: as empty as a file that is not there
            restarted = self._place > 0
            self._last_stamp, self._place, self._before = None, 0, b""
            return News([], restarted)
        full, end = len(content) == most, content.rfind(b"\n") + 1
        if full and end == 0:
            end = len(content)  # a line of that length is no row: pass over it
        self._place += end
        self._before = (self._before + content[:end])[-_REMEMBERED:]
        self._last_stamp = None if full else now
        return News(content[:end].splitlines(), restarted, full)

    def _read(self, most: int) -> tuple[bytes, bool]:
        """What follows the place reached; from the beginning, and True, if the file is another one."""
        with self.file.open() as file:
            file.seek(self._place - len(self._before))
            restarted = file.read(len(self._before)) != self._before
            if restarted:
                self._place, self._before = 0, b""
                file.seek(0)
            return file.read(most), restarted
