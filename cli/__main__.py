"""The program's entry: as little as possible is imported before Ctrl-C is handled."""

import gc
import signal
import sys


def main() -> None:
    """Run a command; exit 0 done, 1 it ran and the answer is no, 2 bad input, 130 interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        # What is imported stays: to look for garbage in it again and again would take a tenth of a short command.
        # Enabled again when the command's module is there, see `main.command`.
        gc.disable()
        from .main import run

        status = run(sys.argv[1:])
    except KeyboardInterrupt:
        # Before the command line took over, or after it.
        sys.stderr.write("interrupted\n")
        status = 130
    sys.exit(status)


if __name__ == "__main__":
    main()
