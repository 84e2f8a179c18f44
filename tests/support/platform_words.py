"""Words by which knowledge of another platform, vendor or instruction set shows in a text."""

import re

_WORDS = {
    "cpu": r"openmp|\bomp (simd|parallel|for)\b|huge.?page|page fault|vector width|last-level cache|g\+\+|march=native"
    r"|(?-i:CPP_SOURCE)|ctypes\.CDLL|\ball cores\b|\ba core\b|hyperthread",
    "x86": r"\bavx|\bsse\d|_mm\d*_|\b[xyz]mm\b|x86|\bamx\b|vnni|\bintel\b|xeon|\bzen\b|haswell|sapphire",
    "arm": r"\bneon\b|\bsve2?\b|graviton|aarch64|\barm\b|neoverse|asimd|vfmaq",
    "gpu": r"multiprocessor|\bwarps?\b|shared memory of a block|matrix units?\b|\btriton\b|\btl\.\w+|cudagraph",
    "nvidia": r"nvidia|cuda|\bptx\b|\bsass\b|\bsm_\d|wgmma|\btma\b|tensor.cores?\b|tensor pipe|hopper|ampere|blackwell"
    r"|mma\.sync|cublas|cudnn|cutlass|nsight|\bncu\b|nvcc|scoreboard|\bldg\b|\b[abh][12]00\b|\brtx\b|cp\.async|ldmatrix"
    r"|tf32x3|dram__|\bcub::",
    "amd": r"mfma|\bcdna|\bgfx\d|\blds\b(?![.]\w)|rocm|rocprof|wavefront|vgpr|waves_per_eu|nonkdim|\bxcds?\b"
    r"|\bmi[23]\d\dx?\b|\bhip\b",
}
_OWN = {"x86": ("cpu", "x86"), "arm": ("cpu", "arm"), "nvidia": ("gpu", "nvidia"), "amd": ("gpu", "amd")}


def foreign_words(kind: str) -> re.Pattern[str]:
    """Words that no text for hardware of this kind (x86, arm, nvidia or amd) has."""
    return re.compile("|".join(words for name, words in _WORDS.items() if name not in _OWN[kind]), re.IGNORECASE)
