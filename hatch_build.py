"""Compiles the Cython modules of src/mmtfl/core; run by hatchling for an install and by `make build`.

Every module is built in flavours, each in a folder of its own: `baseline` for any processor and, on x86-64,
`avx2`; mmtfl/core/__init__.py chooses one at import. A module is built again when its source, a .pxd file,
the flags or this file has changed. `python hatch_build.py sanitized` builds what `make sanitize` tests.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.metadata import version as version_of
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # `make build` does without
    BuildHookInterface = object

ROOT = Path(__file__).resolve().parent
SOURCES = ROOT / "src" / "mmtfl" / "core"
GENERATED = ROOT / "build" / "core"
INCLUDE = sysconfig.get_path("include")
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
SHARED = "_cyutility"  # Cython's memoryviews, compiled once instead of in every module: a quarter of the time

DIRECTIVES = ["language_level=3", "freethreading_compatible=True", "cdivision=True", "wraparound=False"]
SHORT_C = ["binding=False", "auto_pickle=False", "emit_code_comments=False"]  # less to compile
CHECKS = ["boundscheck", "initializedcheck"]

# sums may be reordered, so that their loops use vector instructions
REORDER = ["-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math"]
RELEASE = ["-O3", "-g0", "-fwrapv", "-fno-semantic-interposition"]
FLAVOURS = {
    "baseline": RELEASE,
    "avx2": [*RELEASE, "-mavx2", "-mfma"],
    "sanitized": ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"],
}
MACROS = ["NDEBUG", "CYTHON_CLINE_IN_TRACEBACK=0"]
ALWAYS = ["-shared", "-fPIC", "-fno-math-errno", "-ffp-contract=off", "-fvisibility=hidden"]


class Module(NamedTuple):
    """One extension module in one flavour, built in the folder `place`."""

    name: str
    flavour: str
    place: Path

    @property
    def c_file(self) -> Path:
        """The generated C, which flavours share but for bounds checks."""
        return GENERATED / ("checked" if self.flavour == "sanitized" else "unchecked") / f"{self.name}.c"

    @property
    def target(self) -> Path:
        """The compiled module."""
        return self.place / self.flavour / f"{self.name}{SUFFIX}"

    @property
    def stamp(self) -> Path:
        """A file with the hash of everything that the compiled module was made from."""
        return GENERATED / "stamps" / self.target.relative_to(ROOT).with_suffix(".hash")

    @property
    def source(self) -> bytes:
        """The text of the .pyx file; none for the code that modules share."""
        path = SOURCES / f"{self.name}.pyx"
        return path.read_bytes() if path.exists() else b""

    @property
    def flags(self) -> list[str]:
        """What the compiler is told besides the names of files."""
        return [*REORDER, *same_bits(), *FLAVOURS[self.flavour], *ALWAYS]

    @property
    def hash(self) -> str:
        """Changes with everything that the compiled module depends on."""
        compiler = [word for word in find_compiler() or ["msvc"] if word != sys.executable]
        settings = (compiler, self.flags, environment_flags(), sys.version, version_of("cython"))
        declarations = [] if self.name == SHARED else sorted(SOURCES.glob("*.pxd"))
        texts = [self.source, *(path.read_bytes() for path in [*declarations, Path(__file__)])]
        return hashlib.sha256(b"\0".join([repr(settings).encode(), *texts])).hexdigest()


# -- the compiler --------------------------------------------------------------------------------------------


@cache
def find_compiler() -> list[str] | None:
    """$CC, a compiler of this machine, or the one that the package ziglang brings; None for Microsoft's."""
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    if os.name == "nt":
        return None if has_msvc() else zig()
    # one that is there but only says how to install it, as on macOS, is none
    return next(([name] for name in ("cc", "gcc", "clang") if answers(name)), zig())


def zig() -> list[str]:
    return [sys.executable, "-m", "ziglang", "cc"]


def answers(name: str) -> bool:
    path = shutil.which(name)
    return path is not None and subprocess.run([path, "--version"], capture_output=True).returncode == 0


@cache
def same_bits() -> list[str]:
    """Keeps the order of sums the same at any address: gcc runs a loop singly up to an aligned entry."""
    compiler = find_compiler()
    is_gcc = bool(compiler) and "Free Software Foundation" in run([*compiler, "--version"])
    return ["--param=vect-max-peeling-for-alignment=0"] if is_gcc else []


def has_msvc() -> bool:
    from setuptools._distutils.ccompiler import new_compiler
    from setuptools._distutils.errors import DistutilsPlatformError

    try:
        new_compiler(compiler="msvc").initialize()
    except DistutilsPlatformError:
        return False
    return True


def environment_flags() -> list[str]:
    return shlex.split(f"{os.environ.get('CFLAGS', '')} {os.environ.get('LDFLAGS', '')}")


def linking() -> list[str]:
    """What a module needs to find Python's functions, besides being loaded by it."""
    if sys.platform == "darwin":
        return ["-undefined", "dynamic_lookup"]
    if os.name == "nt":
        library = f"python{sys.version_info.major}{sys.version_info.minor}"
        return ["-DMS_WIN64", f"-L{Path(sys.base_prefix, 'libs')}", f"-l{library}"]
    return []


# -- building ------------------------------------------------------------------------------------------------


