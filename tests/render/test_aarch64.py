"""The kernels give the same bits on every target: AVX2, SSE2, plain C++ and, under qemu, NEON."""

from __future__ import annotations

import faulthandler
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["-std=c++17", "-O2", "-ffp-contract=off"]

# What fuzz/hash_core.cpp prints. A change of these hashes is a change of pixels.
GOLDEN = {
    "jpeg-411-scans": "307378c4d80d4265",
    "jpeg-420": "110820a45861271a",
    "jpeg-422": "712a7b35de5d075d",
    "jpeg-440-scans": "96cbd58da3be1988",
    "jpeg-444": "079a224f68016d65",
    "jpeg-grey": "2a4dcf009fb58618",
    "jpeg-optimised": "2c4552d9bcf514b0",
    "jpeg-progressive": "e4cad9e5a0974fd4",
    "jpeg-restart": "79bc2c97f91d63ef",
    "jpeg-rgb": "55504f2f560b4d3e",
    "jpeg-seek": "6c381f46546bad11",
    "resize-bilinear": "73b85ed0c9e66e2f",
    "resize-bicubic": "3ea769279cfda776",
    "jitter": "8c3bae360740af9e",
    "lighting": "4a7321e4811ee443",
    "elements": "06397ff08e87c88f",
    "interleave": "4a6240fc552b0157",
    "crc32c": "313cdfca8eb2f33e",
    "unfilter": "4756cd3c459d3fd4",
    "crc32": "686a510f3b0f1833",
}

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
needs_aarch64 = pytest.mark.skipif(
    shutil.which("aarch64-linux-gnu-g++") is None or shutil.which("qemu-aarch64") is None,
    reason="needs aarch64-linux-gnu-g++ and qemu-aarch64",
)


def compile_to(folder: Path, source: str, compiler: str, *flags: str) -> Path:
    target = folder / f"{Path(source).stem}.o"
    command = [compiler, *FLAGS, *flags, "-c", str(ROOT / source), "-o", str(target)]
    subprocess.run(command, check=True, timeout=300)
    return target


def link(objects: list[Path], compiler: str, *flags: str) -> Path:
    program = objects[0].with_name("hash_core")
    command = [compiler, *flags, "-pthread", *map(str, objects), "-o", str(program)]
    subprocess.run(command, check=True, timeout=300)
    return program


def build(folder: Path, compiler: str, *flags: str) -> Path:
    """Compile the core without Python and the program that hashes its results."""
    faulthandler.cancel_dump_traceback_later()  # every step has its own time limit
    sources = [path for path in ROOT.glob("cpp/*.cpp") if path.name != "binding.cpp"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        compiled = pool.map(
            lambda source: compile_to(folder, str(source), compiler, *flags),
            [*sources, ROOT / "fuzz/hash_core.cpp"],
        )
        return link(list(compiled), compiler, *flags)


def run(*command: object) -> dict[str, str]:
    arguments = [*map(str, command[:-1]), str(ROOT / "fuzz/corpus"), str(command[-1])]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=True)
    return dict(line.split() for line in done.stdout.splitlines())


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("native"), "g++")


@pytest.fixture(scope="module")
def aarch64(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("aarch64"), "aarch64-linux-gnu-g++", "-static")


@needs_compiler
@pytest.mark.parametrize("kernels", ["auto", "portable"])
def test_native_kernels_give_the_golden_bits(native: Path, kernels: str) -> None:
    assert run(native, kernels) == GOLDEN


@needs_compiler
def test_kernels_without_intrinsics_give_the_golden_bits(native: Path, tmp_path: Path) -> None:
    faulthandler.cancel_dump_traceback_later()
    plain = compile_to(tmp_path, "cpp/kernels_portable.cpp", "g++", "-U__SSE2__")
    others = [path for path in native.parent.glob("*.o") if path.name != plain.name]
    assert run(link([plain, *others], "g++"), "portable") == GOLDEN


@needs_aarch64
@pytest.mark.parametrize("kernels", ["auto", "portable"])
def test_aarch64_kernels_give_the_golden_bits(aarch64: Path, kernels: str) -> None:
    assert run("qemu-aarch64", aarch64, kernels) == GOLDEN


@needs_compiler
def test_fast_kernels_define_no_function_that_another_file_could_be_linked_to(native: Path) -> None:
    """The linker keeps one copy of an inline function: it must not be one with AVX2 inside."""
    command = ["nm", "-C", str(native.with_name("kernels_fast.o"))]
    symbols = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert [line for line in symbols.splitlines() if " W " in line] == []
