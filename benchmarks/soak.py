"""Kills commands at random moments, starts them again and compares what they leave with what was never disturbed.

    python -m benchmarks.soak                   # 20 minutes
    python -m benchmarks.soak --minutes 300 --kills 1000

A run is trained, evaluated and reported, shapes are tracked, settings are searched, those of trackers and those of
runs. All of that is killed (SIGKILL), alone or with what it has started, and repeated, or resumed where a command can
be. Meanwhile `watch` shows the folder, and is asked without a pause.
"""

import argparse
import json
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import psutil
import torch

EPOCHS, SIZE = 4, 64
_AT_MOST_S = 900
"""Of a command on a busy machine: longer means that it hangs."""
Digest = Callable[[Path], str]


@dataclass(frozen=True)
class Job:
    """A command that leaves something in the folder it is given."""

    words: Callable[[Path], list[str]]
    again: Callable[[Path], list[str]]
    """After a kill."""
    digest: Digest
    share: int = 1
    """Of the kills."""


@dataclass
class Tally:
    kills: Counter[str] = field(default_factory=Counter)
    identical: Counter[str] = field(default_factory=Counter)
    early: Counter[str] = field(default_factory=Counter)
    """Kills of commands that had ended already: they count as nothing."""
    bad: list[str] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    """MB of a resumed training at its most, in their order."""


