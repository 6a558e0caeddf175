"""Tensors on their way from the device to the host, so that whoever launches work need not wait for them.

The copy is queued behind what the current stream does now and goes to pinned memory; an event says when it is there.
That memory is given back to torch's allocator, which does not reuse it before the copy is over. On a CPU there is
nothing to wait for.
"""

from torch import Tensor, cuda


class HostCopy:
    """`get()` waits, in any thread, and lets other Python threads run meanwhile."""

    def __init__(self, *tensors: Tensor) -> None:
        self._tensors = tuple(tensor.to("cpu", non_blocking=tensor.is_cuda) for tensor in tensors)
        self._done: cuda.Event | None = None
        if tensors[0].is_cuda:
            self._done = cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            self._done.record(cuda.current_stream(tensors[0].device))

    def get(self) -> tuple[Tensor, ...]:
        if self._done is not None:
            self._done.synchronize()
        return self._tensors
