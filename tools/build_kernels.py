"""Compile the kernels of the CPU engine ahead of time: one object for each family of processors.

    pip install -e '.[kernels]'
    python tools/build_kernels.py

Writes bytenmt/decoding/cpu/objects/FAMILY-DIGEST.so and manifest.json, and removes older objects.
Numba compiles the two functions of decoding/cpu/entry.py, LLVM emits them once more as code that
can lie at any address, and the linker of Zig (the package ziglang) makes an object that needs no
more than glibc 2.17. The same sources and versions give the same bytes. Takes two to five minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # the checkout

from bytenmt.decoding.cpu.library import MANIFEST, OBJECTS
from bytenmt.kernel_sources import byte_digest, engine_files, syntax_digest
from tools.extras import tool_parser

TARGET = "x86_64-linux-gnu.2.17"  # Zig's name of the system, with the oldest glibc
TRIPLE = "x86_64-unknown-linux-gnu"  # LLVM's name of it
# Functions of libc and libm that kernels may call, beside those that LLVM's own names stand for.
SYSTEM_FUNCTIONS = {"exp", "expf", "log", "logf", "log1p", "log1pf", "pow", "sched_yield", "sqrt"}
SYSTEM_FUNCTIONS |= {"sqrtf", "memcpy", "memmove", "memset"}
# Each family's processor and features, by LLVM's names. LLVM would split vectors of 512 bits for
# most processors that have them.
AVX2_FEATURES = "+avx,+avx2,+bmi,+bmi2,+cx16,+f16c,+fma,+lzcnt,+movbe,+popcnt"
AVX2_FEATURES += ",+sse3,+sse4.1,+sse4.2,+ssse3"
AVX512_FEATURES = ",+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl,+avx512vnni"
COMPILERS = {
    "x86-64-avx512": ("x86-64-v4", AVX2_FEATURES + AVX512_FEATURES + ",-prefer-256-bit"),
    "x86-64-avx2": ("x86-64-v3", AVX2_FEATURES + ",-prefer-256-bit"),
}
DIGEST_DIGITS = 16  # in the names of files
# Compiled functions have pickled exceptions for Python. Here nobody reads them: only whether there
# was an exception is returned.
PICKLED = re.compile(r'^(@\.const\.pickledata\.\S+ = .* \[\d+ x i8\]) c".*"', re.MULTILINE)


def main() -> None:
    """Run the command line."""
    parser = tool_parser(__doc__)
    parser.add_argument("--output", type=Path, default=OBJECTS, help="folder for the objects")
    parser.add_argument("--emit", nargs=2, metavar=("FAMILY", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.emit:
        name, file = options.emit
        Path(file).write_bytes(emit_object(name))
        return
    build_objects(options.output)


def build_objects(folder: Path) -> None:
    """Build the objects of all families, and their manifest, in a folder."""
    import llvmlite
    import numba

    files = engine_files()
    syntax = syntax_digest(files)
    versions = {"numba": numba.__version__, "llvmlite": llvmlite.__version__}
    objects = {}
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor() as pool:
        built = list(pool.map(build_object, COMPILERS))
    for family, linked in zip(COMPILERS, built, strict=True):
        whole = f"{syntax} {versions} {COMPILERS[family]}"
        digest = sha256(whole.encode()).hexdigest()[:DIGEST_DIGITS]
        file = folder / f"{family}-{digest}.so"
        file.write_bytes(linked)
        file.chmod(0o644)
        objects[family] = {"file": file.name, "sha256": sha256(linked).hexdigest()}
        print(f"{file.name}: {len(linked)} bytes")
    manifest = {**versions, "syntax": syntax, "bytes": byte_digest(files), "objects": objects}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    for old in set(folder.glob("*.so")) - {folder / entry["file"] for entry in objects.values()}:
        old.unlink()


def build_object(family: str) -> bytes:
    """Return the object of a family."""
    with tempfile.TemporaryDirectory() as name:
        return link_object(compile_apart(family, Path(name)), Path(name))


def compile_apart(family: str, folder: Path) -> Path:
    """Compile the kernels for a family in a process of its own; return the file of the object.

    Names and their order depend on the hashes of strings, and on what was compiled before.
    """
    file = folder / "kernels.o"
    cpu, features = COMPILERS[family]
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "0",
        "NUMBA_CPU_NAME": cpu,
        "NUMBA_CPU_FEATURES": features,
        "NUMBA_CACHE_DIR": str(folder),
    }
    command = [sys.executable, __file__, "--emit", family, str(file)]
    subprocess.run(command, env=environment, check=True)
    return file


def emit_object(family: str) -> bytes:
    """Compile the kernels with Numba and return them as an object file, not yet linked."""
    from llvmlite import binding

    from bytenmt.decoding.cpu import entry

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    whole = None
    exported = set()
    for function in (entry.run_engine, entry.run_search):
        text, compiled_name = compile_to_llvm(function)
        name = f"bytenmt_{function.__name__}"
        exported.add(name)
        text = PICKLED.sub(r"\1 zeroinitializer", text)
        module = binding.parse_assembly(text + wrapper(name, compiled_name))
        if whole is None:
            whole = module
        else:
            whole.link_in(module)
    assert whole is not None
    for value in [*whole.functions, *whole.global_variables]:
        if not value.is_declaration and value.name not in exported:
            value.linkage = "internal"
    cpu, features = COMPILERS[family]
    machine = binding.Target.from_triple(TRIPLE).create_target_machine(
        cpu=cpu, features=features, opt=3, reloc="pic", codemodel="small"
    )
    passes = binding.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    tuning = binding.create_pipeline_tuning_options(speed_level=3)
    passes.run(whole, binding.create_pass_builder(machine, tuning))
    declared = {function.name for function in whole.functions if function.is_declaration}
    foreign = {name for name in declared if not name.startswith("llvm.")} - SYSTEM_FUNCTIONS
    if foreign:
        raise RuntimeError(f"kernels call functions that no system has: {', '.join(foreign)}")
    code: bytes = machine.emit_object(whole)
    return code


def compile_to_llvm(function: Any) -> tuple[str, str]:
    """Compile a function of entry.py; return its optimised module as text, and its name there."""
    import numba

    from bytenmt.jit import INNER_OPTIONS

    dispatcher: Any = numba.njit(**INNER_OPTIONS)(function.py_func)
    dispatcher.compile((numba.types.int64,))
    result = dispatcher.overloads[numba.types.int64,]
    return str(result.library._final_module), result.fndesc.llvm_func_name


def wrapper(name: str, compiled_name: str) -> str:
    """Return LLVM code of a function of C: `int name(int64_t table)`, not 0 where it has failed."""
    return f"""
define i32 @{name}(i64 %table) {{
  %result = alloca ptr
  %exception = alloca ptr
  %status = call i32 @"{compiled_name}"(ptr %result, ptr %exception, i64 %table)
  ret i32 %status
}}
"""


def link_object(file: Path, folder: Path) -> bytes:
    """Return a shared object of an object file, without symbols that nobody needs."""
    linked = folder / "kernels.so"
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", TARGET, "-shared", "-s"]
    flags = ["-Wl,--build-id=none", "-Wl,-z,noexecstack", "-lm"]
    environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(folder / "zig")}
    environment["ZIG_LOCAL_CACHE_DIR"] = str(folder / "zig")
    command = [*zig, "-o", str(linked), str(file), *flags]
    subprocess.run(command, env=environment, cwd=folder, check=True)
    return linked.read_bytes()


if __name__ == "__main__":
    main()
