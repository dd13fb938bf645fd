"""The machine room: compiles, keeps, loads and calls machine code, and shares it among threads. It knows no kernel and no Tensor.

From the bottom up, no file importing one above it:

    notices locks pages extensions layout work_queue    what the rest stands on
    isa blas threads                                    the processor, the budget of threads
    loader                                              machine code in memory
    disk_cache                                          machine code on disk
    kernel registry compiler_process                    a kernel, the declared ones, the process that compiles
    readiness                                           kernels by name; whether they or NumPy answer
    workers                                             kernels shared among threads
    entries slots recorder                              machine code in front of Python's functions
    jit jit_*                                           what needs Numba, imported when something is compiled

Kernels are declared from above (cpu/kernels), and so are the slots of the tape's classes (core/tape.py).
"""
