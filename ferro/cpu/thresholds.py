"""The sizes from which functions of arrays change their way: one entry for each meaning, and what its number was chosen by.

Over each entry stands its unit and its meaning, and then a program that shows both sides: `python bench/thresholds.py NAME`
times the ways below and above it in one process, a row of `bench/run.py` the operation that it decides about. What
bench/thresholds.py measured is in docs/internals/thresholds.md. Values are literals: machine code is made with the number, and
only kernels that import an entry are compiled again when it changes (native/disk_cache.py). What ferro/native itself
asks for stands in native/thresholds.py; how wide the blocks of one kernel are, in the file of that kernel.
"""

# --- elementwise functions and copies --------------------------------------------------------------------------------

# elements: of a chunk that a thread of Python takes, if an element takes a nanosecond; a hand-over costs 20 to 60 us
# shown by: bench/run.py --rows 'pointwise|indexing' --threads 2
GRAIN = 1 << 16

# elements: from here on formulas of several steps run as programs, a block after the other
# shown by: bench/thresholds.py
PROGRAM_LEAST = 1 << 15

# elements: that a step of a program takes at a time, so that what steps leave stays in the first-level cache
# shown by: bench/thresholds.py
PROGRAM_BLOCK = 1 << 12

# columns: from here on a row of a program is worth a call of one of NumPy's loops
# shown by: bench/thresholds.py
PROGRAM_COLUMNS = 1 << 8

# bytes: read and written, from which on a result goes past the caches to memory (kernels/jit_stream.py)
# shown by: bench/thresholds.py
STREAM_LEAST = 3 << 24

# bytes: of a block of such a result, which are stored while the next one is read
# shown by: bench/thresholds.py
STREAM_BLOCK = 1 << 12

# elements: of a block of a formula that no program can do
# shown by: bench/thresholds.py
BLOCK = 1 << 15

# elements: from here on such formulas are cut into blocks
# shown by: bench/thresholds.py
BLOCK_LEAST = 1 << 16

# elements: from here on SciPy's functions of one argument are shared among threads; each takes some 20 ns an element
# shown by: bench/thresholds.py
SPECIAL_LEAST = 1 << 13

# elements: from here on views are copied by a kernel; what comes before it takes some microseconds
# shown by: bench/thresholds.py
COPY_LEAST = 1 << 15

# elements: of a chunk of a copy
# shown by: bench/thresholds.py
COPY_CHUNK = 1 << 13

# bytes: of a row of a copy, from which on memcpy is as quick as a loop
# shown by: bench/run.py --rows 'indexing: (cat|stack|roll)'
COPY_ROW = 1 << 15

# elements: of rows of a copy, up to which the columns of longer ones are copied instead
# shown by: bench/sweep.py --rows unfold
COPY_FEW = 8

# copies: planned together, up to which the plan is kept for the next time
# shown by: bench/run.py --rows 'indexing: .*(cat|split)'
COPY_PLANS = 64

# elements: of a mask of a triangle, up to which it is kept for the next time
# shown by: bench/run.py --rows 'indexing: tri'
TRIANGLE_KEPT = 1 << 14

# elements: of an array with gaps, up to which it is joined to others by an entry, one element after the other
# shown by: bench/per_op.py
JOIN_SCATTERED = 512

# --- indexing --------------------------------------------------------------------------------------------------------

# elements: from here on adding at places is worth what comes before it
# shown by: bench/thresholds.py
INDEX_LEAST = 1 << 11

# places: of an index, below which they are looked at fastest as a list
# shown by: bench/thresholds.py
INDEX_LIST = 32

# elements: of a slice, below which NumPy takes it faster than the kernel on one thread
# shown by: bench/thresholds.py
TAKE_NARROW = 10

# elements: of a chunk of what is added at places, each of which looks at all of the index
# shown by: bench/run.py --rows 'indexing: index_add' --threads 2
ADD_CHUNK = 1 << 13

# --- sums, extremes, order -------------------------------------------------------------------------------------------

# elements: from here on kernels sum; below, NumPy takes less than 50 us
# shown by: bench/thresholds.py
SUM_LEAST = 1 << 17

# elements: that one thread sums in some 50 us
# shown by: bench/thresholds.py
SUM_GRAIN = 1 << 19

# elements: of a few long rows or columns, that are summed together
# shown by: bench/run.py --rows 'reductions: sum' --threads 2
SUM_PIECE = 1 << 16

# rows: that are added in the precision of the data, before these sums are added in float64
# shown by: bench/rounding.py
SUM_ROWS = 1 << 5

# tiles: of columns, up to which there are too few to share, and rows are cut as well
# shown by: bench/run.py --rows 'reductions: sum' --threads 2
SUM_FEW_TILES = 8

# columns: that are summed together; their sums stay in the first-level cache
# shown by: bench/run.py --rows 'reductions: sum'
SUM_TILE = 1 << 10