class Watch(threading.Thread):
    """Asked without a pause; what it holds is noted."""

    def __init__(self, runs: Path) -> None:
        super().__init__(daemon=True)
        self.process = subprocess.Popen(
            command("watch", str(runs), "--port", "0"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self.process.stdout is not None
        found = None
        while found is None:
            found = re.search(r"http://\S+", self.process.stdout.readline())
        self.address, self.stopped = found[0].rstrip("/"), threading.Event()
        self.answers, self.failures, self.memory, self.files = 0, list[str](), list[float](), list[int]()

    def run(self) -> None:
        inner = psutil.Process(self.process.pid)
        while not self.stopped.wait(0.5):
            try:
                with urllib.request.urlopen(f"{self.address}/api/runs", timeout=_AT_MOST_S) as answer:
                    json.load(answer)
                self.answers += 1
            except (OSError, ValueError) as error:
                self.failures.append(str(error))
            with suppress(psutil.Error):
                self.memory.append(inner.memory_info().rss / 1e6)
                self.files.append(inner.num_fds())

    def close(self) -> None:
        self.stopped.set()
        self.join()
        self.process.terminate()  # what is started in the background of a script does not hear SIGINT
        self.process.communicate(timeout=_AT_MOST_S)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "yolofast", *words]


def ended(process: subprocess.Popen[bytes]) -> int:
    """At most, in MB, with all its workers."""
    most = 0
    with suppress(psutil.Error):
        one = psutil.Process(process.pid)
        while process.poll() is None:
            most = max(most, sum(part.memory_info().rss for part in (one, *one.children(recursive=True))))
            time.sleep(0.1)
    return most // 10**6


def begun(words: list[str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("ab") as file:
        return subprocess.Popen(words, stdout=file, stderr=subprocess.STDOUT)


def kill(process: "subprocess.Popen[bytes]", *, with_children: bool) -> None:
    """Alone, or with all that it has started, as when a machine loses its power."""
    children = psutil.Process(process.pid).children(recursive=True) if with_children else []
    process.kill()
    for child in children:
        with suppress(psutil.Error):
            child.kill()


def completed(words: list[str], log: Path) -> int:
    process = begun(words, log)
    most = ended(process)
    if process.wait(_AT_MOST_S) != 0:
        raise RuntimeError(f"{' '.join(words[3:])}: exit code {process.returncode}: {log.read_text()[-800:]}")
    return most


def of_files(*names: str) -> Digest:
    def digest(folder: Path) -> str:
        found = sorted(path for name in names for path in folder.rglob(name))
        assert any(path.stat().st_size for path in found), f"nothing like {names} in {folder}"
        return sha256(b"".join(path.read_bytes() for path in found)).hexdigest()

    return digest


def of_states(folder: Path) -> str:
    """All tensors of the last state of each run, bit for bit."""
    digest = sha256()

    def add(value: object) -> None:
        if isinstance(value, torch.Tensor):
            digest.update(value.contiguous().flatten().view(torch.uint8).numpy().tobytes())
        elif isinstance(value, dict):
            for key in sorted(value, key=str):
                add(value[key])
        elif isinstance(value, list | tuple):
            for one in value:
                add(one)

    states = sorted(folder.rglob("weights/last.pt"))
    assert states, f"no state in {folder}"
    for path in states:
        digest.update(str(path.relative_to(folder)).encode())
        add(torch.load(path, weights_only=True))
    return digest.hexdigest()


def prepared(work: Path) -> Path:
    """Shapes, moving shapes, and their truth as detections; the sequences' folder."""
    log = work / "log.txt"
    completed(command("dataset", "shapes", "--out", str(work / "shapes"), "--n", "40"), log)
    video = work / "video"
    completed(command("dataset", "shapes-video", "--out", str(video), "--sequences", "2", "--frames", "40"), log)
    for sequence in video.glob("SHAPES-*"):
        rows = (line.split(",") for line in (sequence / "gt" / "gt.txt").read_text().splitlines())
        (sequence / "det").mkdir()
        (sequence / "det" / "det.txt").write_text("".join(f"{row[0]},-1,{','.join(row[2:6])},0.9\n" for row in rows))
    return video


def jobs(work: Path, video: Path) -> dict[str, Job]:
    data, settings = str(work / "shapes" / "data.yaml"), ["--device", "cpu", "--img-size", str(SIZE)]
    best = str(work / "train" / "whole" / "run" / "weights" / "best.pt")
    experiment = work / "experiment.yaml"
    experiment.write_text(
        f"base: {{data: {data}, cfg: mini, img: {SIZE}, batch: 8, epochs: 2, workers: 1}}\n"
        "grid: {lr0: [0.01, 0.02]}\nstop: {asha: {grace: 1, factor: 2}}\n"
    )
    network = ["--cfg", "mini", "--epochs", str(EPOCHS), "--batch-size", "8", "--workers", "1", "--no-plots"]

    def train(folder: Path) -> list[str]:
        return command("train", "--data", data, *network, *settings, "--project", str(folder), "--name", "run")

    def resume(folder: Path) -> list[str]:
        return command("train", "--resume", str(folder / "run")) if (folder / "run").exists() else train(folder)

    def val(folder: Path) -> list[str]:
        into = ["--project", str(folder), "--name", "val", "--exist-ok"]
        return command("val", "--weights", best, "--data", data, *settings, "--save-json", *into)

    def report(folder: Path) -> list[str]:
        run = str(Path(best).parents[1])
        return command("report", run, "--output", str(folder / "report.html"))

    def track(folder: Path) -> list[str]:
        into = ["--project", str(folder), "--name", "track", "--exist-ok", "--nosave"]
        source = ["--source", str(video / "SHAPES-01" / "img1"), "--weights", best]
        # After four short epochs scores are low: there is something to be compared if low ones count.
        low = ["--conf-thres", "0.0002", "--track", "track_low_thresh=0.0005"]
        low += ["track_high_thresh=0.001", "new_track_thresh=0.001"]
        return command("track", *source, *low, *settings, *into)

    def sweep(folder: Path) -> list[str]:
        """Two runs: the better one is continued after its pause."""
        words = ["sweep", str(experiment), "--project", str(folder), "--name", "sweep", "--device", "cpu"]
        return command(*words)

    def sweep_again(folder: Path) -> list[str]:
        begun = (folder / "sweep" / "trials.json").exists()
        return command("sweep", str(folder / "sweep"), "--resume", "--device", "cpu") if begun else sweep(folder)

    def tracksweep(folder: Path) -> list[str]:
        grid = [
            "--set",
            "match_thresh=0.5,0.6,0.7,0.8",
            "track_high_thresh=0.3,0.4,0.5,0.6",
            "--tracker",
            "botsort",
            "--workers",
            "1",
        ]
        return command(
            "tracksweep", "--detections", str(video), "--truth", str(video), *grid, "--output", str(folder / "sweep")
        )

    return {
        "train": Job(train, resume, of_states, 4),
        "val": Job(val, val, of_files("*.json")),
        "report": Job(report, report, of_files("report.html")),
        "track": Job(track, track, of_files("*.txt")),
        "tracksweep": Job(tracksweep, tracksweep, of_files("results.csv", "best.yaml")),
        "sweep": Job(sweep, sweep_again, of_states),
    }


def soak(options: argparse.Namespace, work: Path) -> int:
    started, log, tally, dice = time.monotonic(), work / "log.txt", Tally(), random.Random(options.seed)
    all_jobs = jobs(work, prepared(work))
    expected, lasts = {}, {}
    for name, job in all_jobs.items():
        folder = work / name / "whole"
        folder.mkdir(parents=True)
        begun_at = time.monotonic()
        completed(job.words(folder), log)
        lasts[name], expected[name] = time.monotonic() - begun_at, job.digest(folder)
    watch = Watch(work / "train")
    watch.start()
    disk = _bytes(work)
    names = [name for name, job in all_jobs.items() for _ in range(job.share)]
    number = 0
    try:
        while time.monotonic() - started < 60 * options.minutes and sum(tally.kills.values()) < options.kills:
            name = names[number % len(names)]
            number += 1
            _killed(name, all_jobs[name], work / name / f"k{number}", lasts[name], expected[name], log, tally, dice)
    finally:
        watch.close()
    _print(tally, watch, (time.monotonic() - started) / 60, disk, _bytes(work), lasts)
    return 1 if tally.bad or watch.failures else 0


def _killed(
    name: str, job: Job, folder: Path, lasts: float, expected: str, log: Path, tally: Tally, dice: random.Random
) -> None:
    folder.mkdir(parents=True)
    words, kills = job.words(folder), 0
    for _ in range(dice.choice((1, 1, 2))):  # now and then what is resumed is killed, too
        process = begun(words, log)
        with suppress(subprocess.TimeoutExpired):
            process.wait(dice.uniform(0.2, 1.1) * lasts)
        if process.poll() is None:
            kill(process, with_children=dice.random() < 0.5)
            kills += 1
        else:
            tally.early[name] += 1
        process.wait()
        words = job.again(folder)
    tally.kills[name] += kills
    try:
        most = completed(words, log)
        same = job.digest(folder) == expected
    except (RuntimeError, AssertionError, OSError) as error:
        tally.bad.append(f"{name}: {error}")
        return
    tally.identical[name] += same
    print(f"{name}: {kills} kills, {'identical' if same else 'different'}", file=sys.stderr, flush=True)
    left = [path.name for path in folder.rglob(".*.tmp")]
    if not same or left:
        tally.bad.append(f"{name}: " + (f"left {left}" if left else "another result"))
        return
    if name == "train":
        tally.memory.append(most)
    shutil.rmtree(folder)


def _print(tally: Tally, watch: Watch, minutes: float, before: int, after: int, lasts: dict[str, float]) -> None:
    cores, load = os.cpu_count(), os.getloadavg()[2]
    print(f"{minutes:.1f} minutes, {cores} cores, load {load:.1f}, Python {platform.python_version()}, ", end="")
    print(f"torch {torch.__version__}\n")
    print("| command | lasts (s) | kills | had ended | started again | identical |\n|---|---|---|---|---|---|")
    for name, seconds in lasts.items():
        tried = tally.identical[name] + sum(bad.startswith(name + ":") for bad in tally.bad)
        row = (name, f"{seconds:.1f}", tally.kills[name], tally.early[name], tried, tally.identical[name])
        print(f"| {' | '.join(map(str, row))} |")
    print(f"\nKills: {sum(tally.kills.values())}. Different or failed: {len(tally.bad)}.")
    for bad in tally.bad:
        print(f"- {bad}")
    if tally.memory:
        print(f"Memory of a resumed training at its most: {tally.memory[0]:.0f} MB first, {tally.memory[-1]:.0f} last.")
    first, last = watch.memory[0], watch.memory[-1]
    print(
        f"watch: {watch.answers:,} answers, {len(watch.failures)} failures, RSS {first:.0f} to {last:.0f} MB, ", end=""
    )
    print(f"descriptors {watch.files[0]} to {watch.files[-1]}, {max(watch.files)} at most.")
    print(f"Disk: {before / 1e6:.1f} MB before, {after / 1e6:.1f} MB after (what was identical is removed).")


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--kills", type=int, default=10**9, help="ends after so many, if that is earlier")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="yolofast-soak-"))
    # One thread: sums are always added in the same order. The cache is removed with the rest.
    os.environ.update(OMP_NUM_THREADS="1", YOLOFAST_CACHE=str(work / "cache"))
    try:
        return soak(options, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
