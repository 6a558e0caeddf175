"""What could not be read, reported once: as a warning, or as the error where nothing else was read."""

from collections.abc import Callable
from threading import Lock

from yolofast.errors import UserError


class Faults(list[UserError]):
    """The first one waits until something is read, or another one comes: alone it is the error, and no warning too."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say, self._said = say, 0
        self._is_read, self._lock = False, Lock()  # sources are read in a thread of their own

    def add(self, fault: UserError) -> None:
        self.append(fault)
        if self._is_read or len(self) > 1:
            self._tell()

    def read(self) -> None:
        """Something was."""
        if not self._is_read:
            self._is_read = True
            self._tell()

    def error(self) -> UserError:
        """Nothing was, because of them."""
        if len(self) > 1:
            return UserError("nothing could be read", fix="see the warnings above: each names its fix")
        return UserError(f"nothing could be read: {self[0].what}", where=self[0].where, fix=self[0].fix)

    def _tell(self) -> None:
        with self._lock:
            for fault in self[self._said :]:
                self._say(f"warning: {fault}")
                self._said += 1
