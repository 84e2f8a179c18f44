"""Compile the launches of candidate files to machine code for sm_90, GPU or not. Run as a script."""

import importlib.util
import json
import sys
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


def source_of(function, arguments):
    """What Triton would specialise the launch to: alignment of tensors, divisibility of integers, constants."""
    signature, constants, attributes = {}, {}, {}
    for place, parameter in enumerate(function.params):
        value = arguments[parameter.name]
        if isinstance(value, str):
            signature[parameter.name] = value.removesuffix(" unaligned")
            if signature[parameter.name] == value:
                attributes[(place,)] = [["tt.divisibility", 16]]
        elif parameter.do_not_specialize:
            signature[parameter.name] = "fp32" if isinstance(value, float) else "i32"
        elif parameter.is_constexpr or isinstance(value, bool) or value == 1:
            signature[parameter.name] = "constexpr"
            constants[parameter.name] = value
        else:
            signature[parameter.name] = "i32"
            if value % 16 == 0:
                attributes[(place,)] = [["tt.divisibility", 16]]
    return ASTSource(function, signature, constants, attributes)


def cubin_sizes(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    target = GPUTarget("cuda", 90, 32)
    sizes = []
    for launch in module.TRITON_LAUNCHES:
        function = getattr(module, launch["kernel"])
        compiled = triton.compile(source_of(function, launch["arguments"]), target=target, options=launch["options"])
        sizes.append(len(compiled.asm["cubin"]))
    return sizes


if __name__ == "__main__":
    print(json.dumps({Path(name).stem: cubin_sizes(Path(name)) for name in sys.argv[1:]}))
