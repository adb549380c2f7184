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
    "jpeg-411-scans": "02312130cd5cac89",
    "jpeg-420": "f1e6f2b38d6fcf12",
    "jpeg-422": "84963bb2ae946f4c",
    "jpeg-440-scans": "e8d202fb7b016ab0",
    "jpeg-444": "9ced588268241f90",
    "jpeg-arithmetic": "c96bcb90bbc8125a",
    "jpeg-arithmetic-progressive": "29c879a53de451ce",
    "jpeg-grey": "686a59cb2729e5a9",
    "jpeg-optimised": "d48ff1be7b0f5935",
    "jpeg-progressive": "fd990580384294e0",
    "jpeg-progressive-420": "d952ad2bf1ce6dfc",
    "jpeg-progressive-grey": "0d1bb49552e8391c",
    "jpeg-progressive-restart": "cb7343b035792a56",
    "jpeg-progressive-scripts": "e840139ff375013b",
    "jpeg-progressive-steep": "550a6e46bc40a810",
    "jpeg-restart": "85a6ca67b7309ac2",
    "jpeg-rgb": "d90c2f46b1f52e00",
    "jpeg-seek": "95cb86a74513ecea",
    "resize-bilinear": "c153330a82a0e096",
    "resize-bicubic": "2f136f5ddac57c9c",
    "jitter": "88a34799739522af",
    "lighting": "1862ed8a0d90382e",
    "elements": "2a481334f1914315",
    "interleave": "d713b5a7adc74f69",
    "crc32c": "85012fc76cc0907d",
    "unfilter": "49bf0da1099fdcfe",
    "crc32": "92402033537b0acc",
    "labels": "cbcedb02ebaae335",
    "maps": "2c503d56a1f1afe5",
    "program-colors": "cf6406c97252b810",
    "program-levels": "18aca57ee551ad43",
    "program-warps": "eff8dc22654007a3",
    "program-blurs": "43917130af880e78",
    "program-moves": "c15adc329475ee42",
    "program-erasing": "67242951bb9ecc3d",
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
