"""Runs ``emulate`` from Python: each function makes results and opens them.

Options of a command are keyword arguments: ``simulate("plan.toml", seed=2, duration="30s")`` is
``emulate simulate plan.toml --seed 2 --duration 30s``. ``True`` is a flag, a list becomes names with commas.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .results import Run, Sweep

Option = str | int | float | bool | Sequence[str] | None

NOT_VALID = 4
"""The exit code of a run whose figures cannot be trusted."""


class EmulateError(Exception):
    """``emulate`` is not there, or failed: the message is its own."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


def run(plan: str | Path, folder: str | Path | None = None, **options: Option) -> Run:
    """Runs a plan, or a network with programs, with real daemons. ``is_valid`` tells whether to trust it."""
    return Run.open(_results("run", plan, folder, options))


def simulate(plan: str | Path, folder: str | Path | None = None, **options: Option) -> Run:
    """Runs a plan in virtual time. For several seeds use ``sweep``."""
    return Run.open(_results("simulate", plan, folder, options))


def sweep(plan: str | Path, folder: str | Path | None = None, **options: Option) -> Sweep:
    """Runs every combination of a plan's ``[sweep]`` table; with ``simulate=True`` in virtual time."""
    return Sweep.open(_results("sweep", plan, folder, options))


def find_emulate() -> Path:
    """``emulate`` in the folder of ``ROOST_PROGRAMS``, else in the search path."""
    folder = os.environ.get("ROOST_PROGRAMS")
    found = shutil.which("emulate", path=folder) if folder else shutil.which("emulate")
    if found is None:
        raise EmulateError("`emulate` is not in the search path: install it, or name its folder in ROOST_PROGRAMS")
    return Path(found).resolve()


def _results(command: str, plan: str | Path, folder: str | Path | None, options: dict[str, Option]) -> Path:
    """Calls a command, and returns the folder of its results: a new one, which stays, unless one is named."""
    target = Path(folder) if folder is not None else Path(tempfile.mkdtemp(prefix="roost-"))
    words = [str(find_emulate()), command, str(plan), "--output", str(target), *_flags(options)]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    if ended.returncode not in (0, NOT_VALID):
        raise EmulateError(ended.stderr.strip() or f"emulate {command} ended with {ended.returncode}", ended.returncode)
    return target


def _flags(options: dict[str, Option]) -> list[str]:
    words: list[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif isinstance(value, (str, int, float)):
            words += [flag, str(value)]
        else:
            words += [flag, ",".join(value)]
    return words
