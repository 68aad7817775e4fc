"""Print a line for the user when mapped bytes are gone: their file has become shorter, or its disk fails.

The kernel then sends SIGBUS to the thread that reads them, before any Python could run; the handler is a few
machine instructions that are made here.
"""

from __future__ import annotations

import ctypes
import faulthandler
import signal
from functools import cache
from typing import Any

FAILED = 1  # exit code, as of any other error
LINE = (
    b"bytenmt: a file was cut short, or its disk failed, while it was read: give it whole and start again;"
    b" the last checkpoint of a training stands, and --resume goes on\n"
)


@cache
def tell_of_lost_bytes() -> None:
    """Make SIGBUS end this process with LINE on stderr; if Python's faulthandler is on, that one
    reports it.
    """
    if faulthandler.is_enabled():
        return
    _handlers.append(engine := _compiled())
    libc = ctypes.CDLL(None)
    libc.signal.argtypes, libc.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
    libc.signal(signal.SIGBUS, engine.get_function_address("lost_bytes"))


_handlers: list[Any] = []  # machine code lives as long as what holds it


def _compiled() -> Any:
    """Return void lost_bytes(int), which calls only write and _exit, as POSIX allows a handler."""
    from llvmlite import binding, ir  # here: nobody else needs it so early

    module, number, text = ir.Module(), ir.IntType(32), ir.IntType(8).as_pointer()
    line = ir.GlobalVariable(module, ir.ArrayType(ir.IntType(8), len(LINE)), "line")
    line.initializer, line.global_constant = ir.Constant(line.value_type, bytearray(LINE)), True
    size = ir.IntType(8 * ctypes.sizeof(ctypes.c_size_t))
    write = ir.Function(module, ir.FunctionType(size, [number, text, size]), "write")
    leave = ir.Function(module, ir.FunctionType(ir.VoidType(), [number]), "_exit")
    handler = ir.Function(module, ir.FunctionType(ir.VoidType(), [number]), "lost_bytes")
    builder = ir.IRBuilder(handler.append_basic_block())
    builder.call(write, [number(2), builder.bitcast(line, text), size(len(LINE))])
    builder.call(leave, [number(FAILED)])
    builder.ret_void()
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(str(module)), machine)
    engine.finalize_object()
    return engine
