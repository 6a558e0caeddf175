"""Where `yolofast` and `python -m yolofast` start."""

import sys

from yolofast.interrupts import interrupts_end_at_once


def main() -> int:
    interrupts_end_at_once()
    from yolofast.cli import main as run_command  # only now: it takes a tenth of a second, and torch some more

    return run_command()


if __name__ == "__main__":
    sys.exit(main())
