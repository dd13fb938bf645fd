"""The world of NumPy arrays: pure array functions with PyTorch's vocabulary, arguments already normalised."""

from ferro.cpu.indexing import *
from ferro.cpu.joining import *
from ferro.cpu.norms import *
from ferro.cpu.pointwise import *
from ferro.cpu.products import *
from ferro.cpu.reductions import *
from ferro.cpu.scans import *
from ferro.cpu.shape import *
from ferro.cpu.structure import *
