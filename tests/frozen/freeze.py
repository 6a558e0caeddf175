"""What a change of structure must leave alone, recorded to the bit and compared.

    python -m tests.frozen.freeze record OUT.json              this checkout; --checkout PATH takes another
    python -m tests.frozen.freeze compare OUT.json             records again and says what differs
    python -m tests.frozen.freeze compare OUT.json LATER.json  two records

Recorded are trained weights, what a training run writes and prints, reports, comparisons and diagnoses of stored runs,
evaluation and prediction, the help of every command, and the Python API. Only the command line, the drop-in scripts and
the public names are used, so that the record of any version can be compared with that of any other. Records hold on one
machine: kernels of another processor round differently. Paths, times, speeds and version numbers are left out.

`--only help api pages asked training` chooses parts. All take about three minutes of one core.
"""

import argparse
import csv
import difflib
import hashlib
import io
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).parent
INPUTS = HERE / "inputs"
OLD_RUNS = HERE / "old_runs"
SCRIPTS = ("train.py", "test.py", "detect.py")
TIMED = ("time", "img/s", "data_wait", "gpu_memory")
"""Columns of results.csv that are never twice the same."""
SHAPES = {"images": 16, "seed": 7}
OLD_SHAPES = {"images": 24, "seed": 7}
"""What the stored runs were trained on."""
MOST_LINES = 40
"""Of one difference, to print."""

COMMON = "--data {data} --img 64 --batch-size 4 --workers 0 --device cpu --cache off --no-plots --project {runs}"
THIRTY = "--epochs 8 --max-steps 30"
FEW = "--epochs 3 --hyp {inputs}/hyp.yaml --cfg {inputs}/small_yolov7.yaml"
YOLOX = "--cfg yolox-nano --set no_aug_epochs=2 basic_lr_per_img=0.003 mosaic_prob=1"
TRAININGS = {
    "yolov7": f"--cfg yolov7-tiny --hyp {{inputs}}/hyp.yaml {THIRTY}",
    "1b4h": "--cfg yolov7-tiny-1b4h --head-config {inputs}/heads.yaml --class-aware-aug --hyp {inputs}/hyp.yaml "
    + THIRTY,
    "yolox": f"{YOLOX} {THIRTY}",
    "yolov7-workers": f"--cfg yolov7-tiny --hyp {{inputs}}/hyp.yaml {THIRTY} --workers 2",
    "anchor-adam-rect": f"{FEW} --assigner anchor --optimizer adam --rect",
    "tal-multi-scale-image-weights": f"{FEW} --assigner tal --multi-scale --image-weights --close-mosaic 1",
    "anchor-then-ota-quad": f"{FEW} --ota-from-epoch 1 --quad",
    "auxiliary-heads": f"{FEW} --cfg {{inputs}}/small_aux.yaml",
    "plan-profiled-cache-disk": f"{FEW} --plan {{inputs}}/plan.yaml --profile-every 2 --save-period 1 --cache disk",
}
"""After `yolofast train`, in addition to COMMON."""
SCRIPT_TRAINING = f"{FEW} --weights="
CONFIDENCE = {"yolov7": 0.0005, "yolox": 0.0001}
"""From which the networks of the stored runs, which have hardly learnt anything, find something."""
WITH_WEIGHTS = tuple(CONFIDENCE)
"""The stored runs that can be resumed; of the others there are tables and pictures only."""
Jobs = dict[str, Callable[[], Any]]
"""What is to be recorded, by name; they may run at the same time."""


class FailedError(Exception):
    """A command that should have worked did not."""


