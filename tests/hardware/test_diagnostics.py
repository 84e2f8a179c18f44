"""Reading compilers' output, by the words of GCC 12, clang 17 and their linkers."""

from kernelswarm.hardware.languages.diagnostics import MOST, read_diagnostics


def read(output: str) -> list[tuple[str, int, int]]:
    return [(d.severity, d.line, d.column) for d in read_diagnostics(output, "kernel.cpp")]


def test_gcc():
    output = (
        "kernel.cpp: In function 'f':\nkernel.cpp:3:10: error: 'nope' was not declared in this scope\n  3 | nope;\n"
    )
    assert read(output) == [("error", 3, 10)]
    assert read_diagnostics(output, "kernel.cpp")[0].message == "'nope' was not declared in this scope"


def test_clang():
    output = (
        "kernel.cpp:7:3: warning: expression result unused [-Wunused-value]\n"
        "kernel.cpp:9:8: fatal error: 'nope.h' file not found\n1 warning and 1 error generated.\n"
    )
    assert read(output) == [("warning", 7, 3), ("error", 9, 8)]


def test_an_intrinsic_for_another_target_points_to_its_call():
    output = (
        "In file included from /usr/lib/gcc/12/include/immintrin.h:43,\n                 from kernel.cpp:1:\n"
        "/usr/lib/gcc/12/include/avx2intrin.h:119:1: error: inlining failed in call to 'always_inline' "
        "'__m256i _mm256_add_epi32(__m256i, __m256i)': target specific option mismatch\n"
        "kernel.cpp:3:52: note: called from here\n"
    )
    (diagnostic,) = read_diagnostics(output, "kernel.cpp")
    assert (diagnostic.line, diagnostic.column) == (3, 52) and diagnostic.message.endswith("(in avx2intrin.h)")


def test_the_linker():
    output = "/usr/bin/ld: /tmp/x.o: in function `f':\nkernel.cpp:(.text+0x5): undefined reference to `g()'\n"
    (diagnostic,) = read_diagnostics(output, "kernel.cpp")
    assert diagnostic.message == "undefined reference to `g()'" and diagnostic.line == 0


def test_a_flood_is_cut_and_repetitions_are_one():
    flood = "".join(f"kernel.cpp:{line}:1: error: no\n" for line in range(1, 500))
    assert len(read(flood)) == MOST
    assert read("kernel.cpp:1:1: error: no\n" * 3) == [("error", 1, 1)]