# elements: that may be added one after the other (more lose digits)
# shown by: bench/rounding.py
SUM_RUN = 1 << 8

# elements: that lie side by side, which entries sum as they lie, dozens of sums at once
# shown by: bench/rounding.py
SUM_LONG = 1 << 13

# rows: that are summed for themselves, at least, where sums of rows are cut into parts
# shown by: bench/run.py --rows 'nn: layer_norm' --threads 2
CHANNEL_ROWS = 512

# places: of a channel, below which each of them is a column of a matrix
# shown by: bench/run.py --rows 'nn: batch_norm'
CHANNEL_FEW = 32

# elements: of an array, from which on its keys are packed with positions to be sorted, and elements selected, not sorted
# shown by: bench/thresholds.py
ORDER_LEAST = 1 << 11

# --- products --------------------------------------------------------------------------------------------------------

# multiplications: of a product with a vector, up to which OpenBLAS uses one thread whatever its limit
# shown by: OpenBLAS 0.3, interface/gemv.c and interface/ger.c
BLAS_VECTOR = 2048

# multiplications: of real matrices, up to which OpenBLAS uses one thread whatever its limit
# shown by: OpenBLAS 0.3, interface/gemm.c
BLAS_MATRIX = 1 << 18

# multiplications: the same where it has kernels for small products, of a second matrix in C order
# shown by: OpenBLAS 0.3, kernel/x86_64/sgemm_small_kernel_permit_skylakex.c
BLAS_SMALL = 1 << 19

# multiplications, chunks: from so many multiplications on, a product of BLAS is cut into so many chunks
# shown by: bench/run.py --rows 'linalg: matmul' --threads 2
BLAS_CHUNKS = ((1 << 34, 16), (1 << 31, 8), (1 << 26, 4), ((1 << 24) + 1, 2))

# multiplications: of a step of a recurrent layer of 16 sequences, up to which its weight is turned round for BLAS before the steps
# shown by: bench/run.py --rows 'nn: (lstm|gru)' --threads 2
PRODUCT_SHARED = 1 << 24

# multiplications: of a chunk that a worker takes, some 12 to 25 us
# shown by: bench/run.py --rows 'linalg: matmul' --threads 2
PRODUCT_CHUNK = 1 << 20

# multiplications: of two matrices, from which on a kernel is quicker than BLAS where that has none for small products
# shown by: bench/run.py --rows 'linalg: (matmul|cholesky) 64'
NEAR_LEAST = 48**3

# multiplications: up to which both stay in the near caches, and a kernel that needs no plan computes them
# shown by: bench/run.py --rows 'linalg: matmul 128'
NEAR_MOST = 1 << 22

# steps: of a product of a matrix with its transpose, up to which half of it is computed, in sums that are not cut
# shown by: bench/rounding.py
NEAR_STEPS = 512

# multiplications: from here on the kernel for products is faster than BLAS
# shown by: bench/thresholds.py
GEMM_LEAST = (1 << 18) + 1

# multiplications: of a few rows with a transposed matrix, from which on dot products are quicker than BLAS; of one row: BLAS_VECTOR
# shown by: bench/run.py --rows 'nn: linear (1|8)x'
DOTS_LEAST = 1 << 17

# bytes: of these rows, up to which they stay in the second cache beside the rows of the matrix
# shown by: bench/run.py --rows 'nn: linear (1|8)x'
DOTS_NEAR = 1 << 18

# multiplications: of a chunk of such a product, which waits for memory
# shown by: bench/run.py --rows 'nn: linear (1|8)x' --threads 2
DOTS_CHUNK = 1 << 17

# multiplications: of a stack of products, from which on it is
# shown by: bench/thresholds.py
GEMM_LEAST_STACK = 1 << 19

# multiplications: of each product of such a stack
# shown by: bench/thresholds.py
GEMM_LEAST_EACH = 1 << 14

# multiplications: the same where the rows of a factor lie apart (that of a transposed one), which NumPy copies one by one
# shown by: bench/run.py --rows 'linalg: cholesky 128'
GEMM_LEAST_TURNED = 1 << 12

# rows: up to which a vector of ones is kept to sum columns by a product
# shown by: bench/thresholds.py
ONES_ROWS = 1 << 13

# columns: up to which a reduction along them is slower than a product with ones
# shown by: bench/thresholds.py
ONES_COLUMNS = 1 << 8

# rows: of a matrix, from which on products, which are shared, find most of its Cholesky factor
# shown by: bench/run.py --rows 'linalg: cholesky'
CHOLESKY_LEAST = 640

# columns: of that factor that are found at a time
# shown by: bench/run.py --rows 'linalg: cholesky'
CHOLESKY_BLOCK = 96

# numbers: of a matrix, up to which LAPACK's factorisations are slower than kernels
# shown by: bench/thresholds.py
FACTOR_MOST = 1 << 20

