from shutil import which

import pytest

needs_curl = pytest.mark.skipif(which("curl") is None, reason="curl is not installed")
