"""The world of NumPy arrays: pure array functions with PyTorch's vocabulary, arguments already normalised."""

from ferro.cpu.activations import *
from ferro.cpu.convolution import *
from ferro.cpu.embedding import *
from ferro.cpu.indexing import *
from ferro.cpu.joining import *
from ferro.cpu.losses import *
from ferro.cpu.normalisation import *
from ferro.cpu.norms import *
from ferro.cpu.order import *
from ferro.cpu.pointwise import *
from ferro.cpu.pooling import *
from ferro.cpu.products import *
from ferro.cpu.reductions import *
from ferro.cpu.scans import *
from ferro.cpu.shape import *
from ferro.cpu.softmax import *
from ferro.cpu.special import *
from ferro.cpu.structure import *