@dataclass(frozen=True)
class Checkout:
    """A version of the project, asked through its command line from a folder of its own."""

    root: Path
    work: Path

    def run(self, *words: str) -> str:
        """What a Python process prints, normalised; its errors too."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.root),
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "COLUMNS": "100",
            "YOLOFAST_CACHE": str(self.work / "cache"),
            "PYTHONHASHSEED": "0",
        }
        done = subprocess.run(
            [sys.executable, *words], cwd=self.work, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise FailedError(f"{' '.join(words)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
        return self.normal(done.stdout + done.stderr)

    def yolofast(self, *words: str) -> str:
        return self.run("-m", "yolofast", *words)

    def normal(self, text: str) -> str:
        """Without paths, versions, and times of now."""
        for path, name in ((self.work, "WORK"), (HERE, "FROZEN"), (self.root, "ROOT"), (Path(sys.prefix), "VENV")):
            text = re.sub(r"(?:<wbr>)?".join(map(re.escape, str(path))), name, text)
        text = re.sub(r"yolofast(</td><td>| |\": \")\d+\.\d+\.\d+(?:\.?\w+)?", r"yolofast\1VERSION", text)
        text = text.replace("><", ">\n<")  # pages have few lines: a difference is to be seen
        text = re.sub(r"[\d.]+ [kMGT]?B of free", "ROOM of free", text)
        return re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d)?", "DATE", text)


def unpack(name: str, folder: Path) -> Path:
    """A copy of a stored run as it was left: its weights are stored compressed, and the best were the last."""
    run = folder / name
    shutil.copytree(OLD_RUNS / name, run)
    for packed in run.glob("weights/*.xz"):
        packed.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
        packed.unlink()
        shutil.copy(packed.with_suffix(""), packed.with_name("best.pt"))
    return run


def parts_of(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Everything in a checkpoint that is no container, with its way there."""
    if isinstance(value, dict):
        for key in value:
            yield from parts_of(value[key], f"{name}/{key}")
    elif isinstance(value, list | tuple):
        for place, entry in enumerate(value):
            yield from parts_of(entry, f"{name}/{place}")
    else:
        yield name, value


def digest(tensor: torch.Tensor) -> str:
    raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return f"{tuple(tensor.shape)} {tensor.dtype} {hashlib.sha256(raw).hexdigest()}"


def checkpoint(path: Path) -> dict[str, str]:
    """A hash for every tensor of a checkpoint, and all else as it stands."""
    content = torch.load(path, map_location="cpu", weights_only=True)
    return {
        name: digest(part) if torch.is_tensor(part) else repr(part)
        for name, part in parts_of(content)
        if not name.endswith(tuple(f"/{column}" for column in TIMED))
    }


def without_times(table: str) -> str:
    """The rows of results.csv."""
    rows = csv.DictReader(io.StringIO(table))
    return "\n".join(str({name: value for name, value in row.items() if name not in TIMED}) for row in rows)


def printed_by_training(text: str) -> str:
    """Without speeds: the last three columns of an epoch's line, and the lines of a moment."""
    lines = [line for line in text.splitlines() if not re.match(r"epoch \d+/\d+, batch", line)]
    lines = [re.sub(r"^( +\d+/\d+ .*?)( +\S+){3}$", r"\1", line) for line in lines]
    return "\n".join(re.sub(r"in [\d:]+, [\d,]+ img/s", "in TIME", line) for line in lines)


def left_by_training(checkout: Checkout, run: Path) -> dict[str, Any]:
    found: dict[str, Any] = {
        "files": "\n".join(sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file())),
        "results.csv": without_times((run / "results.csv").read_text()),
    }
    for name in ("batches.csv", "args.yaml", "hyp.yaml", "evaluation.json"):
        found[name] = checkout.normal((run / name).read_text())
    summary = json.loads((run / "summary.json").read_text())
    timed = ("train_seconds", "wall_seconds", "images_per_second", "peak_gpu_memory_gib")
    found["summary.json"] = json.dumps({key: value for key, value in summary.items() if key not in timed}, indent=1)
    found["last.pt"] = {name: checkout.normal(value) for name, value in checkpoint(run / "weights/last.pt").items()}
    found["best.pt"] = {name: checkout.normal(value) for name, value in checkpoint(run / "weights/best.pt").items()}
    return found


