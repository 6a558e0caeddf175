"""What ranks do beside computing: finding their place and device, and noticing when others are gone."""

import os
import signal
from types import SimpleNamespace

import pytest
import torch
from torch.distributed import TCPStore

from yolofast.cli import main
from yolofast.errors import UserError
from yolofast.interrupts import stops_raise
from yolofast.ranks import mean_of_cells, per_rank, whole_batch, world
from yolofast.train.distributed import join
from yolofast.train.distributed import launch as launch_module
from yolofast.train.distributed.heartbeat import Watch
from yolofast.train.distributed.join import RankPlace, device_of_rank, from_first_rank, in_turn

LAUNCHED = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "GROUP_RANK": "1"}


@pytest.fixture
def launched(monkeypatch):
    for name, value in LAUNCHED.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def store():
    return TCPStore("127.0.0.1", 0, 1, is_master=True, wait_for_workers=False)


def test_place(launched):
    place = RankPlace.of_environment()
    assert place == RankPlace(rank=3, world=4, local_rank=1, machine="1") and place.is_launched


def test_one_process_of_a_launcher_is_alone(launched, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert RankPlace.of_environment() == RankPlace() and not RankPlace().is_launched


def test_a_launcher_that_forgets_the_local_rank(launched, monkeypatch):
    monkeypatch.delenv("LOCAL_RANK")
    with pytest.raises(UserError, match="LOCAL_RANK"):
        RankPlace.of_environment()


@pytest.mark.parametrize(("name", "expected"), [("", 1), ("2,5", 5), ("cuda:2,5", 5)])
def test_each_rank_has_a_gpu_of_its_own(launched, monkeypatch, name, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    assert device_of_rank(name) == torch.device("cuda", expected)


def test_more_ranks_than_gpus(launched, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    with pytest.raises(UserError, match="process 1 of this machine has no GPU of its own: --device names 1"):
        device_of_rank("0")


@pytest.mark.slow
def test_gpus_that_are_not_there(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for typed in ("0,1", "cuda:0,1", "1"):
        assert main(["train", "--device", typed]) == 2
        assert f"--device is {typed}, but no GPU can be used" in capsys.readouterr().err


def test_alone_nothing_changes():
    assert world() == 1
    assert per_rank(torch.tensor(0)) == 1 and per_rank(torch.tensor(7)) == 7
    assert mean_of_cells(torch.tensor([1.0, 3.0])) == 2
    assert whole_batch(4, torch.device("cpu")) == 4
    assert in_turn(lambda: 5) == from_first_rank(lambda: 5) == 5


def test_only_the_first_rank_in_trouble_speaks(store):
    watches = [Watch(store, rank, 3) for rank in range(3)]
    assert [watch.look() for watch in watches] == [None] * 3
    assert watches[2].announce(UserError("no such file"))
    assert not watches[0].announce(UserError("no such file"))
    assert [watch.look() for watch in watches[:2]] == ["", ""], "they stop without a word"


def test_a_rank_that_does_not_beat_any_more_is_noticed(store):
    watches = [Watch(store, rank, 3) for rank in range(3)]
    for _ in range(20):
        assert [watch.look() for watch in watches] == [None] * 3
    found = [[watch.look() for watch in (watches[0], watches[2])] for _ in range(12)]
    assert found[5] == [None, None], "a rank may be late"
    assert found[-1] == ["rank 1 does not answer any more", None]


def test_everybody_looks_at_the_first_rank(store):
    watches = [Watch(store, rank, 3) for rank in range(3)]
    assert [watch.look() for watch in watches] == [None] * 3
    found = [[watch.look() for watch in watches[1:]] for _ in range(12)]
    assert found[-1] == ["rank 0 does not answer any more"] * 2


def test_what_only_the_launching_process_is_told_it_tells_the_ranks_and_waits(monkeypatch):
    class Rank:
        pid, joined = 12345, False

        def join(self):
            self.joined = True

    def told(*arguments):
        signal.raise_signal(signal.SIGTERM)

    rank, sent = Rank(), []
    monkeypatch.setattr(launch_module, "spawn", told)
    monkeypatch.setattr(launch_module, "active_children", lambda: [rank])
    monkeypatch.setattr(os, "kill", lambda *arguments: sent.append(arguments))
    with stops_raise(), pytest.raises(KeyboardInterrupt):
        launch_module.launch(int, (), 1)
    assert sent == [(rank.pid, signal.SIGINT)] and rank.joined


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "machines", "waits"), [("0", "2", True), ("1", "2", False), ("0", "1", False), (None, None, False)]
)
def test_the_first_of_several_machines_leaves_last(monkeypatch, machine, machines, waits):
    """Otherwise torch's launcher of another one prints a traceback of its exit barrier."""
    for name, value in (("GROUP_RANK", machine), ("GROUP_WORLD_SIZE", machines)):
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
    waited = []
    monkeypatch.setattr(join.time, "sleep", waited.append)
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(join, "_meet_others", lambda place, device: SimpleNamespace(watch=QuietWatch()))
    monkeypatch.setattr(join.dist, "destroy_process_group", lambda: waited.append("left the group"))
    before = signal.getsignal(signal.SIGTERM)
    with join.joined(torch.device("cpu")):
        assert not waited
    signal.signal(signal.SIGTERM, before)
    assert waited == ["left the group", *([join._OTHERS_LEAVE_FIRST] if waits else [])]


class QuietWatch:
    def start(self):
        pass

    def stop(self):
        pass

    def join(self, seconds):
        pass
