"""Kernels for large arrays, compiled by Numba when they are first needed.

A module such as `softmax` holds functions of NumPy arrays, each with a NumPy formula for small arrays, for dtypes that
no kernel takes, and for as long as there is no machine code. Its compiled half stands in a module named jit_*.

Note [From a kernel to machine code]
    `native.readiness.get` gives a `Kernel` (kernel.py), which is called like the function that it stands for. The machine
    code of its signatures lies on disk (disk_cache.py), from where it is loaded without Numba (loader.py). What is not
    there yet is asked (readiness.py) of a child process (compiler_process.py), which compiles it (jit.py, jit_export.py).
    All these files stand in ferro/native, which knows of kernels what is declared beside the functions that call them, in
    one of three ways: `elementwise` (ferro/elementwise.py), `array_function` and `by_kernels` (ferro/cpu). prepare.py compiles
    them ahead.
"""