def flavours() -> list[str]:
    """The flavours of an install on this machine."""
    is_x86 = platform.machine().lower() in ("x86_64", "amd64") and sys.maxsize > 2**32
    return ["baseline", "avx2"] if is_x86 and find_compiler() else ["baseline"]


def build(place: Path, which: list[str]) -> list[Path]:
    """Compile what is out of date, two modules at a time; the paths of all modules."""
    names = [SHARED, *sorted(path.stem for path in SOURCES.glob("*.pyx"))]
    modules = [Module(name, flavour, place) for name in names for flavour in which]
    # before anything is compiled: a source that is edited meanwhile is then out of date
    hashes = {module: module.hash for module in modules}
    stale = [module for module in modules if not is_current(module, hashes[module])]
    if stale:
        check_tools()
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(generate, {module.c_file: module for module in stale}.values()))
            list(pool.map(compile_module, stale, [hashes[module] for module in stale]))
        compiler = " ".join(find_compiler() or ["MSVC"])
        print(f"Compiled for mmtfl.core by {compiler}: {', '.join(sorted({m.name for m in stale}))}")
    targets = [module.target for module in modules]
    remove_others(targets)
    return targets


def remove_others(targets: list[Path]) -> None:
    """Remove modules of this Python whose source is gone; names with a dot are those of a build under way."""
    for folder in {target.parent for target in targets}:
        for path in set(folder.glob(f"[!.]*{SUFFIX}")) - set(targets):
            path.unlink()


def check_tools() -> None:
    """Say what to install where Python's headers or a compiler are missing."""
    if not Path(INCLUDE, "Python.h").exists():
        raise RuntimeError(
            f"{INCLUDE} has no Python.h. Install Python's headers (python3-dev or python3-devel)."
        )
    if find_compiler() == zig() and not find_spec("ziglang"):
        raise RuntimeError("There is no C compiler. Install gcc or clang, or run `pip install ziglang`.")


def is_current(module: Module, wanted: str) -> bool:
    known = module.stamp.read_text() if module.stamp.exists() else ""
    return module.target.exists() and known == wanted


def generate(module: Module) -> None:
    """Cython writes the C file, in a folder of its own first: another build may be reading it."""
    with TemporaryDirectory(dir=made_folder(module.c_file)) as folder:
        made = Path(folder, module.c_file.name)
        print(run([sys.executable, "-m", "cython", *cython_arguments(module, made)]), end="")
        os.replace(made, module.c_file)


def cython_arguments(module: Module, made: Path) -> list[str]:
    if module.name == SHARED:
        return [f"--generate-shared={made}"]
    checks = [f"{name}={module.flavour == 'sanitized'}" for name in CHECKS]
    directives = ",".join([*DIRECTIVES, *SHORT_C, *checks])
    source = (SOURCES / f"{module.name}.pyx").relative_to(ROOT)  # relative: tracebacks show this name
    names = [f"--module-name=mmtfl.core.{module.name}", f"--shared=mmtfl.core.{SHARED}"]
    return ["-I", "src", "-X", directives, *names, str(source), "-o", str(made)]


def compile_module(module: Module, wanted: str) -> None:
    """Compile, then rename: a file that some process has loaded must not be written into."""
    made = made_folder(module.target) / f".{os.getpid()}-{module.target.name}"
    compiler = find_compiler()
    if compiler:
        macros = [f"-D{macro}" for macro in MACROS]
        files = [f"-I{INCLUDE}", str(module.c_file), "-o", str(made)]
        run([*compiler, *environment_flags(), *module.flags, *macros, *files, *linking()])
    else:
        compile_with_msvc(module, made)
    os.replace(made, module.target)
    (made_folder(module.stamp) / module.stamp.name).write_text(wanted)


def made_folder(path: Path) -> Path:
    """The folder of a file, made where it is absent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.parent


def compile_with_msvc(module: Module, made: Path) -> None:
    from setuptools._distutils.ccompiler import new_compiler

    compiler = new_compiler(compiler="msvc")
    macros = [tuple((macro + "=1").split("=")[:2]) for macro in MACROS]
    folders = {"output_dir": str(GENERATED), "include_dirs": [INCLUDE]}
    objects = compiler.compile([str(module.c_file)], **folders, macros=macros, extra_postargs=["/O2"])
    compiler.link_shared_object(objects, str(made), library_dirs=[str(Path(sys.base_prefix, "libs"))])


def run(command: list[str]) -> str:
    """Run a command in the project's folder; what it said."""
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)}\n{done.stdout}")
    return done.stdout


# -- who asks for it -----------------------------------------------------------------------------------------


class CoreBuildHook(BuildHookInterface):
    """Puts the compiled modules beside the sources of an editable install, or into a wheel."""

    def dependencies(self) -> list[str]:
        """A compiler, where this machine has none."""
        return ["ziglang"] if find_compiler() == zig() else []

    def initialize(self, version: str, build_data: dict) -> None:
        """Build; a wheel is then one of this Python and this platform."""
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        if version == "editable":
            build(SOURCES, flavours())
            return
        place = ROOT / "build" / "wheel"  # an editable install of the same checkout keeps its own
        for path in build(place, flavours()):
            build_data["force_include"][str(path)] = f"mmtfl/core/{path.relative_to(place).as_posix()}"


if __name__ == "__main__":
    try:
        build(SOURCES, sys.argv[1:] or flavours())
    except RuntimeError as error:
        sys.exit(str(error))
