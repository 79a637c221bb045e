"""`python -m workbench`: the program where its script is not on the path."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the current folder: files of the user, such as `queue.py`, would replace standard modules

from workbench.cli.main import main

sys.exit(main())
