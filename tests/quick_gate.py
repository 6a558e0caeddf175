"""What `make quick` leaves out, and what keeps it quick: a test that is not marked `slow` may neither train nor start a
process, compile or open a page; browsers and compilers of C++ are processes.

A test of one of the SLOW_FIXTURES is slow by that; others carry the mark themselves, and so do those of large networks
and long searches, which take seconds.
"""

import functools
import sys
from multiprocessing.process import BaseProcess

import pytest
import torch

from yolofast.train.loop import Trainer

SLOW_FIXTURES = {"browser", "trained_folder"}
STARTS_A_PROCESS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}
OF_LIBRARIES = ("fc-list", "uname")  # what they ask a machine they have not seen before: its fonts, its processor


class QuickGate:
    """A plugin for pytest. It looks at every run of the tests: a mark that is missing is seen before it costs time."""

    def __init__(self) -> None:
        self._quick_test = ""
        sys.addaudithook(self._on_event)
        for owner, name in ((Trainer, "fit"), (BaseProcess, "start"), (torch, "compile")):
            self._guard(owner, name)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items):
        for item in items:
            if SLOW_FIXTURES & set(item.fixturenames):
                item.add_marker("slow")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self._quick_test = "" if item.get_closest_marker("slow") else item.nodeid
        try:
            return (yield)
        finally:
            self._quick_test = ""

    def _on_event(self, event, arguments):
        if event in STARTS_A_PROCESS and not (arguments and arguments[0] in OF_LIBRARIES):
            self._refuse(event)

    def _guard(self, owner, name):
        method = getattr(owner, name)

        @functools.wraps(method)
        def guarded(*arguments, **more):
            self._refuse(f"{owner.__name__}.{name}")
            return method(*arguments, **more)

        setattr(owner, name, guarded)

    def _refuse(self, what):
        if self._quick_test:
            pytest.fail(f"{what} in a test that is not slow; fix: mark it with @pytest.mark.slow")
