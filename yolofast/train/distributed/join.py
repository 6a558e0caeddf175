"""Joining the other processes of a run, sharing a machine with them, and leaving: all continue, or all stop.

Who starts the processes does not matter: `torchrun`, a cluster's launcher, or `--device 0,1` (`launch.py`). They say by
environment variables which of how many this one is. On the CPU the ranks talk through gloo; on GPUs gradients go
through NCCL, and everything on the host through gloo. Ranks of one machine share its files, page cache and GPUs.
"""

import gc
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

import torch
import torch.distributed as dist

# Its functions take the group there is when it is imported as a default, and would keep that alive past its end.
import torch.distributed.nn.functional
from torch.distributed import HashStore, PrefixStore, Store  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from yolofast.config.train import TrainConfig
from yolofast.errors import UserError
from yolofast.image_index import ImageIndex
from yolofast.pixels import ImageSource, PackedImages
from yolofast.precision import device_of
from yolofast.ranks import is_first, rank, reducing_alone, wait_for_all, world
from yolofast.store.images import open_images
from yolofast.train.distributed.heartbeat import EXIT_STOPPED, Watch, say_why
from yolofast.train.distributed.restart import store_of_this_try

Made = TypeVar("Made")

# One rank may pack a large data set while others wait. Who has died is found out much sooner, by the watch.
_LONGEST_WAIT = timedelta(hours=12)
_UNTIL_THE_FIRST_HAS_SPOKEN = 5.0


@dataclass(frozen=True)
class RankPlace:
    """Which process this is, by its environment."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    """Among those of its machine."""
    machine: str = "0"

    @staticmethod
    def of_environment() -> "RankPlace":
        if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "RANK" not in os.environ:
            return RankPlace()
        number = int(os.environ["RANK"])
        if "LOCAL_RANK" not in os.environ:
            what = "the launcher set RANK and WORLD_SIZE, but not LOCAL_RANK"
            raise UserError(what, fix="start with torchrun, or set LOCAL_RANK to the number of the process's GPU")
        machine = os.environ.get("GROUP_RANK", os.uname().nodename)
        return RankPlace(number, int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_RANK"]), machine)

    @property
    def is_launched(self) -> bool:
        """Whether a launcher has started it as one of several."""
        return self.world > 1


@dataclass
class _Meeting:
    """Where the ranks have met, and can meet again."""

    place: RankPlace
    device: torch.device
    store: Store
    watch: Watch

    def form_group(self) -> None:
        own = PrefixStore(f"round {self.watch.round}", store_of_this_try(self.store))
        _form_group(self.device, own, self.place)

    def stop_sums(self) -> None:
        """On GPUs nothing else ends a sum to which a rank adds nothing. gloo notices by itself that one has left."""
        if self.device.type == "cuda" and dist.group.WORLD is not None:
            dist.group.WORLD._get_backend(self.device).abort()


def _form_group(device: torch.device, store: Store, place: RankPlace) -> None:
    backend = "gloo"
    if device.type == "cuda":
        backend = "cpu:gloo,cuda:nccl"
        # In a capture ranks would meet to tell each other where their memory is: one that fails before would be waited
        # for. It is read when NCCL starts.
        os.environ.setdefault("NCCL_GRAPH_REGISTER", "0")
    number, ranks = place.rank, place.world
    dist.init_process_group(backend, store=store, rank=number, world_size=ranks, timeout=_LONGEST_WAIT)


@contextmanager
def group_of_one(device: torch.device) -> Iterator[None]:
    """This process is a group of its own, and adds up what several ranks would: to test that, and to measure it."""
    if device.type == "cuda":
        torch.cuda.set_device(device.index or 0)
    _form_group(device, HashStore(), RankPlace())
    try:
        with reducing_alone():
            yield
    finally:
        gc.collect()
        dist.destroy_process_group()


_meeting: _Meeting | None = None


class _ToldToStop(KeyboardInterrupt):
    """By SIGTERM: the first rank leaves its mark and report, as a process that trains alone does."""


_PATIENCE_WITH_THE_WATCH = 10.0
_OTHERS_LEAVE_FIRST = 3.0
"""Seconds in which processes of other machines end and their launchers notice it: they look ten times a second."""


@contextmanager
def joined(device: torch.device) -> Iterator[None]:
    """While inside, this process is one of its run's ranks; alone, it is only itself.

    Whatever ends one rank ends the others within seconds, and one of them says why.
    """
    place = RankPlace.of_environment()
    if not place.is_launched:
        yield
        return
    global _meeting
    _meeting = _meet_others(place, device)
    watch = _meeting.watch
    _stop_on_sigterm(watch)
    watch.start()
    try:
        yield
        wait_for_all()  # nobody is missed while others still work
    except BaseException as error:  # noqa: BLE001 - whatever it is, the others must hear of it
        _leave_in_trouble(error, watch)
    finally:
        watch.stop()
        # A thread still inside the store when the interpreter ends would abort the process.
        watch.join(_PATIENCE_WITH_THE_WATCH)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # The shared model goes in circles, and has the group. If it were the last one to have it, gloo's threads would be
    # waited for with Python's lock held, which they need to let go of their last sum: for ever, on busy machines.
    gc.collect()
    dist.destroy_process_group()  # its threads must end before we do
    _meeting = None
    _let_other_machines_leave_first()


def _let_other_machines_leave_first() -> None:
    """Launchers meet at the end, in the store of the first machine's. If that one comes first, it ends while another is
    still asking, which then prints a traceback although all went well (seen with torch 2.13). The last one asks nobody.
    """
    several = int(os.environ.get("GROUP_WORLD_SIZE", "1")) > 1
    if several and os.environ.get("GROUP_RANK") == "0":
        time.sleep(_OTHERS_LEAVE_FIRST)


def call_off() -> None:
    """For all ranks: they leave the epoch they are in, and `meet_again`."""
    if _meeting is not None:
        _meeting.watch.call_off()


def is_called_off() -> bool:
    """Whether a rank has called off what all of them were doing: sums then fail, because it has left."""
    try:
        return _meeting is not None and _meeting.watch.is_called_off()
    except RuntimeError:  # the store is gone, and with it whoever kept it
        return False


def meet_again() -> None:
    """After something was called off, and when nothing is left that holds on to the ranks' group, such as a model."""
    if _meeting is None:
        return
    gc.collect()  # the model that was shared goes in circles
    _meeting.stop_sums()
    dist.destroy_process_group()
    _meeting.watch.round += 1
    _meeting.form_group()


