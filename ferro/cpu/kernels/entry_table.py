"""Which functions of arrays have entries in machine code, and what they are called with; see entries.py."""

from __future__ import annotations

# By the file that the kernel stands in: names and layouts, see Note [Layouts] in native/jit_layouts.py.
LAYOUTS = {
    "jit_small": {
        "add sub mul truediv maximum minimum": "x ~ -> x +",
        "neg sqrt": "x -> x +",
        "sum mean": "x dims keep -> r ?+",
        "amax amin": "x dims keep -> r +",
        "var": "x dims number keep -> r ?",
        "vector_norm": "x number dims keep -> r ?+",
        "max_dim min_dim": "x dims keep -> r i",
        "cross_entropy": "x labels none number mean number -> one norms ?",
        "cross_entropy_vjp": "one x labels none number mean number norms -> x ?",
        "difference_loss": "number x = number number mean -> one",
        "difference_slope": "number one x = number number -> x",
        "take_rows": "table index -> taken ?",
        "add_rows": "x index count none false -> counted ?",
    },
}
WRITTEN = {  # entries that no layout describes
    "jit_joining": "cat stack",
    "jit_small_conv": "conv conv_input conv_weight",
}
