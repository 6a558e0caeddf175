"""The loss of every batch, from `batches.csv`: thinned while it is read, a piece per call."""

from pathlib import Path

from yolofast.runs.layout import BATCH_LOSS, FILES
from yolofast.runs.table import headings, number
from yolofast.watch.growing_file import GrowingFile
from yolofast.watch.thinned import Thinned

_BYTES_AT_ONCE = 4 * 2**20


class BatchCurve:
    def __init__(self, folder: Path) -> None:
        self._file = GrowingFile(folder / FILES.batches)
        self._columns: tuple[str, ...] = ()
        self.loss = Thinned()

    def refresh(self) -> bool:
        """Reads on; whether there is more, for which it wants to be called again."""
        news = self._file.news(_BYTES_AT_ONCE)
        if news.restarted:
            self._columns, self.loss = (), Thinned()
        lines = iter(news.lines)
        if not self._columns and news.lines:
            self._columns = headings(next(lines))
        if BATCH_LOSS in self._columns:
            self._add(list(lines), self._columns.index(BATCH_LOSS))
        return news.more

    def _add(self, lines: list[bytes], place: int) -> None:
        for line in lines:
            cells = line.split(b",")
            if len(cells) == len(self._columns):
                self.loss.add(number(cells[place]))
