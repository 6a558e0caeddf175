"""Which layers `--freeze` means."""

from collections.abc import Sequence

from yolofast.errors import UserError


def frozen_layers(values: Sequence[int], layers: int) -> frozenset[int]:
    """One value N freezes layers 0 to N-1; several values freeze exactly those layers."""
    frozen = frozenset(range(values[0])) if len(values) == 1 else frozenset(values)
    if any(index < 0 or index >= layers for index in frozen) or any(v < 0 for v in values):
        given = " ".join(map(str, values))
        fix = f"the model has layers 0 to {layers - 1}: give a count up to {layers}, or layer numbers"
        raise UserError(f"--freeze {given} names a layer that does not exist", fix=fix)
    return frozen
