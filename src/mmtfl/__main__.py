"""`python -m mmtfl` is the command `mmtfl`."""

import sys

from mmtfl.cli.main import main

sys.exit(main())
