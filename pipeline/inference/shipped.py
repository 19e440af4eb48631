"""Loads what was compiled when the package was installed, where nothing can be written any more.

numba 0.68 uses a cache only in a folder that it can write to. In an image with a read-only root it
would compile everything at every start, for a minute.
"""

import os
from typing import Any

from numba.core import caching


class InstalledFolder(caching.InTreeCacheLocator):
    """The folder beside the source, whether it can be written or not."""

    def ensure_cache_path(self) -> None:
        """Leave it as it is."""
        if not os.path.isdir(self._cache_path):
            raise NotADirectoryError


class InstalledResults(caching.CompileResultCacheImpl):
    """Compiled functions in that folder."""

    _locator_classes = [InstalledFolder]  # noqa: RUF012  # numba's own is a list


class ShippedCache(caching.FunctionCache):
    """A cache that is only read."""

    _impl_class = InstalledResults

    def save_overload(self, sig: Any, data: Any) -> None:
        """Nothing: what is not there is compiled again by the next process."""