def from_first_rank(make: Callable[[], Made]) -> Made:
    """What the first rank makes, on all ranks: what it reads from its disk need not be on other machines."""
    if world() == 1:
        return make()
    made: list[Any] = [make() if is_first() else None]
    dist.broadcast_object_list(made)
    return made[0]  # type: ignore[no-any-return]


@contextmanager
def first_rank_speaks() -> Iterator[None]:
    """For mistakes that all ranks see before they have met: one message, not one for each."""
    try:
        yield
    except UserError:
        if RankPlace.of_environment().rank == 0:
            raise
        time.sleep(_UNTIL_THE_FIRST_HAS_SPOKEN)  # a launcher ends the others when one has ended
        raise SystemExit(EXIT_STOPPED) from None


def _meet_others(place: RankPlace, device: torch.device) -> _Meeting:
    if device.type == "cuda":
        torch.cuda.set_device(device)
    try:
        store, *_ = next(rendezvous("env://", place.rank, place.world, timeout=_LONGEST_WAIT))
        meeting = _Meeting(place, device, store, Watch.of_environment(place.rank, place.world))
        meeting.form_group()
        meeting.watch.when_called_off = meeting.stop_sums
        return meeting
    except (RuntimeError, ValueError) as error:
        what = f"process {place.rank} of {place.world} cannot reach the others: {str(error).splitlines()[0][:200]}"
        raise UserError(what, fix="look at MASTER_ADDR and MASTER_PORT, or start with torchrun") from error


def _leave_in_trouble(error: BaseException, watch: Watch) -> NoReturn:
    """The first rank in trouble ends with its error; the others have nothing to add."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher's next move; there is a message to be printed first
    if isinstance(error, _ToldToStop):
        raise SystemExit(128 + signal.SIGTERM)
    if isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error)):
        error = UserError(
            f"another process of the run has ended, so this one (rank {rank()} of {world()}) stopped too",
            fix="see what that one said; the last checkpoint is whole: continue with --resume",
        )
    if watch.announce(error):
        raise error
    raise SystemExit(EXIT_STOPPED)


def _stop_on_sigterm(watch: Watch) -> None:
    """Launchers tell ranks to stop when another one has died."""
    own = os.getpid()

    def stop(number: int, frame: object) -> None:
        if os.getpid() == own and watch.announce("told to stop"):
            say_why(f"rank {rank()} was told to stop: another process of the run has ended, or it was cancelled")
        if os.getpid() != own or not is_first():
            os._exit(128 + number)
        signal.signal(number, signal.SIG_IGN)  # of a launcher and of what told the launcher; it kills if it takes long
        watch.stop()
        raise _ToldToStop

    signal.signal(signal.SIGTERM, stop)


def in_turn(make: Callable[[], Made]) -> Made:
    """The machine's first rank makes it, files included; then the others do, and find the files there."""
    first = RankPlace.of_environment().local_rank == 0
    made = make() if first else None
    wait_for_all()
    return make() if made is None else made


def open_images_together(
    index: ImageIndex, width: int, height: int, cache: str, **settings: Any
) -> ImageSource | PackedImages:
    """`open_images`, packed once per machine. All its ranks keep pixels the way the first one chose to.

    RAM is where it is shared: the mapped file, of which the machine has one copy however many ranks read it.
    """
    if world() == 1:
        return open_images(index, width, height, cache, **settings)[0]
    place = RankPlace.of_environment()
    images, choice = None, None
    if place.local_rank == 0:
        images, choice = open_images(index, width, height, cache, shared=True, **settings)
    chosen: list[Any] = [None] * world()
    dist.all_gather_object(chosen, None if choice is None else (place.machine, choice.kind))
    if images is None:
        kind = dict(one for one in chosen if one is not None)[place.machine]
        images, _ = open_images(index, width, height, kind, shared=True, **settings)
    return images


def device_of_rank(name: str) -> torch.device:
    """The device `--device` means for this process: of the GPUs it names, or of all, the one with its number."""
    place = RankPlace.of_environment()
    if not place.is_launched or name == "cpu" or not torch.cuda.is_available():
        return device_of(name)
    named = name.removeprefix("cuda:").split(",") if name else [str(n) for n in range(torch.cuda.device_count())]
    if place.local_rank >= len(named):
        what = f"process {place.local_rank} of this machine has no GPU of its own: "
        what += f"--device names {len(named)}" if name else f"there are {len(named)}"
        raise UserError(what, fix=f"start {len(named)} processes per machine (torchrun --nproc-per-node {len(named)})")
    return device_of(named[place.local_rank], name)


def check_devices(config: TrainConfig) -> str:
    """`--device`, if it names GPUs that are there."""
    for number in config.devices:
        device_of(number, config.device)
    return config.device.removeprefix("cuda:")
