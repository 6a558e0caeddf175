"""Work done by another process, where this one has better things to do: in the same process threads share one lock.

The other process imports what the work needs as soon as it is started, and not torch. It gets functions with their
arguments, calls them one after the other, and says at the end what went wrong. It ends with the one that started it,
and leaves interrupts to that.
"""

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_NICENESS = 3
_END = pickle.dumps(None)
"""Said in words: processes that were forked meanwhile hold the pipe open when this one closes it."""


class Helper:
    """`give` it work, then ask for the `failures`; `close` it in any case."""

    def __init__(self, modules: Sequence[str]) -> None:
        """`modules` are those that the work needs."""
        path = os.pathsep.join(filter(None, [str(_PACKAGE.parent), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, *modules], env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._sender = ThreadPoolExecutor(1, "yolofast-helper")
        self.given: list[str] = []
        """The names of what it was to do."""

    def give(self, name: str, work: Callable[[], object]) -> None:
        """Returns at once. What `work` refers to must be found by name in the other process, too."""
        self.given.append(name)
        self._sender.submit(self._send, pickle.dumps(work))

    def _send(self, parcel: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(parcel)
        self._process.stdin.flush()

    def failures(self) -> dict[str, str]:
        """When all is done: what failed, by name, and why. A process that has died has done none of it."""
        self._sender.submit(self._send, _END)
        self._sender.shutdown()
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(OSError):  # it has died
            self._process.stdin.close()
        said = [json.loads(line) for line in self._process.stdout.read().splitlines()]
        self._process.wait()
        said += [f"its process ended with {self._process.returncode}"] * (len(self.given) - len(said))
        given, self.given = self.given, []
        return {name: why for name, why in zip(given, said, strict=True) if why}

    def close(self) -> None:
        """Ends it, whatever it has reached."""
        with suppress(OSError):
            self._process.kill()
        self._process.wait()
        self._sender.shutdown(cancel_futures=True)
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                if stream is not None:
                    stream.close()


def _work(modules: Sequence[str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(AttributeError, OSError):  # Windows has no such call
        os.nice(_NICENESS)
    said, sys.stdout = sys.stdout, sys.stderr  # nothing that is printed meanwhile is an answer
    for module in modules:
        import_module(module)
    while True:
        try:
            work = pickle.load(sys.stdin.buffer)  # from the process that has started this one
        except EOFError:
            return
        if work is None:
            return
        why = ""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the other one tells it
            why = f"{type(error).__name__}: {error}"
        print(json.dumps(why), file=said, flush=True)


if __name__ == "__main__":
    _work(sys.argv[1:])
