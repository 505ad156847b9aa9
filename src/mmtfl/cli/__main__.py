"""`python -m mmtfl.cli` is the command `mmtfl`."""

import sys

from mmtfl.cli.main import main

sys.exit(main())
