"""Programs that tests start, without the seconds in which Python reads torch.

A server that has the modules of a training in memory starts them by forking: one for each test worker, begun with the
first program and ended with the worker. It has no threads, and nothing but imports has happened in it. What a program
reads from its environment while torch or Triton are imported it does not see, but for the number of threads: tests of
that start Python themselves. Programs for Triton's interpreter have a server of their own.
"""

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
INTERPRETER = "TRITON_INTERPRET"
"""Triton interprets or compiles for good from the moment it is imported."""
_channels = {}


class Program(subprocess.Popen):
    """`Popen` of `[sys.executable, "-m", module, …]`, `[…, "-c", code, …]`, `[…, script, …]`, forked by the server."""

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *more):
        pipes, start_new_session = more[3:9], more[14]
        assert args[0] == sys.executable and not (preexec_fn or pass_fds or executable), args
        own, theirs = socket.socketpair()
        given = (pipes[0], pipes[3], pipes[5])
        streams = [standard if one == -1 else one for standard, one in enumerate(given)]
        request = {
            "args": [os.fspath(word) for word in args[1:]],
            "cwd": os.fspath(cwd or os.getcwd()),
            "env": dict(os.environ if env is None else env),
            "session": bool(start_new_session),
        }
        own.sendall(json.dumps(request).encode() + b"\n")
        socket.send_fds(_server(request["env"].get(INTERPRETER, "0")), [b"+"], [theirs.fileno(), *streams])
        theirs.close()
        self._status = own.makefile("r")
        own.close()
        self.pid = int(self._status.readline())
        self._child_created = True
        self._close_pipe_fds(*pipes)

    def _internal_poll(self, _deadstate=None, **_):
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self.returncode = int(self._status.readline())
            self._status.close()
        return self.returncode

    def _wait(self, timeout):
        if self.returncode is None and not select.select([self._status], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self._internal_poll()


def run(args, timeout=None, **options):
    """As `subprocess.run(args, capture_output=True, text=True)`."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
    with Program(args, **streams) as program:
        try:
            said, complained = program.communicate(timeout=timeout)
        except BaseException:
            program.kill()
            raise
    return subprocess.CompletedProcess(args, program.returncode, said, complained)


def _server(interpreted):
    if interpreted not in _channels:
        _channels[interpreted], theirs = socket.socketpair()
        with theirs:
            subprocess.Popen(
                [sys.executable, "-m", "tests.programs", str(theirs.fileno())], pass_fds=[theirs.fileno()], cwd=ROOT,
                stdin=subprocess.DEVNULL, start_new_session=True, env={**os.environ, INTERPRETER: interpreted},
            )  # fmt: skip
    return _channels[interpreted]


def _serve(channel):
    """Forks a program for each request; returns in the program, with what it was asked for. Ends with its worker."""
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    waiting = {}
    while True:
        ready = select.select([channel, wake_read], [], [])[0]
        if wake_read in ready:
            os.read(wake_read, 4096)
        while waiting and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            with waiting.pop(ended[0]) as asker:
                asker.sendall(f"{os.waitstatus_to_exitcode(ended[1])}\n".encode())
        if channel not in ready:
            continue
        message, descriptors, *_ = socket.recv_fds(channel, 1, 4)
        if not message:
            sys.exit()
        asker = socket.socket(fileno=descriptors[0])
        request = json.loads(asker.makefile().readline())
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for one in (asker, channel, *waiting.values()):
                one.close()
            os.close(wake_read)
            os.close(wake_write)
            return request, descriptors[1:]
        for descriptor in descriptors[1:]:
            os.close(descriptor)
        waiting[pid] = asker
        asker.sendall(f"{pid}\n".encode())


def _become(request, streams):
    """What a new process has, this one gets."""
    if request["session"]:
        os.setsid()
    for standard, given in enumerate(streams):
        os.dup2(given, standard)
        os.close(given)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    if threads := os.environ.get("OMP_NUM_THREADS"):  # torch has read the server's
        sys.modules["torch"].set_num_threads(int(threads))
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, buffering=1, errors="backslashreplace")  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr


def _run(args):
    sys.path[0] = os.getcwd()
    kind, *rest = args
    if kind == "-m":
        sys.argv = rest
        sys.modules.pop(rest[0], None)
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = args
        sys.path[0] = os.path.dirname(os.path.abspath(kind))
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    _wanted = ("yolofast.cli", "yolofast.commands.train", "yolofast.train.finish", "yolofast.loader", "torch._dynamo")
    for _module in _wanted:  # the last is for ranks: torch imports it to average their gradients
        importlib.import_module(_module)
    gc.freeze()  # a program that looked for garbage among all that would copy it, page by page
    _request, _streams = _serve(socket.socket(fileno=int(sys.argv[1])))
    _become(_request, _streams)
    _run(_request["args"])
