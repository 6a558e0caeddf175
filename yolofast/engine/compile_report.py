"""What torch makes of the step: one graph or several, where it breaks and why. Nothing is compiled for it."""

from typing import Any

import torch

from yolofast.engine.step import TrainStep
from yolofast.structures import Batch


def compile_report(step: TrainStep, batch: Batch) -> str:
    torch._dynamo.reset()
    found: Any = torch._dynamo.explain(step.loss_of)(batch.images, batch.targets)
    torch._dynamo.reset()
    lines = [
        f"torch {torch.__version__}, {step.precision.device}, images {tuple(batch.images.shape)} {batch.images.dtype}",
        f"graphs: {found.graph_count}, breaks: {found.graph_break_count}, operations: {found.op_count}",
    ]
    lines += [_break(number, reason) for number, reason in enumerate(found.break_reasons, start=1)]
    if found.graph_count == 1 and not found.graph_break_count:
        lines.append("from images to losses in one graph: it can be compiled and captured whole")
    else:
        lines.append("it cannot be compiled whole: --gear compile and graph will fall back to the step as written")
    return "\n".join(lines)


def _break(number: int, reason: Any) -> str:
    frame = reason.user_stack[-1] if reason.user_stack else None
    where = f" at {frame.filename}:{frame.lineno} ({frame.line})" if frame is not None else ""
    return f"break {number}: {str(reason.reason).strip().splitlines()[0]}{where}"
