"""What an optimizer knows of its parameters, taken along when they are grouped anew."""

from collections.abc import Mapping, Sequence

from torch import Tensor


def by_parameter(params: Sequence[Sequence[Tensor]], known: Sequence[Sequence[Tensor]]) -> dict[int, Tensor]:
    """`known` by the identity of the parameter it belongs to."""
    pairs = zip(params, known, strict=True)
    return {id(p): k for group, of_group in pairs for p, k in zip(group, of_group, strict=True)}


def carried(
    known: Mapping[int, Tensor], params: Sequence[Sequence[Tensor]], fresh: Sequence[Sequence[Tensor]]
) -> list[list[Tensor]]:
    """What is known of the parameters, and `fresh` for the new ones."""
    return [
        [known.get(id(p), new) for p, new in zip(group, of_group, strict=True)]
        for group, of_group in zip(params, fresh, strict=True)
    ]