# multiplications: of a chunk of factorisations of a stack, some 20 to 50 us
# shown by: bench/run.py --rows 'linalg: (cholesky|qr|solve)' --threads 2
FACTOR_CHUNK = 1 << 18

# order: from which on singular vectors are found in LAPACK's steps, the last one by a kernel
# shown by: bench/run.py --rows 'linalg: svdvals (64|128).*backward'
SVD_LEAST = 96

# multiplications: of a chunk of vectors that reflectors are applied to, each of which lays out the reflectors again
# shown by: bench/run.py --rows 'linalg: (eigh|svd) 512' --threads 2
REFLECT_CHUNK = 1 << 21

# order: of a triangle, up to which it stays in the second-level cache while one panel after the other reads it
# shown by: bench/thresholds.py
TRIANGLE_MOST = 512

# multiplications: of a step of an LSTM, from which on they are worth several threads, and the kernel of all steps is not
# shown by: bench/run.py --rows 'nn: lstm' --threads 2
LSTM_SHARED = 1 << 25

# multiplications: that a thread takes through all steps of an LSTM, some 40 us
# shown by: bench/run.py --rows 'nn: lstm' --threads 2
LSTM_CHUNK = 1 << 21

# numbers: of a block of scores in the kernel of attention, which stays in the second-level cache
# shown by: bench/run.py --rows attention
ATTENTION_SCORES = 1 << 16

# elements: that a sparse product gathers at a time
# shown by: bench/sparse_products.py
SPARSE_GATHERED = 1 << 16

# --- convolution, pooling, sequences ---------------------------------------------------------------------------------

# multiplications: from here on kernels convolve; below, a product of matrices of windows
# shown by: bench/thresholds.py
CONV_LEAST = 1 << 17

# multiplications: up to which an entry convolves; from there on a product of matrices is faster
# shown by: bench/per_op.py
CONV_TERMS = 2048

# places: in a direction, up to which it does
# shown by: bench/per_op.py
CONV_LONGEST = 1 << 10

# elements: of the matrix of windows of one chunk
# shown by: bench/conv.py
CONV_WINDOWS = 1 << 18

# multiplications: from here on such chunks are computed by several threads
# shown by: bench/conv.py --threads 2
CONV_SHARED = 1 << 22

# numbers: that a tile of a convolution reads and writes
# shown by: bench/conv.py
CONV_TILE = 1 << 19

# numbers: that a tile of several images reads and writes
# shown by: bench/run.py --rows 'nn: conv1d'
CONV_IMAGES = 1 << 17

# multiplications: of a chunk of a convolution, about 30 us
# shown by: bench/conv.py --threads 2
CONV_CHUNK = 1 << 21

# channels times results: from here on there are tiles for several threads
# shown by: bench/conv.py --threads 2
CONV_TILES = 1 << 20

# numbers: in all the gradients by the weight that chunks may sum apart, if they are more than two
# shown by: bench/conv.py --threads 2
CONV_TOTALS = 1 << 22

# places: of a gradient, at least, for each of the sums that chunks keep apart, if they are more than two
# shown by: bench/conv.py --threads 2
CONV_APART = 1 << 10

# bytes: of images, that the taps see which a block sums before the next block; the first cache holds them beside the weight
# shown by: bench/run.py --rows 'nn: conv2d.*stride'
CONV_NEAR = 24 << 10

# numbers: that a tile sees of images whose channels lie along registers
# shown by: bench/conv.py
CONV_STRIP = 1 << 17

# numbers: of the images of a tile of Winograd's algorithm
# shown by: bench/conv.py
WINOGRAD_STRIP = 1 << 18

# channels: of images and results, from which on half as many windows are multiplied at a time
# shown by: bench/conv.py
WINOGRAD_MANY = 384

# multiplications: from here on there are tiles for several threads
# shown by: bench/conv.py --threads 2
WINOGRAD_SHARED = 1 << 22

# elements: of several arrays of planes, which stay in the second-level cache
# shown by: bench/run.py --rows 'nn: .*pool'
POOL_CACHED = 1 << 16

# --- the tape --------------------------------------------------------------------------------------------------------

# elements: from here on adding a gradient in place is worth a look at its reference count
# shown by: bench/thresholds.py
ADD_IN_PLACE_LEAST = 1 << 15

# elements: of a gradient, below which the engine does not ask whether several threads would gain
# shown by: bench/parallel.py
SHARE_LEAST = 2000

# nanoseconds: by estimate (many times the true ones, where kernels run), of two nodes at hand that are worth two threads
# shown by: bench/parallel.py
HEAVY = 600_000

# nanoseconds: the same, where the caller names a number of threads
# shown by: bench/parallel.py
HEAVY_IF_ASKED = 40_000

# nanoseconds: of one node that is worth a thread, with more to come behind others
# shown by: bench/parallel.py
VERY_HEAVY = 1_000_000
