"""The compiled core: Cython modules, each built for any processor and, on x86-64, once more for AVX2.

A build is a folder, `baseline` or `avx2`, and the one that suits the processor is added to the path of this
package. The environment variable MMTFL_CORE names another one: `MMTFL_CORE=baseline` is the portable build.
"""

import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

try:
    from numpy._core._multiarray_umath import __cpu_features__ as _features
except ImportError:  # numpy 1.26
    from numpy.core._multiarray_umath import __cpu_features__ as _features  # type: ignore[no-redef]

_here = Path(__file__).parent
_has_avx2 = _features.get("AVX2") and _features.get("FMA3") and (_here / "avx2").is_dir()
_build = _here / (os.environ.get("MMTFL_CORE") or ("avx2" if _has_avx2 else "baseline"))
_built = {path.name.removesuffix(EXTENSION_SUFFIXES[0]) for path in _build.glob(f"*{EXTENSION_SUFFIXES[0]}")}
_missing = {"_cyutility", *(path.stem for path in _here.glob("*.pyx"))} - _built
if _missing:
    raise ImportError(
        f"The compiled core of mmtfl is not complete: {_build} has no {', '.join(sorted(_missing))} for this "
        "Python. In a checkout, run `make build` or `pip install -e .`; otherwise install mmtfl again."
    )
__path__.append(str(_build))
