"""Kernels by hand, CUDA C++ text of one family of functions to a file, and the functions that launch them in the place of twins.

Note [Kernels by hand]
    A text is written once for all dtypes: its words are what an array stores (``S``), what is computed in (``T``, float for 16-bit
    floats), and what is added in (``A``: double for float and double, float for 16-bit floats); `texts.py` puts them in.
    Sums are taken in an order that only the shapes decide: no atomics, the same bits on each run and on each GPU.
    `launching.py` counts launches by name. What a kernel has not (complex numbers, no elements, no dimensions) goes to the twin.
    tests/cuda/test_hand_*.py run all of them, thread by thread, tests/cuda/test_compiled.py compiles them, and tests/cuda/faults.py has
    faults for each family that those tests must find: a barrier left out, a wrong index, a sum in too narrow a type.
"""