def training(checkout: Checkout) -> Jobs:
    runs = checkout.work / "runs"
    data = shapes(checkout, "shapes", **SHAPES)
    old_data = shapes(checkout, "old_shapes", **OLD_SHAPES)

    def words(text: str, name: str) -> list[str]:
        return [*f"{COMMON} {text}".format(data=data, runs=runs, inputs=INPUTS).split(), "--name", name]

    def trained(name: str, program: tuple[str, ...], text: str) -> Any:
        output = checkout.run(*program, *words(text, name))
        found = {"output": printed_by_training(output), **left_by_training(checkout, runs / name)}
        shutil.rmtree(runs / name)
        return found

    def resumed(name: str) -> Any:
        run = unpack(name, checkout.work / "resumed")
        output = checkout.yolofast("train", "--resume", str(run), "--data", str(old_data))
        return {"output": printed_by_training(output), **left_by_training(checkout, run)}

    command, script = ("-m", "yolofast", "train"), (str(checkout.root / "train.py"),)
    plan = words(f"{FEW} --plan {{inputs}}/plan.yaml --explain", "explained")
    return {
        **{f"train {name}": partial(trained, name, command, text) for name, text in TRAININGS.items()},
        "train.py": partial(trained, "train.py", script, SCRIPT_TRAINING),
        **{f"resume {name}": partial(resumed, name) for name in WITH_WEIGHTS},
        "train --explain": partial(checkout.yolofast, "train", *plan),
    }


def shapes(checkout: Checkout, name: str, images: int, seed: int) -> Path:
    checkout.yolofast("dataset", "shapes", "--out", name, "--n", str(images), "--seed", str(seed))
    return checkout.work / name / "data.yaml"


def pages(checkout: Checkout) -> Jobs:
    stored = [unpack(path.name, checkout.work / "stored") for path in sorted(OLD_RUNS.iterdir())]
    names = list(map(str, stored))

    def written(words: list[str], page: Path, markdown: Path) -> dict[str, str]:
        output = checkout.yolofast(*words, "--output", str(page), "--markdown", str(markdown))
        return {"output": output, **{path.name: checkout.normal(path.read_text()) for path in (page, markdown)}}

    jobs: Jobs = {}
    for run in stored:
        page, markdown = (checkout.work / f"{run.name}.{ending}" for ending in ("html", "md"))
        jobs[f"report {run.name}"] = partial(written, ["report", str(run)], page, markdown)
        jobs[f"diagnose {run.name}"] = partial(checkout.yolofast, "diagnose", str(run))
        jobs[f"diagnose --json {run.name}"] = partial(checkout.yolofast, "diagnose", str(run), "--json")
    page, markdown = (checkout.work / f"compare.{ending}" for ending in ("html", "md"))
    jobs["compare"] = partial(written, ["compare", *names, "--price", "2.5"], page, markdown)
    jobs["compare --json"] = partial(checkout.yolofast, "compare", *names, "--json", "--output", "beside.html")
    return jobs


def asked(checkout: Checkout) -> Jobs:
    """Prediction and evaluation with stored weights, by the commands and by the scripts."""
    return {f"predict, val {name}": partial(predicted_and_evaluated, checkout, name) for name in WITH_WEIGHTS}


def predicted_and_evaluated(checkout: Checkout, name: str) -> dict[str, str]:
    """Every second detection is then taken for true: networks this small find nothing, and all scores would be 0."""
    data = shapes(checkout, f"asked_{name}", **OLD_SHAPES)
    project = checkout.work / "asked_runs" / name
    weights = unpack(name, checkout.work / "asked") / "weights" / "best.pt"
    common = (
        f"--weights {weights} --project {project} --img 64 --device cpu --save-txt --conf {CONFIDENCE[name]}".split()
    )
    pictures = data.parent / "images" / "val"
    programs = {"predict": ["-m", "yolofast", "predict", "--source", str(pictures)]}
    if name == "yolov7":
        programs["detect.py"] = [str(checkout.root / "detect.py"), "--source", str(pictures)]
    found: dict[str, str] = {}
    for title, program in programs.items():
        found[f"{title} output"] = checkout.run(*program, *common, "--name", title)
        for labels in sorted((project / title).rglob("*.txt")):
            found[f"{title} {labels.name}"] = labels.read_text()
            true = labels.read_text().splitlines()[::2]
            (data.parent / "labels" / "val" / labels.name).write_text("".join(f"{row}\n" for row in true))
    programs = {"val": ["-m", "yolofast", "val", "--verbose", "--data", str(data)]}
    if name == "yolov7":
        programs["test.py"] = [str(checkout.root / "test.py"), "--verbose", "--data", str(data)]
    for title, program in programs.items():
        found[f"{title} output"] = checkout.run(*program, *common, "--name", title)
        found |= {f"{title} {path.name}": path.read_text() for path in sorted((project / title).rglob("*.txt"))}
    return {key: re.sub(r"[\d.,]+ ?(?:ms|s|img/s|per second)\b", "TIME", text) for key, text in found.items()}


