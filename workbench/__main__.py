"""`python -m workbench`: the program where its script is not on the path."""

import sys

from workbench.cli.main import main

sys.exit(main())
