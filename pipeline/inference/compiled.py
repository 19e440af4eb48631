"""One decorator: compile a loop over numbers with numba where the `research` extra is installed."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

numba: Any
try:
    numba = import_module("numba")
except ModuleNotFoundError:
    numba = None

IS_COMPILED = numba is not None


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on first call and cache on disk; without numba the same Python runs, slower."""
    if numba is None:
        return function
    kernel: Callable[P, R] = numba.njit(cache=True, error_model="numpy")(function)
    return kernel
