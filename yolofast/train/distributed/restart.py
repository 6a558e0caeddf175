"""A launcher that starts all ranks again after one has died (`torchrun --max-restarts 3`): their run continues.

`torchrun` repeats the command as it was typed, in new processes. Which folder the first try made is written into the
store where the ranks meet: the launcher keeps it from one try to the next, whatever machine the first rank is on.
"""

import dataclasses
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]

from yolofast.config.train import RESUME_OR_START, TrainConfig

_TRY = "TORCHELASTIC_RESTART_COUNT"
_STORE_WAIT = timedelta(seconds=60)


def store_of_this_try(store: Store) -> Store:
    """What ranks of an earlier try have left there, addresses of dead processes, is not for those of this one: torch
    2.13 would wait for them until its time is up."""
    return PrefixStore(f"yolofast/ranks/{os.environ.get(_TRY, '0')}", store)


def remember_run(folder: Path) -> None:
    """For the next try, if there will be one: only such a launcher counts them."""
    if _TRY in os.environ:
        _store().set(_key(), str(folder.resolve()))


def after_restart(config: TrainConfig, given: dict[str, Any]) -> tuple[TrainConfig, dict[str, Any]]:
    """Settings of a command that is tried again: it resumes what it began. One that was to resume a run still does."""
    if os.environ.get(_TRY, "0") == "0" or config.resume not in (False, RESUME_OR_START):
        return config, given
    store = _store()
    if not store.check([_key()]):  # it died before it had a folder
        return config, given
    given = {name: value for name, value in given.items() if name != "resume"}
    return dataclasses.replace(config, resume=bytes(store.get(_key())).decode()), given


def _store() -> TCPStore:
    store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    store.set_timeout(_STORE_WAIT)
    return store


def _key() -> str:
    return f"yolofast/{os.environ.get('TORCHELASTIC_RUN_ID', '')}/run"
