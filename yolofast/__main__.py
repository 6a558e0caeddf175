"""Where `yolofast` and `python -m yolofast` start."""

import sys

from yolofast.interrupts import interrupts_end_at_once


def main() -> int:
    interrupts_end_at_once()
    from yolofast.cli import main as run_command  # only now: it takes a tenth of a second, and torch some more
    from yolofast.exit_codes import end_at_once
    from yolofast.files.threads import still_reading_ahead

    code = run_command()
    if still_reading_ahead():
        end_at_once(code)  # Python would end that thread in the midst of compiled code, which aborts the process
    return code


if __name__ == "__main__":
    sys.exit(main())
