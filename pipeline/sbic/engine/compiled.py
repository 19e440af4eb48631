"""Decorators that compile numeric loops with numba; without numba the loops run as Python."""

import logging
import re
from collections.abc import Callable
from functools import cache, partial
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from threading import Timer
from time import monotonic
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

numba: Any
try:
    numba = import_module("numba")
except ModuleNotFoundError:
    numba = None

IS_COMPILED = numba is not None

NOTICE_AFTER_SECONDS = 2.0


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on first call, and keep the result for later processes."""
    return function if numba is None else _compile(function, error_model="numpy")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """As `compiled`, for code that creates no arrays and so needs no reference counts.

    numba counts references to every array at every call between compiled functions: with a tuple
    of arrays this took three quarters of the time (0.61 to 0.68). A kernel also releases the GIL.
    """
    if numba is None:
        return function
    return _compile(function, error_model="numpy", nogil=True, _nrt=False)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """As `kernel`, copied into its callers: a call passes each of the arrays of the state."""
    if numba is None:
        return function
    return _compile(function, error_model="numpy", nogil=True, _nrt=False, inline="always")


def uncompiled(function: Callable[P, R]) -> Callable[P, R]:
    """Return the Python function behind a compiled one."""
    python: Callable[P, R] = getattr(function, "py_func", function)
    return python


def _compile(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    dispatcher: Any = numba.njit(**options)(function)
    try:
        _enable_caching(dispatcher)
    except RuntimeError:  # no folder for a cache
        return dispatcher  # type: ignore[no-any-return]
    kept = dispatcher._cache
    # numba 0.68 uses a cached function as long as its own file is unchanged, although the functions
    # that it calls and the constants that it uses come from other files.
    cached = kept._cache_file
    cached._source_stamp = (cached._source_stamp, _digest_of(Path(function.__code__.co_filename)))
    kept.load_overload = partial(_load, kept)
    return dispatcher  # type: ignore[no-any-return]


def _load(kept: Any, signature: Any, target: Any) -> Any:
    """Load a compiled function, without what only compiling needs.

    numba 0.68 first imports how it compiles every function of Python and numpy: half of the time
    that it takes to load what an instance runs. It does that again before it compiles.
    """
    import_module("numba.core.runtime").rtsys.initialize(target)
    with kept._guard_against_spurious_io_errors():
        return kept._load_overload(signature, target)


def _enable_caching(dispatcher: Any) -> None:
    """Cache in the package's folder or the user's; if neither is writable, read the package's."""
    try:
        dispatcher.enable_caching()
    except RuntimeError:
        dispatcher._cache = _shipped_cache()(dispatcher.py_func)


@cache
def _shipped_cache() -> Any:
    """Return a cache of functions that were compiled at installation, for a read-only file system.

    numba 0.68 uses a cache only if it can write to its folder. In an image with a read-only root it
    would compile everything at every start, for a minute.
    """
    caching = import_module("numba.core.caching")

    class InstalledFolder(caching.InTreeCacheLocator):  # type: ignore[name-defined,misc]
        def ensure_cache_path(self) -> None:
            """Require that the folder exists; do not try to create or write it."""
            if not Path(self._cache_path).is_dir():
                raise NotADirectoryError

    class InstalledResults(caching.CompileResultCacheImpl):  # type: ignore[name-defined,misc]
        _locator_classes = [InstalledFolder]  # noqa: RUF012  # numba's own is a list

    class ShippedCache(caching.FunctionCache):  # type: ignore[name-defined,misc]
        _impl_class = InstalledResults

        def save_overload(self, sig: Any, data: Any) -> None:
            """Do nothing: the next process compiles what is missing again."""

    return ShippedCache


PACKAGE, *_ = __name__.split(".")
ROOT = Path(__file__).parents[1]
IMPORT = re.compile(
    rf"^from ({PACKAGE}[\w.]*) import (\([^)]*\)|.*)|^import ({PACKAGE}[\w.]*)", re.M
)


@cache
def _digest_of(path: Path) -> str:
    """Hash the content of a file and of all files of the package that it imports, however.

    A compiled function contains the functions that it calls and the constants that it uses.
    """
    files, waiting = {path: path.read_bytes()}, [path]
    while waiting:
        for imported in _imported_by(waiting.pop()):
            if imported not in files:
                files[imported] = imported.read_bytes()
                waiting.append(imported)
    return sha256(b"".join(files[path] for path in sorted(files))).hexdigest()


@cache
def _imported_by(path: Path) -> list[Path]:
    names: set[str] = set()
    for match in IMPORT.finditer(path.read_text()):
        module = match[1] or match[3]
        names.add(module)
        names.update(f"{module}.{name}" for name in re.findall(r"\w+", match[2] or ""))
    places = [ROOT.joinpath(*name.split(".")[1:]) for name in sorted(names)]
    files = [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")]
    return [file for file in files if file.is_file()]


class _CompileNotice:
    """Logs once that functions are being compiled, when that takes noticeably long."""

    def __init__(self) -> None:
        self._seconds_left = NOTICE_AFTER_SECONDS
        self._depth = 0
        self._start = 0.0
        self._timer: Timer | None = None

    def on_start(self, event: Any) -> None:
        """Start the timer with the outermost function; those that it calls are nested."""
        self._depth += 1
        if self._depth == 1 and self._seconds_left > 0:
            self._start = monotonic()
            self._timer = Timer(self._seconds_left, self._log)
            self._timer.daemon = True
            self._timer.start()

    def on_end(self, event: Any) -> None:
        """Stop the timer when the outermost function is compiled."""
        self._depth -= 1
        if self._depth == 0 and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._seconds_left -= monotonic() - self._start

    def _log(self) -> None:
        self._seconds_left = 0.0
        logging.getLogger(__name__).warning(
            "compiling, once: this takes some seconds; later starts load the result"
        )


_notice = _CompileNotice()


def _listen() -> None:
    """Watch what numba compiles of this package only."""
    events = import_module("numba.core.event")

    class Listener(events.Listener):  # type: ignore[name-defined,misc]
        def notify(self, event: Any) -> None:
            if event.data["dispatcher"].py_func.__module__.startswith(f"{PACKAGE}."):
                super().notify(event)

        on_start = staticmethod(_notice.on_start)
        on_end = staticmethod(_notice.on_end)

    events.register("numba:compile", Listener())


if IS_COMPILED:
    _listen()
