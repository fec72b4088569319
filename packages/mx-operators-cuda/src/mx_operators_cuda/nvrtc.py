# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's run-time compiler through ctypes: CUDA C++ to machine code, without a GPU or a driver.

CuPy compiles with the same library but asks the driver for the architecture first, so it cannot be
used where there is no GPU; this module serves both places.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from mx_core.errors import MXNetError
from mx_operators_cuda.codegen.source import headers
from mx_operators_cuda.libraries import places

#: compiled for by default: Hopper (H100, H200)
ARCHITECTURE = "sm_90"
_PATTERNS = ("cu13/lib/libnvrtc.so.*", "cuda_nvrtc/lib/libnvrtc.so.*", "cu13/bin/*/nvrtc64_*.dll")
_SONAMES = ("libnvrtc.so.13", "libnvrtc.so.12")


@dataclass(frozen=True)
class Compiled:
    """A compiled kernel.

    Parameters
    ----------
    name : str
        Its symbol.
    code : bytes
        A CUBIN (an ELF file) for a real architecture (`sm_90`), PTX text for a virtual one
        (`compute_90`).
    log : str
        What the compiler and, with `--ptxas-options=-v`, the assembler said.
    """

    name: str
    code: bytes
    log: str


class CompileError(MXNetError):
    """NVRTC refused a source; the message has its log."""


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    """NVRTC: the file that MX_NVRTC names, else from an `nvidia-cuda-nvrtc` wheel, else from where the
    system looks for libraries.

    Raises
    ------
    MXNetError  it is not installed
    """
    tried = []
    for path in _places():
        try:
            # a wheel's NVRTC looks for its builtins where the system looks, so they come first
            for builtins in sorted(Path(path).parent.glob("libnvrtc-builtins.so.*")):
                ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
            return ctypes.CDLL(path)
        except OSError as error:
            tried.append(f"{path}: {error}")
    raise MXNetError(
        "NVRTC (CUDA's run-time compiler) was not found; pip install 'nvidia-cuda-nvrtc>=13,<14'. Tried "
        + "; ".join(tried)
    )


def _places() -> Iterator[str]:
    return places("MX_NVRTC", _PATTERNS, "nvrtc", _SONAMES)


def version() -> tuple[int, int]:
    """NVRTC's version, `(13, 0)`."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return major.value, minor.value


@lru_cache(maxsize=1024)
def compile_kernel(
    text: str, name: str, architecture: str = ARCHITECTURE, options: Sequence[str] = ()
) -> Compiled:
    """Compiles a source that may include `mx_operators_cuda/elementwise.cuh` and `mx_core/philox.hpp`.

    Takes some 0.1 s; equal questions are answered from memory. Threads: any.

    Parameters
    ----------
    text : str
        CUDA C++.
    name : str
        Symbol of its kernel.
    architecture : str
        `sm_90` for a CUBIN, `compute_90` for PTX.
    options : tuple of str
        Further compiler options.

    Raises
    ------
    CompileError  the source is refused
    MXNetError    NVRTC is not installed
    """
    code, log, _ = _compile(text, name, architecture, options, ())
    return Compiled(name, code, log)


@lru_cache(maxsize=64)
def compile_module(
    text: str, architecture: str = ARCHITECTURE, options: tuple[str, ...] = (), exports: tuple[str, ...] = ()
) -> tuple[bytes, dict[str, str]]:
    """Compiles a source of the user's, of several kernels. Threads: any.

    Parameters
    ----------
    text : str
        CUDA C++.
    architecture : str
        `sm_90` for a CUBIN.
    options : tuple of str
        Further compiler options.
    exports : tuple of str
        Kernels that are not `extern "C"`, such as `scale<float>`.

    Returns
    -------
    (bytes, dict of str to str)
        Machine code, and the symbol of each of `exports`.

    Raises
    ------
    CompileError  the source is refused, or has none of an export's name
    MXNetError    NVRTC is not installed
    """
    code, _, symbols = _compile(text, "source", architecture, options, exports)
    return code, symbols


def _compile(
    text: str, name: str, architecture: str, options: Sequence[str], exports: Sequence[str]
) -> tuple[bytes, str, dict[str, str]]:
    """Code, log, and the symbols of the exports."""
    nvrtc, program = library(), ctypes.c_void_p()
    files = headers()
    texts = (ctypes.c_char_p * len(files))(*(body.encode() for body in files.values()))
    names = (ctypes.c_char_p * len(files))(*(file.encode() for file in files))
    made = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), text.encode(), f"{name}.cu".encode(), len(files), texts, names
    )
    _check(made)
    try:
        for export in exports:
            _check(nvrtc.nvrtcAddNameExpression(program, export.encode()))
        standard = () if any(o.startswith(("-std", "--std")) for o in options) else ("-std=c++17",)
        flags = [o.encode() for o in (f"-arch={architecture}", *standard, *options)]
        status = nvrtc.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
        log = _read(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
        if status != 0:
            raise CompileError(f"[{name}] NVRTC, {architecture}: {_describe(status)}\n{log}")
        code = _read(program, "CUBIN" if architecture.startswith("sm_") else "PTX")
        return code, log, {export: _symbol(program, export) for export in exports}
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _symbol(program: ctypes.c_void_p, export: str) -> str:
    found = ctypes.c_char_p()
    _check(library().nvrtcGetLoweredName(program, export.encode(), ctypes.byref(found)))
    return (found.value or b"").decode()


def _read(program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(getattr(library(), f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(getattr(library(), f"nvrtcGet{what}")(program, buffer))
    return buffer.raw


def _describe(status: int) -> str:
    get: Any = library().nvrtcGetErrorString
    get.restype = ctypes.c_char_p
    text: bytes = get(status)
    return text.decode()


def _check(status: int) -> None:
    if status != 0:
        raise MXNetError(f"NVRTC: {_describe(status)}")
