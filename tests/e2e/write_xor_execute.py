"""The command line where no memory may be written and run, as with MemoryDenyWriteExecute of systemd.

python -m tests.e2e.write_xor_execute serve --set ...
"""

from __future__ import annotations

import ctypes
import os

from gateway.cli import main

_PR_SET_MDWE = 65
"""prctl(2), Linux 6.3."""

if __name__ == "__main__":
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_MDWE, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    main()
