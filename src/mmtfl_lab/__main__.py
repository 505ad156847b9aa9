"""`python -m mmtfl_lab bench|reproduce`: the benchmark, and the experiments of the paper."""

import os
import sys

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # here and in processes started later; before numeric libraries are imported

from mmtfl_lab.commands import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
