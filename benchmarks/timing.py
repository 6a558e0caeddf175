"""Timing on a GPU: medians of CUDA events, graphs captured and replayed, peak memory above what was there."""

import platform
import statistics
from collections.abc import Callable

import torch


def median_ms(work: Callable[[], object], repeats: int = 30, warmup: int = 5) -> float:
    for _ in range(warmup):
        work()
    times = []
    for _ in range(repeats):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop))
    return statistics.median(times)


def captured(work: Callable[[], object]) -> Callable[[], None]:
    """The same work as one CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def peak_mib(work: Callable[[], object]) -> float:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def environment() -> str:
    if not torch.cuda.is_available():
        return f"CPU, {torch.get_num_threads()} threads, torch {torch.__version__}, python {platform.python_version()}"
    import triton

    name = torch.cuda.get_device_name()
    return f"{name}, torch {torch.__version__}, triton {triton.__version__}, python {platform.python_version()}"