def helps(checkout: Checkout) -> Jobs:
    overview = checkout.yolofast("--help")
    commands = re.findall(r"^    (\w+) ", overview, flags=re.MULTILINE)
    return {
        "--help": lambda: overview,
        **{f"{command} --help": partial(checkout.yolofast, command, "--help") for command in commands},
        **{f"{name} --help": partial(checkout.run, str(checkout.root / name), "--help") for name in SCRIPTS},
    }


def api(checkout: Checkout) -> Jobs:
    def probed() -> Any:
        run = unpack("yolov7", checkout.work / "api")
        data = shapes(checkout, "api_shapes", **SHAPES)
        picture = data.parent / "images" / "val" / "000000.jpg"
        arguments = [str(run), str(INPUTS / "small_yolov7.yaml"), str(INPUTS / "heads.yaml"), str(picture)]
        found = json.loads(checkout.run(str(HERE / "probe_api.py"), *arguments))
        return {part: {name: str(value) for name, value in found[part].items()} for part in found}

    return {"python api": probed}


PARTS = {"help": helps, "api": api, "pages": pages, "asked": asked, "training": training}


def record(root: Path, only: list[str], at_once: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(at_once) as pool:
        checkout = Checkout(root.resolve(), Path(folder).resolve())
        jobs = {name: job for part in only for name, job in PARTS[part](checkout).items()}
        started = {name: pool.submit(outcome, job) for name, job in jobs.items()}
        return {name: job.result() for name, job in started.items()}


def outcome(job: Callable[[], Any]) -> Any:
    """What a job records; one that fails says so, and the others continue."""
    try:
        return job()
    except FailedError as error:
        return {"failed": str(error)}


def differences(before: Any, after: Any, name: str = "") -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from differences(before.get(key), after.get(key), f"{name} › {key}" if name else key)
    elif before != after:
        lines = list(difflib.unified_diff(*(str(text).splitlines() for text in (before, after)), lineterm="", n=1))
        more = [f"… {len(lines) - MOST_LINES} more lines"] if len(lines) > MOST_LINES else []
        yield "\n    ".join([name, *(line[:400] for line in lines[2:MOST_LINES]), *more])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("record", type=Path, help="file to write, or to compare with")
    parser.add_argument("later", type=Path, nargs="?", help="a second record; by default one is made now")
    parser.add_argument("--checkout", type=Path, default=HERE.parents[1], help="the project's folder: %(default)s")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="default: all parts")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="processes at once: %(default)s")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="compare: write the new record too")
    args = parser.parse_args()
    found = json.loads(args.later.read_text()) if args.later else record(args.checkout, args.only, args.at_once)
    if args.what == "record" or args.keep:
        (args.record if args.what == "record" else args.keep).write_text(json.dumps(found, indent=1))
    if args.what == "record":
        broken = {name: value for name, value in found.items() if isinstance(value, dict) and "failed" in value}
        failed = [f"{name}: {value['failed']}" for name, value in broken.items()]
        print("\n".join(failed), end="")
        return 1 if failed else 0
    before = json.loads(args.record.read_text())
    if args.only != list(PARTS):
        before = {name: value for name, value in before.items() if name in found}
    lines = list(differences(before, found))
    print("\n".join(lines) if lines else f"the same: {len(found)} records")
    print(f"{len(lines)} differences", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
