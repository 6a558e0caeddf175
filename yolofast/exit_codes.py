"""How a command is run and ends: its exit code, and one message for a mistake of the user."""

import argparse
import ctypes
import errno
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from yolofast.errors import LostDeviceError, UserError
from yolofast.extensions import found
from yolofast.interrupts import INTERRUPTED, exit_code, interrupts_raise, stops_raise
from yolofast.terminal.escaping import escaped_output

EXIT_OK, EXIT_BAD_INPUT = 0, 2
EXIT_PAUSED = 75
"""EX_TEMPFAIL of sysexits.h: the same command with `--resume` continues."""
_TRAINS = "yolofast.commands.train:run"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_MEMORY = "memory ran out: {}\n  fix: end other programs, or lower --batch-size, --img or --workers, or --cache off"


def run_command(
    where: str, args: argparse.Namespace, look: Callable[[argparse.Namespace], None] = lambda args: None
) -> int:
    """Imports and calls the function `module:name`, if `look` finds nothing wrong with its arguments; its exit code."""
    return call(lambda: _run(where, args, look))


def _run(where: str, args: argparse.Namespace, look: Callable[[argparse.Namespace], None]) -> int | None:
    look(args)
    _let_threads_sleep()
    if where == _TRAINS and getattr(args, "device", "") != "cpu":
        threading.Thread(target=_find_gpus, name="yolofast-driver", daemon=False).start()
    with _kept_for_good():
        command: Callable[[argparse.Namespace], int | None] = found(where)
    interrupts_raise()  # not before: `call` catches them
    with stops_raise():
        return command(args)


@contextmanager
def _kept_for_good() -> Iterator[None]:
    """What a program imports first stays: nobody looks for garbage in it, now or later.

    Importing makes three hundred thousand objects. Looking through them again and again took a fifth of the processor's
    time of all imports, and takes a tenth of a second each time later, such as before a graph is captured.
    """
    if "torch" in sys.modules or not gc.isenabled():  # then we are a part of a larger program
        yield
        return
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


def _find_gpus() -> None:
    """The driver looks for them once in a process, for some tenths of a second in which torch can be imported."""
    with suppress(OSError, AttributeError):  # there is no driver
        ctypes.CDLL("libcuda.so.1").cuInit(0)


def _let_threads_sleep() -> None:
    """Threads of OpenMP sleep while they wait for one another; torch reads this when it is imported, which comes next.

    By default they spin. On a machine with other work they then keep a core from the thread they wait for, and training
    takes many times as long. Results are the same, and what the user has set stays.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def call(command: Callable[[], int | None]) -> int:
    """The exit code of a command; a mistake of the user becomes one message."""
    with escaped_output():
        return _called(command)


def _called(command: Callable[[], int | None]) -> int:
    code = EXIT_OK  # of commands that return nothing, or whose reader leaves early
    try:
        code = command() or EXIT_OK
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        # Files that users name are checked where they are; what is left is a run's own, or the terminal or disk that
        # the output goes to, which have no name.
        if error.filename is None and error.errno != errno.ENOMEM:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        print(f"yolofast: error: {_in_words(error)}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except MemoryError as error:
        print(f"yolofast: error: {_NO_MEMORY.format(str(error) or 'this process gets no more')}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except UserError as error:
        print(f"yolofast: error: {error}", file=sys.stderr)
        if isinstance(error, LostDeviceError):
            end_at_once(EXIT_BAD_INPUT)  # torch would abort the process where it frees memory of the GPU
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        with suppress(OSError):  # a terminal that was closed has told us so
            print(INTERRUPTED, file=sys.stderr, flush=True)
        return exit_code()
    return code


def end_at_once(code: int) -> None:
    """Without what Python does when it ends: for a process that would be aborted by it."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError):  # closed by the shell, or nobody reads it
            stream.flush()
    os._exit(code)


def _in_words(error: OSError) -> str:
    what = error.strerror or str(error)
    if error.errno == errno.ENOMEM:
        return _NO_MEMORY.format(what)
    if error.filename is None:
        return f"the output cannot be written: {what}\n  fix: make room"
    fix = "make room on that disk" if error.errno in _NO_ROOM else "check the path and the permissions"
    return f"{error.filename}: {what}\n  fix: {fix}; continue a stopped run with --resume"
