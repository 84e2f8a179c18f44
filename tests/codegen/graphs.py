"""Hand-written graphs: what capture gives, without torch."""

from kernelswarm.schemas import (
    Expr,
    Graph,
    HardwareFacts,
    Items,
    Node,
    ProblemFacts,
    Ref,
    SymbolSource,
    TensorMeta,
    Work,
)

HARDWARE = HardwareFacts(
    device="test",
    cores=2,
    isa=("avx512f",),
    vector_bytes=64,
    l2_bytes=1 << 21,
    l3_bytes=0,
    memory_bytes=1 << 34,
    copy_gbps=20.0,
    peak_gflops=100.0,
    huge_pages="madvise",
)


def meta(*shape, dtype="float32"):
    sizes = {"s0": 2048, "s1": 4096, "s2": 64}
    example = tuple(size if isinstance(size, int) else eval(size, {}, sizes) for size in shape)
    return TensorMeta(shape=shape, dtype=dtype, example=example)


def source(name, *shape, dtype="float32"):
    return Node(name=name, op="input", values=(meta(*shape, dtype=dtype),))


def call(name, target, args, *shape, dtype="float32", **kwargs):
    arguments = tuple(Ref(name=a) if isinstance(a, str) else a for a in args)
    return Node(
        name=name,
        op="call",
        target=f"aten.{target}",
        args=arguments,
        kwargs=kwargs,
        values=(meta(*shape, dtype=dtype),),
    )


def graph(*nodes, outputs):
    output = Node(name="output", op="output", args=tuple(Ref(name=name) for name in outputs))
    symbols = {}
    for node in nodes:
        for dim, size in enumerate(node.values[0].shape if node.op == "input" else ()):
            if isinstance(size, str):
                symbols.setdefault(size, SymbolSource(input=node.name, dim=dim, example=node.values[0].example[dim]))
    return Graph(nodes=(*nodes, output), symbols=symbols)


def facts(source_graph, error=""):
    work = Work(read_bytes=1, write_bytes=1, flops=1)
    return ProblemFacts(
        signature=("x",),
        shapes=(),
        graph=source_graph,
        work=work,
        dtype="float32",
        float64_oracle=True,
        capture_error=error,
    )


def last(dim=-1):
    return Items(items=(dim,))


def softmax():
    return graph(
        source("x", "s0", "s1"),
        call("amax", "amax.default", ("x", last(), True), "s0", 1),
        call("sub", "sub.Tensor", ("x", "amax"), "s0", "s1"),
        call("exp", "exp.default", ("sub",), "s0", "s1"),
        call("total", "sum.dim_IntList", ("exp", last(), True), "s0", 1),
        call("div", "div.Tensor", ("exp", "total"), "s0", "s1"),
        outputs=["div"],
    )


def matmul_relu():
    return graph(
        source("x", "s0", "s1"),
        source("w", "s1", "s2"),
        call("scaled", "mul.Tensor", ("x", 2.0), "s0", "s1"),
        call("mm", "mm.default", ("scaled", "w"), "s0", "s2"),
        call("relu", "relu.default", ("mm",), "s0", "s2"),
        outputs=["relu"],
    )


def only_matmul():
    return graph(
        source("x", "s0", "s1"),
        source("w", "s1", "s2"),
        call("mm", "mm.default", ("x", "w"), "s0", "s2"),
        outputs=["mm"],
    )


def mean_then_columns():
    return graph(
        source("x", "s0", "s1"),
        call("rows", "sum.dim_IntList", ("x", last()), "s0"),
        call("columns", "sum.dim_IntList", ("x", last(0)), "s1"),
        call("loss", "sum.default", ("rows",)),
        outputs=["columns", "loss"],
    )


def reshaped():
    flat = Expr(value="s0*s1")
    return graph(
        source("x", "s0", "s1"),
        call("view", "view.default", ("x", Items(items=(flat,))), "s0*s1"),
        call("exp", "exp.default", ("view",), "s0*s1"),
        outputs=["exp"],
    )


def dense(layers):
    """Dense blocks as in DenseNet: every layer reads the results of all before it. Seven operators a layer."""
    width, growth, wide = 8, 4, 16
    nodes = [source("x", "s0", width, 32, 32)]
    parameters = []
    features = "x"

    def parameter(name, *shape):
        parameters.append(
            Node(name=name, op="param", target=name, values=(TensorMeta(shape=shape, dtype="float32", example=shape),))
        )
        return Ref(name=name)

    def convolution(name, read, filters, channels, size):
        weight = parameter(f"{name}_weight", filters, channels, size, size)
        pair = Items(items=(1, 1))
        padding = Items(items=(size // 2, size // 2))
        arguments = (read, weight, None, pair, padding, pair, False, Items(items=(0, 0)), 1)
        nodes.append(call(name, "convolution.default", arguments, "s0", filters, 32, 32))

    def scaled_relu(name, read, channels):
        scale = parameter(f"{name}_scale", channels, 1, 1)
        nodes.append(call(f"{name}_scaled", "mul.Tensor", (read, scale), "s0", channels, 32, 32))
        nodes.append(call(name, "relu.default", (f"{name}_scaled",), "s0", channels, 32, 32))

    for layer in range(layers):
        scaled_relu(f"first{layer}", features, width)
        convolution(f"narrow{layer}", f"first{layer}", wide, width, 1)
        scaled_relu(f"second{layer}", f"narrow{layer}", wide)
        convolution(f"new{layer}", f"second{layer}", growth, wide, 3)
        width += growth
        both = Items(items=(Ref(name=features), Ref(name=f"new{layer}")))
        features = f"features{layer}"
        nodes.append(call(features, "cat.default", (both, 1), "s0", width, 32, 32))
    return graph(*parameters, *nodes, outputs=[features])
