"""Are the kernels programs that a GPU takes? Triton compiles for one that is not there.

The interpreter runs Python: types that do not fit, and loops over what a compiler does not know, pass there. So each
launch of the comparisons is noted, and what is noted is compiled to machine code, for cards of four generations.

    TRITON_INTERPRET=1 python -m tests.kernel_launches note NOTES MODULE   # runs it
    python -m tests.kernel_launches compile NOTES [CAPABILITY …]
"""

import importlib
import json
import runpy
import sys
import tempfile
from pathlib import Path

import torch
import triton

POINTERS = {
    torch.float64: "*fp64", torch.float32: "*fp32", torch.float16: "*fp16", torch.bfloat16: "*bf16",
    torch.int64: "*i64", torch.int32: "*i32", torch.int16: "*i16", torch.int8: "*i8", torch.uint8: "*u8",
    torch.bool: "*i1",
}  # fmt: skip
OF_THE_LAUNCH = ("num_warps", "num_stages", "launch_cooperative_grid")


def note(file, module):
    """Runs the module as a program, and writes down every kind of launch."""
    from triton.runtime.interpreter import GridExecutor

    launch, found = GridExecutor.__call__, {}

    def noted(self, *given, **named):
        kind = {"module": self.fn.__module__, "name": self.fn.__name__}
        kind |= {"given": [_described(one) for one in given], "named": {k: _described(v) for k, v in named.items()}}
        found[json.dumps(kind)] = None
        return launch(self, *given, **named)

    GridExecutor.__call__ = noted
    try:
        runpy.run_module(module, run_name="__main__")
    finally:
        Path(file).write_text("\n".join(found))


def _described(value):
    """Its Triton type, or itself."""
    if isinstance(value, torch.Tensor):
        return {"type": POINTERS[value.dtype]}
    return {"value": getattr(value, "value", value)}


def compile_all(file, capabilities):
    """How many programs there are for each kernel. Of many that differ in sizes only the first is compiled.

    For the last card all kinds are, for the others each kernel once.
    """
    tried = {}
    for line in Path(file).read_text().splitlines():
        launch = json.loads(line)
        kernel = getattr(importlib.import_module(launch["module"]), launch["name"])
        program = _program(kernel, launch)
        done = tried.setdefault(launch["name"], [])
        kind = program[0], {k: v for k, v in program[1].items() if isinstance(v, bool | None)}
        if kind in done:
            continue
        for capability in capabilities[-1:] if done else capabilities:
            _compile(kernel, *program, int(capability))
        done.append(kind)
    return {name: len(kinds) for name, kinds in tried.items()}


def _program(kernel, launch):
    """Its signature and constants."""
    given = dict(zip(kernel.arg_names, launch["given"], strict=False)) | launch["named"]
    signature, constants = {}, {}
    for place, parameter in enumerate(kernel.params):
        one = given.get(parameter.name, {"value": parameter.default})
        value = one.get("value")
        if parameter.name == "PHASE":
            value = 0  # a GPU does both halves in one launch
        if "type" in one:
            signature[parameter.name] = one["type"]
        elif parameter.is_constexpr or value is None:
            signature[parameter.name], constants[(place,)] = "constexpr", value
        else:
            signature[parameter.name] = "fp32" if isinstance(value, float) else "i32"
    return signature, constants


def _compile(kernel, signature, constants, capability):
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    triton.compile(ASTSource(kernel, signature, constants), target=GPUTarget("cuda", capability, 32))


if __name__ == "__main__":
    what, file, *rest = sys.argv[1:]
    if what == "note":
        note(file, *rest)
    else:
        with tempfile.TemporaryDirectory() as folder:
            triton.knobs.cache.dir = folder
            print(json.dumps(compile_all(file, rest or [90])))
