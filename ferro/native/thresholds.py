"""The sizes from which the machine room changes its way, as far as ferro/native itself asks: see ferro/cpu/thresholds.py."""

# elements: from here on compiled kernels answer, which start later than NumPy and are faster then
# shown by: bench/thresholds.py
SMALL = 1 << 12

# elements: the longest array that an entry takes on its caller's thread; a longer one is shared among the workers
# shown by: bench/run.py --rows pointwise --threads 2
ENTRY_MOST = 1 << 15

# elements: the longest array that an entry takes at all; the result of a longer one may go past the caches, in a program
# shown by: bench/run.py --rows pointwise
ENTRY_FULL = 1 << 22

# elements: from here on an entry gives the interpreter's lock away while it computes, which costs some 50 ns
# shown by: bench/per_op.py
ENTRY_ALONE = 1 << 11

# elements: of a chunk that a worker takes, where an element takes about a tenth of a nanosecond
# shown by: bench/thresholds.py
CHUNK = 1 << 14

# chunks: at most, which keeps the cost of handing them over negligible, and 8 threads evenly busy
# shown by: bench/thresholds.py
MOST_CHUNKS = 32

# columns: from here on an entry takes a large array and its row or column, whose operation starts anew with each row
# shown by: bench/run.py --rows "add (row|column)" --threads 2
ENTRY_COLUMNS = 1 << 8

# elements: of a chunk of such an operation
# shown by: bench/run.py --rows "add (row|column)" --threads 2
ENTRY_BLOCK = 1 << 13

# elements: of slices, from which on a kernel is called for each row; smaller ones are copied
# shown by: bench/sweep.py --rows 'a\[:, 1:\]'
VIEW_LEAST = 1 << 12

# elements: of a row, from which on slices are worth a call of a kernel for each row
# shown by: bench/sweep.py --rows 'a\[:, 1:\]'
VIEW_COLUMNS = 16
