"""What a generated function repeats is computed once, under a name, where every place that needs it is reached."""

import textwrap

import pytest

from kernelswarm.codegen.ir.common_subexpressions import name_repeated, name_repeated_lines

KERNEL = """\
@triton.jit
def kernel(x_ptr, y_out, s0: tl.constexpr, s1):
    # aten.add.Tensor
    cols = tl.program_id(0) * 256 + tl.arange(0, 256)
    mask = cols < (s1 * ((-1 + s0) // (4)))
    x = tl.load(x_ptr + (cols // ((-1 + s0) // (4))), mask=mask & (cols < s1), other=0)
    z = tl.load(x_ptr + 1 + (cols // ((-1 + s0) // (4))), mask=mask & (cols < s1), other=0)
    tl.store(y_out + (cols), x + z, mask=mask & (cols < s1))
"""


def _text(text: str) -> str:
    return textwrap.dedent(text).strip()


def test_sizes_of_a_kernel_are_constants_and_indices_are_values():
    text = name_repeated(KERNEL)
    assert "n0: tl.constexpr = (-1 + s0) // 4" in text
    assert "n1 = cols // n0" in text
    assert "mask & (cols < s1)\n" in text and text.count("cols < s1") == 1
    assert "    # aten.add.Tensor\n" in text
    assert len(text) < len(KERNEL)


def test_nothing_repeated_is_left_as_it_is():
    text = 'def kernel(x, s0):\n    """(Of one size)."""\n    return x[(s0 + 1) // (2) : ((s0))]  # once'
    assert name_repeated(text) == text


def test_names_that_the_function_has_are_not_taken():
    lines = ["n0 = 1", "a = f((s0 + 1) // 3)", "b = f((s0 + 1) // 3)", "return a, b, n0"]
    assert name_repeated_lines(["s0 = x.shape[0]", *lines])[2:4] == ["n1 = (s0 + 1) // 3", "a = f(n1)"]


def test_a_name_that_is_assigned_again_is_another_value():
    text = _text("""
        def kernel(x_ptr, s0):
            cols = tl.arange(0, 16)
            a = f(cols // (s0 + 1), cols // (s0 + 1))
            cols = 16 + tl.arange(0, 16)
            b = f(cols // (s0 + 1), cols // (s0 + 1))
    """)
    named = name_repeated(text)
    assert named.count(" = cols // ") == 2
    assert named.count("= f(n") == 2


def test_what_a_loop_changes_is_computed_in_it():
    text = _text("""
        def kernel(x_ptr, s0: tl.constexpr):
            at = 0
            for start in range(0, s0, 16):
                a = f((start + at) // 77, (start + at) // 77, (s0 - 1) // 5)
                at = at + 1
            return g((start + at) // 77, (s0 - 1) // 5)
    """)
    lines = name_repeated(text).split("\n")
    constant = next(line for line in lines if "(s0 - 1) // 5" in line)
    inside = next(line for line in lines if line.endswith("= (start + at) // 77"))
    assert constant.startswith("    n") and lines.index(constant) < lines.index("    for start in range(0, s0, 16):")
    assert inside.startswith("        n")
    assert "(start + at) // 77" in lines[-1]


def test_branches_do_not_share_what_one_of_them_changes():
    text = _text("""
        def f(s0, s1):
            if s0 > 3:
                s1 = g()
                a = h((s1 + 7) // 2, (s1 + 7) // 2)
            else:
                a = h((s1 + 7) // 2, (s1 + 7) // 2)
            return a
    """)
    namespace = {"g": lambda: 100, "h": lambda *values: values}
    exec(name_repeated(text, sizes_only=True), namespace)
    assert namespace["f"](5, 1) == (53, 53)
    assert namespace["f"](2, 1) == (4, 4)


def test_elif_gets_no_statement_in_front_of_it():
    text = _text("""
        def f(s0):
            if s0 == 1:
                return 0
            elif (s0 * 5 + 1) // 2 > 7:
                return (s0 * 5 + 1) // 2
            elif s0: return (s0 * 5 + 1) // 2
            return 1
    """)
    namespace: dict = {}
    named = name_repeated(text, sizes_only=True)
    exec(named, namespace)
    assert named.count("// 2") == 1
    assert [namespace["f"](n) for n in (0, 1, 2, 4)] == [1, 0, 5, 10]


@pytest.mark.parametrize("condition", ["if s1 != 0:", "if s1 != 0 and (s0 + 100) // s1 > 2 and (s0 + 100) // s1 < 5:"])
def test_a_division_that_may_raise_stays_behind_its_condition(condition):
    lines = [condition, "    return (s0 + 100) // s1", "return 0 if s1 == 0 else (s0 + 100) // s1"]
    text = "\n".join(["def f(s0, s1):", *(f"    {line}" for line in lines)])
    namespace: dict = {}
    exec(name_repeated(text, sizes_only=True), namespace)
    assert namespace["f"](3, 0) == 0
    assert namespace["f"](5, 35) == 3


def test_on_the_host_only_sizes_are_values():
    lines = ["y = (x * scale) + (x * scale)", "return f((s0 * 102300) // 2, max(s0 * 102300, 77), (s0 * 102300) // 2)"]
    named = name_repeated_lines(["s0 = x.shape[0]", *lines])
    assert "y = (x * scale) + (x * scale)" in named
    assert named[-1] == "return f(n0 // 2, max(n0, 77), n0 // 2)"


def test_the_order_of_operations_is_kept():
    expressions = ["s0 - (s1 - 2)", "s0 // (s1 * 2)", "-(s0 + s1) * 3", "(s0 < s1) == (s1 < 9)", "s0 % 5 * (7 % s1)"]
    text = "\n".join(
        ["def f(s0, s1):", f"    a = [{', '.join(expressions)}]", f"    return a, [{', '.join(expressions)}]"]
    )
    namespace: dict = {}
    named = name_repeated(text, sizes_only=True)
    exec(named, namespace)
    for s0, s1 in ((3, 4), (90, 7), (1, 11)):
        values = [eval(expression, {"s0": s0, "s1": s1}) for expression in expressions]
        assert namespace["f"](s0, s1) == (values, values)
    assert named.count("s1 * 2") == 1


def test_several_functions_in_one_text_have_names_of_their_own():
    one = "def {}(s0):\n    return f((s0 + 1) // 3, (s0 + 1) // 3)"
    text = name_repeated(f"{one.format('a')}\n\n\n{one.format('b')}", sizes_only=True)
    assert text.count("    n0 = (s0 + 1) // 3\n    return f(n0, n0)") == 2
