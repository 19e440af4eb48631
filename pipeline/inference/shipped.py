"""Loads functions that were compiled at installation, where the file system is read-only.

numba 0.68 uses a cache only if it can write to its folder. In an image with a read-only root it
would compile everything at every start, for a minute.
"""

import os
from typing import Any

from numba.core import caching


class InstalledFolder(caching.InTreeCacheLocator):
    """The folder beside the source, writable or not."""

    def ensure_cache_path(self) -> None:
        """Require that the folder exists; do not try to create or write it."""
        if not os.path.isdir(self._cache_path):
            raise NotADirectoryError


class InstalledResults(caching.CompileResultCacheImpl):
    """Compiled functions in that folder."""

    _locator_classes = [InstalledFolder]  # noqa: RUF012  # numba's own is a list


class ShippedCache(caching.FunctionCache):
    """A cache that is only read."""

    _impl_class = InstalledResults

    def save_overload(self, sig: Any, data: Any) -> None:
        """Do nothing: the next process compiles what is missing again."""
