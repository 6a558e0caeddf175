"""Profiles made up for tests: a healthy one, to be spoilt."""

from dataclasses import replace

from yolofast.profile.records import Ceilings, PhaseFigures, Profile, Setup, TimeSpread, Usage, Work
from yolofast.profile.step_phases import (
    ASSIGN,
    AUGMENT,
    BACKWARD,
    DATA_WAIT,
    EMA,
    FORWARD,
    LOSS,
    OPTIMIZER,
    REST,
    TO_DEVICE,
)

HEALTHY = {
    DATA_WAIT: 0.1, TO_DEVICE: 0.0, AUGMENT: 0.0, FORWARD: 3.5, ASSIGN: 0.4, LOSS: 0.4, BACKWARD: 5.0, OPTIMIZER: 0.3,
    EMA: 0.2, REST: 0.1,
}  # fmt: skip
ON_GPU = Setup(
    network="yolov7-tiny", data="voc.yaml", height=320, width=320, batch=64, assigner="ota", device="H200", on_gpu=True,
    precision="bf16", gear="graph, compiled", captured=True, compiled=True, graph_failed="", compile_failed="",
    loader="gpu", workers=8, cores=16, cache="gpu", epoch=150, epochs=300,
)  # fmt: skip
ON_CPU = replace(
    ON_GPU, device="EPYC", on_gpu=False, precision="fp32", gear="eager", captured=False, compiled=False,
    loader="workers", workers=4, cores=8, cache="ram",
)  # fmt: skip


def made_up(setup=ON_GPU, asleep=None, medians=None, usage=None, **more) -> Profile:
    """Phases by name as `phases`, milliseconds, in place of the healthy ones."""
    phases = HEALTHY | more.pop("phases", {})
    total = sum(phases.values())
    busy = (
        {"gpu_busy": 0.97, "gpu_busy_by": "kernels", "gpu_memory_gib": 10.0} if setup.on_gpu else {"worker_cpu": 50.0}
    )
    figures = tuple(
        PhaseFigures(
            name=name, mean_ms=ms, std_ms=0.0, median_ms=(medians or {}).get(name, ms), share=ms / total,
            asleep_ms=(asleep or {}).get(name, 0.0),
        )
        for name, ms in phases.items()
    )  # fmt: skip
    return Profile(
        setup=setup, steps=50, step=TimeSpread(total, 0.1, 50), phases=figures, measured_by="by hand",
        usage=Usage(**({"main_cpu": 30.0} | busy | (usage or {}))),
        work=Work(flops=4e12, bytes=8e9), ceilings=Ceilings(flops=8e14, bytes=4e12, sent_bytes=5e10), **more,
    )  # fmt: skip
