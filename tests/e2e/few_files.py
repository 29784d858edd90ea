"""The command line where few files may be open: 100, and 400 for a program that asks for more.

python -m tests.e2e.few_files serve --set ...
"""

from __future__ import annotations

import resource

from gateway.cli import main

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 400))
    main()
