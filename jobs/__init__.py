"""A file beside this one is a job: an entry point of spark-submit, with `main(argv)`."""

from collections.abc import Callable, Sequence
from importlib import import_module


def job(name: str) -> Callable[[Sequence[str]], int]:
    """Return `main` of jobs/NAME.py: it takes a command line, and returns the exit status."""
    main: Callable[[Sequence[str]], int] = import_module(f"{__name__}.{name}").main
    return main
