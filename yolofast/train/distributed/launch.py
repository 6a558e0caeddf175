"""`--device 0,1`: one process per GPU, started and watched over by torch, for those who do not type `torchrun`."""

import os
import signal
from collections.abc import Callable
from multiprocessing import active_children
from typing import Any

from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.multiprocessing.spawn import ProcessExitedException, spawn

from yolofast.interrupts import STOPS, told_to_stop
from yolofast.train.distributed.heartbeat import say_why

_HOST, _RESULT = "127.0.0.1", "yolofast/result"

Report = Callable[[str], None]
Work = Callable[..., int]
"""Gets a way to report its result, then its arguments; returns an exit code."""


def launch(work: Work, arguments: tuple[Any, ...], ranks: int) -> str:
    """`work` in as many new processes; what the first of them reports.

    If one fails, torch ends the others, and this process ends with the exit code of the first failure. The store they
    meet at is kept here, so it outlives any of them.
    """
    store = TCPStore(_HOST, 0, ranks, is_master=True, wait_for_workers=False)
    try:
        spawn(_one_rank, (ranks, store.port, work, arguments), ranks)  # type: ignore[no-untyped-call]
    except ProcessExitedException as failure:
        if failure.signal_name:
            say_why(f"rank {failure.error_index} was ended by {failure.signal_name}, so all others stopped")
        raise SystemExit(failure.exit_code if failure.exit_code > 0 else 1) from None
    except KeyboardInterrupt:
        _stop_ranks()
        raise
    result: str = store.get(_RESULT).decode()
    return result


def _stop_ranks() -> None:
    """Ctrl+C reaches them too; what only this process was told they are told by it, and it waits for their end."""
    if told_to_stop():
        ranks = active_children()
        for one in ranks:
            if one.pid is not None:
                os.kill(one.pid, signal.SIGINT)
        for one in ranks:
            one.join()


def _one_rank(number: int, ranks: int, port: int, work: Work, arguments: tuple[Any, ...]) -> None:
    place = {"RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": ranks, "GROUP_RANK": 0, "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in place.items()})
    # The store is there already: torch's word for that.
    os.environ.update(MASTER_ADDR=_HOST, TORCHELASTIC_USE_AGENT_STORE="True")
    for deaf in set(STOPS) - {signal.SIGTERM}:  # the process that started the ranks hears it, and stops them once
        signal.signal(deaf, signal.SIG_IGN)

    def report(result: str) -> None:
        if number == 0:
            TCPStore(_HOST, port, is_master=False).set(_RESULT, result)

    raise SystemExit(work(report, *arguments))
