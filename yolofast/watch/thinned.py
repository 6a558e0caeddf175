"""A curve of any length in a bounded number of points: mean, lowest and highest of equal stretches.

Two neighbours become one when there are too many, so that nothing is kept twice and nothing has to be read again; where
a stretch begins is therefore known only to its width.
"""

MOST = 1200


class Thinned:
    def __init__(self) -> None:
        self.count, self.width = 0, 1
        self._sums: list[float] = []
        self._known: list[int] = []
        self._low: list[float] = []
        self._high: list[float] = []

    def add(self, value: float | None) -> None:
        """None takes a place without having a value."""
        if self.count == len(self._sums) * self.width:
            self._next_stretch()
        self.count += 1
        if value is not None:
            self._sums[-1] += value
            self._known[-1] += 1
            self._low[-1] = min(self._low[-1], value)
            self._high[-1] = max(self._high[-1], value)

    def points(self) -> dict[str, list[float | None]]:
        """x counts values from 1 and is the middle of a stretch; None where nothing is known."""
        stretches = range(len(self._sums))
        known = [bool(count) for count in self._known]
        ends = [min((i + 1) * self.width, self.count) for i in stretches]
        return {
            "x": [(i * self.width + 1 + end) / 2 for i, end in enumerate(ends)],
            "y": [self._sums[i] / self._known[i] if known[i] else None for i in stretches],
            "low": [self._low[i] if known[i] else None for i in stretches],
            "high": [self._high[i] if known[i] else None for i in stretches],
        }

    def _next_stretch(self) -> None:
        if len(self._sums) == MOST:
            self._halve()
        self._sums.append(0.0)
        self._known.append(0)
        self._low.append(float("inf"))
        self._high.append(float("-inf"))

    def _halve(self) -> None:
        self._sums = [a + b for a, b in zip(self._sums[::2], self._sums[1::2], strict=True)]
        self._known = [a + b for a, b in zip(self._known[::2], self._known[1::2], strict=True)]
        self._low = [min(pair) for pair in zip(self._low[::2], self._low[1::2], strict=True)]
        self._high = [max(pair) for pair in zip(self._high[::2], self._high[1::2], strict=True)]
        self.width *= 2
