"""The machine code of a kernel within a number of characters: its innermost loops come first."""

from pathlib import Path

import pytest

import given
from kernelswarm.hardware.languages import _objdump, cpp
from kernelswarm.hardware.languages.assembly import excerpts, machine_code
from kernelswarm.hardware.languages.hot_loops import excerpt, innermost, read
from kernelswarm.schemas import PoolError

ROWS = """
CPP_SOURCE = r'''
#include <cmath>
extern "C" void norm(const float* x, float* out, long rows, long cols) {
  for (long r = 0; r < rows; r++) {
    float sum = 0.0f;
    for (long c = 0; c < cols; c++) sum += x[r * cols + c] * x[r * cols + c];
    out[r] = 1.0f / std::sqrt(sum);
  }
}
'''
CPP_FLAGS = ["-fassociative-math", "-fno-signed-zeros"]
"""

SASS = """
\t\tFunction : total
\t.headerflags\t@"EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;               /* 0x00000a00ff017b82 */
                                                                        /* 0x000fe20000000800 */
        /*0010*/                   IADD3 R4, R4, 0x1, RZ ;              /* 0x00000a00ff017b82 */
        /*0020*/                   ISETP.GE.AND P0, PT, R4, R7, PT ;    /* 0x00000a00ff017b82 */
        /*0030*/              @!P0 BRA 0x10 ;                           /* 0x00000a00ff017b82 */
        /*0040*/                   HGMMA.64x128x16.F32.BF16 R24, gdesc[UR20], R24 ; /* 0x00 */
        /*0050*/               @P1 BRA 0x40 ;                           /* 0x00000a00ff017b82 */
        /*0060*/                   EXIT ;                               /* 0x000000000000794d */
        /*0070*/                   BRA 0x70;                            /* 0xfffffffc00fc7947 */
        /*0080*/                   NOP;                                 /* 0x0000000000007918 */
"""
PTX = """
.visible .entry total(
	.param .u64 total_param_0
)
{
	.reg .b32 	%r<9>;
	mov.u32 	%r1, %tid.x;
$L__BB0_2:
	.loc	1 7 3
	fma.rn.f32 	%f1, %f2, %f3, %f1;
	@%p1 bra 	$L__BB0_2;
	ret;
}
"""
AMD = """
total:                                  ; @total
; %bb.0:
	s_load_dword s0, s[4:5], 0x10
.LBB0_2:                                ; =>This Inner Loop Header: Depth=1
	v_mfma_f32_32x32x8_f16 a[0:15], v[4:5], v[10:11], a[0:15]
	s_cbranch_scc1 .LBB0_2
	s_endpgm
"""
ARM = """
0000000000000750 <twice>:
 750:	cbz	x1, 770 <twice+0x20>
 754:	mov	x2, #0x0
 758:	ldr	q0, [x0]
 75c:	fmla	v1.4s, v0.4s, v0.4s
 760:	str	q0, [x0], #16
 764:	b.ne	758 <twice+0x8>  // b.any
 768:	bl	750 <twice>
 770:	ret
"""


def loops(text: str) -> list[list[str]]:
    return [loop.lines for loop in innermost(read(text))]


async def compiled(tmp_path: Path, source: str = ROWS) -> Path:
    report, paths = await cpp.compile(source, pool=given.pool(), hardware=given.hardware(), cache=tmp_path)
    assert report.ok, report.log
    (path,) = paths.values()
    return path


async def test_the_vector_loop_of_a_compiled_library_stands_first(tmp_path: Path) -> None:
    texts = await machine_code(await compiled(tmp_path))
    shown = excerpts(texts)
    first = shown.split("# innermost loop of norm")[1]
    assert "mul" in first or "fma" in first.lower()
    assert "register_tm_clones" not in shown and "_init" not in shown
    ((name, whole),) = texts.items()
    assert name.endswith(".s") and len(shown) < len(whole) / 2


@pytest.mark.parametrize(
    ("text", "body"),
    [
        (PTX, ["$L__BB0_2:", "fma.rn.f32 %f1, %f2, %f3, %f1;", "@%p1 bra $L__BB0_2;"]),
        (AMD, [".LBB0_2: ; =>This Inner Loop Header: Depth=1", "v_mfma_f32_32x32x8_f16 a[0:15], v[4:5], v[10:11], "
               "a[0:15]", "s_cbranch_scc1 .LBB0_2"]),
        (ARM, ["758: ldr q0, [x0]", "75c: fmla v1.4s, v0.4s, v0.4s", "760: str q0, [x0], #16",
               "764: b.ne 758 <twice+0x8> // b.any"]),
    ],
)  # fmt: skip
def test_a_jump_back_is_a_loop_in_every_dialect(text: str, body: list[str]) -> None:
    assert loops(text) == [body]


def test_matrix_instructions_come_before_counting_and_the_end_is_no_loop() -> None:
    shown = excerpt(SASS)
    assert shown.startswith("total: 8 lines, 2 loops")
    assert shown.index("HGMMA") < shown.index("IADD3") and "0x70" not in shown and "NOP" not in shown
    assert "/* 0x" not in shown


def test_what_does_not_fit_is_said_and_the_limit_is_kept() -> None:
    body = "\n".join(f"        /*{16 * n:04x}*/                   FFMA R1, R2, R3, R4 ;" for n in range(1, 500))
    text = "\n".join(f"\t\tFunction : f{k}\n        /*0000*/                   MOV R1, R2 ;\n{body}" for k in range(4))
    shown = excerpt(text, 3000)
    assert len(shown) < 3100 and shown.endswith("[3 more of these were left out]")
    assert len(excerpts({f"f{n}.sass": text for n in range(20)}, 12_000)) < 13_000
    assert excerpt("") == "there are no instructions in it"


def test_of_ptx_and_machine_code_the_latter_is_shown() -> None:
    shown = excerpts({"total.ptx": PTX, "total.sass": SASS})
    assert "== total.sass" in shown and "total.ptx" not in shown
    assert "fma.rn.f32" in excerpts({"total.ptx": PTX})


async def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.so").write_text("no library")
    with pytest.raises(PoolError, match=r"objdump cannot read a\.so: "):
        await machine_code(tmp_path / "a.so")
    monkeypatch.setattr(_objdump, "TOOLS", ("no-such-objdump",))
    with pytest.raises(PoolError, match="install binutils"):
        await machine_code(tmp_path / "a.so")
    assert await machine_code(tmp_path / "kernel.build") == {}
