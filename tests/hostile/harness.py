"""One hostile input, given to the real command line in a process of its own: what came of it, and what it cost.

The process is forked from one that has imported and tried everything, so its seconds and bytes are those of the input.
What runs in it is watched: nothing in a file may start a program, open a connection, or touch the canary.
"""

import faulthandler
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from yolofast.cli import main

CANARY = "canary"
"""In the input's folder: what payloads make."""
FORBIDDEN = (
    "os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "os.forkpty", "pty.spawn",
    "socket.connect", "socket.bind", "webbrowser.open", "ctypes.dlopen", "code.__new__",
)  # fmt: skip
ALLOWED_PROGRAMS = ("uname",)
"""What libraries ask a machine they have not seen before."""
MOST_SECONDS, MOST_MEGABYTES = 2.0, 500.0
"""More than a sound input of its class takes."""
_CRASHED = 99
_CPU_LIMIT_S, _MEMORY_LIMIT = 40, 3 * 2**30
"""Of memory, more than the process has already."""
_PATIENCE_S = 900.0
"""Of the wall clock: only what waits for ever takes so long on a busy machine."""


@dataclass(frozen=True)
class Case:
    """An input that lies in `folder`, and who reads it."""

    kind: str
    """What is odd about it."""
    command: tuple[str, ...] = ()
    """Of `yolofast`, or nothing if `call` is given."""
    call: Callable[[], int | None] | None = None
    about: str = ""
    """For who has to find out."""

    def run(self) -> int:
        return (self.call() or 0) if self.call is not None else main([str(word) for word in self.command])


@dataclass(frozen=True)
class Outcome:
    code: int
    """Negative: the signal that ended it."""
    seconds: float
    megabytes: float
    said: str
    touched: tuple[str, ...] = field(default=())

    def failures(self, sound: "Outcome") -> list[str]:
        """Why it has not held; `sound` is what a sound input of the class costs."""
        found = [f"code ran: {what}" for what in self.touched]
        if "Traceback (most recent call last)" in self.said:
            found.append("traceback")
        if self.code not in (0, 1, 2):
            found.append(f"exit code {self.code}")
        if self.seconds - sound.seconds > MOST_SECONDS:
            found.append(f"{self.seconds:.1f} s")
        if self.megabytes - sound.megabytes > MOST_MEGABYTES:
            found.append(f"{self.megabytes:.0f} MB")
        return found


def attempt(case: Case, folder: Path) -> Outcome:
    """`folder` is the working folder of the command, with the input in it."""
    sys.stdout.flush()
    sys.stderr.flush()
    output = folder / ".output"
    child = os.fork()
    if not child:
        _in_child(case, folder, output)
    code, usage = _waited_for(child)
    said = output.read_text("utf-8", "replace") if output.exists() else ""
    touched = [line for line in _lines(folder / ".touched") if line]
    if (folder / CANARY).exists():
        touched.append("the canary was touched")
    return Outcome(code, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, said, tuple(touched))


def _in_child(case: Case, folder: Path, output: Path) -> None:
    code = _CRASHED
    try:
        os.chdir(folder)
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w", errors="replace"), os.fdopen(2, "w", errors="replace")
        faulthandler.enable(sys.stderr)
        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_LIMIT_S, _CPU_LIMIT_S + 5))
        most = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE") + _MEMORY_LIMIT
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        _watch(folder / ".touched")
        code = case.run()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 2
    except BaseException:  # noqa: BLE001 - whatever it is, it is the finding
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _watch(touched: Path) -> None:
    record = os.open(touched, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def look(event: str, arguments: tuple[object, ...]) -> None:
        if event in FORBIDDEN and not (arguments and arguments[0] in ALLOWED_PROGRAMS):
            os.write(record, f"{event} {str(arguments)[:200]}\n".encode("utf-8", "replace"))

    sys.addaudithook(look)


def _waited_for(child: int) -> tuple[int, resource.struct_rusage]:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), usage
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            deadline = float("inf")
        time.sleep(0.002)


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8", "replace").splitlines() if path.exists() else []
