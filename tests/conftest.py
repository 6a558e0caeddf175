import gc
import importlib
import os
import shutil
import signal
from contextlib import suppress

import pytest
import torch
from filelock import FileLock
from hypothesis import HealthCheck, settings

from tests.quick_gate import QuickGate
from tests.train.small_run import flags
from yolofast.cli import main
from yolofast.interrupts import STOPS

# Test workers and the programs they start share the machine's cores: threads that fight over them take far longer.
THREADS = max(1, (os.cpu_count() or 2) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
torch.set_num_threads(THREADS)
os.environ["OMP_NUM_THREADS"] = str(THREADS)

# Some virtual machines announce AMX and refuse its instructions, which oneDNN takes for bfloat16.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

# OpenCV reads it at the first video of a process, which here may be one that a test makes.
os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")

# Torch would compile and load three programs to see whether this processor is what it says, in each empty cache.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")

# Random examples find faults while developing; in CI the same examples run every time: red means a change did it.
# Neither has a clock: busy machines are slow, not wrong.
TIMELESS = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", derandomize=True, **TIMELESS)
settings.register_profile("dev", **TIMELESS)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

# A shell makes what it runs in the background deaf to Ctrl+C, `nohup` to closed terminals, and the programs that tests
# start and stop with it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for number in STOPS:
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """One more than cores: tests wait for processes, pages and clocks, and others compute meanwhile."""
    return (os.cpu_count() or 2) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Modules and tests stay: whoever looks for garbage among them finds none, and takes a third of the time to collect
    them, and again and again while they run."""
    gc.disable()
    try:
        _import_own_part(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _import_own_part(config):
    """In a new clone what pytest makes of the files of tests takes longer than all imports: no two workers begin with
    the same files, and each finds those of the others made."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    own, workers = int(os.environ["PYTEST_XDIST_WORKER"][len("gw") :]), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    given = [config.invocation_params.dir / word.partition("::")[0] for word in config.args]
    files = sorted(file for path in given for file in ([path] if path.is_file() else path.rglob("test_*.py")))
    for file in files[own::workers]:
        with suppress(Exception, pytest.skip.Exception):  # collecting it says why
            importlib.import_module(".".join(file.relative_to(config.rootpath).with_suffix("").parts))


def pytest_configure(config):
    config.pluginmanager.register(QuickGate())


@pytest.fixture(autouse=True)
def _fixed_seed():
    if torch.cuda.is_available():
        torch.manual_seed(0)
    else:  # without 2 ms for notes of who seeded GPUs
        torch.default_generator.manual_seed(0)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
    """Of all test workers, new with every run of the tests."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def trained_folder(shared_folder):
    """One small run for all tests that only look at one: its data in `shapes`, its folder `runs/run`.

    Three epochs of six batches, the last one without mosaics. It belongs to all test workers, the first that needs it
    trains it: whoever changes something copies it.
    """
    folder = shared_folder / "trained"
    with FileLock(folder.with_suffix(".lock")), pytest.MonkeyPatch.context() as patch:
        if not (folder / "runs" / "run" / "report.html").exists():  # the last thing a run leaves
            shutil.rmtree(folder, ignore_errors=True)
            patch.setenv("YOLOFAST_CACHE", str(folder / "cache"))
            assert main(["train", *flags(folder, batch_size=4, name="run", cfg="mini"), "--close-mosaic", "1"]) == 0
    return folder


@pytest.fixture
def one_thread():
    """For tests of time: two threads on a busy machine wait for one another."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
