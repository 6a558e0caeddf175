"""An unfinished pack: the data written so far, and a journal of its images, so that a killed pack can continue.

Images are written strictly in order, so the finished file is the same however often packing was interrupted. A journal
entry counts only if the image file is unchanged and the bytes have the checksum. So no write has to wait for the disk.
"""

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from yolofast.files.atomic_file import opened_own
from yolofast.files.budget import open_regular
from yolofast.store.packed_store import RECORD, Records, same_source, stored_bytes


class Journal:
    """Appends images to `data` and their records to `journal`; `records` are those so far."""

    def __init__(self, data: Path, journal: Path, records: Records) -> None:
        self.data, self.journal = data, journal
        self._records = bytearray(records.tobytes())  # an array for each of millions of images would be a gigabyte
        self._end = int(records["length"].sum())
        for file, size in ((data, self._end), (journal, len(records) * RECORD.itemsize)):
            with opened_own(file) as handle:
                handle.truncate(size)
        self._data_file, self._journal_file = opened_own(data), opened_own(journal)

    def append(self, record: Records, content: memoryview) -> None:
        """Adds one image; its record's start is filled in."""
        record["start"] = self._end
        self._data_file.write(content)
        self._data_file.flush()
        self._records += record.tobytes()
        self._journal_file.write(record.tobytes())
        self._journal_file.flush()
        self._end += int(record["length"][0])

    @property
    def records(self) -> Records:
        return np.frombuffer(bytes(self._records), RECORD).copy()

    def sync(self) -> None:
        os.fsync(self._data_file.fileno())

    def discard(self) -> None:
        self.data.unlink(missing_ok=True)
        self.journal.unlink(missing_ok=True)

    def close(self) -> None:
        self._data_file.close()
        self._journal_file.close()


def completed(data: Path, journal: Path, sources: Records, lengths: npt.NDArray[np.int64] | None) -> Records:
    """The records of the images an earlier pack has completed, from the first on.

    `sources` are records of the files as they are now, and `lengths` the bytes each image must have, where known.
    """
    try:
        with open_regular(journal) as file:
            content = file.read()
        with open_regular(data) as file:
            records = np.frombuffer(content, RECORD, count=len(content) // RECORD.itemsize)[: len(sources)]
            fits = _fits(records, sources, lengths)
            records = records if fits.all() else records[: fits.argmin()]
            intact = (stored_bytes(record, file.fileno()) is not None for record in records)
            done = next((place for place, good in enumerate(intact) if not good), len(records))
            return records[:done].copy()
    except FileNotFoundError:
        return np.empty(0, RECORD)


def _fits(records: Records, sources: Records, lengths: npt.NDArray[np.int64] | None) -> npt.NDArray[np.bool_]:
    count = len(records)
    fits = same_source(records, sources[:count])
    fits &= (records["length"] >= 0) & (records["start"] == np.cumsum(records["length"]) - records["length"])
    return fits if lengths is None else fits & (records["length"] == lengths[:count])
