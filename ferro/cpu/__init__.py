"""The backend of NumPy arrays: pure array functions with PyTorch's vocabulary, arguments already normalised."""

import warnings as _warnings

from ferro.cpu.activations import *
from ferro.cpu.attention import *
from ferro.cpu.convolution import *
from ferro.cpu.ctc import *
from ferro.cpu.determinants import *
from ferro.cpu.elementwise import *
from ferro.cpu.embedding import *
from ferro.cpu.formulas import *
from ferro.cpu.fourier import *
from ferro.cpu.grids import *
from ferro.cpu.indexing import *
from ferro.cpu.interpolation import *
from ferro.cpu.joining import *
from ferro.cpu.kernels import entries as _entries
from ferro.cpu.linalg_exponential import *
from ferro.cpu.linalg_ldl import *
from ferro.cpu.linalg_solve import *
from ferro.cpu.linalg_spectral import *
from ferro.cpu.losses import *
from ferro.cpu.masks import *
from ferro.cpu.mean_pooling import *
from ferro.cpu.normalisation import *
from ferro.cpu.norms import *
from ferro.cpu.order import *
from ferro.cpu.pointwise import *
from ferro.cpu.pooling import *
from ferro.cpu.powers import *
from ferro.cpu.products import *
from ferro.cpu.quantile_slopes import dirichlet_grad, standard_gamma_grad
from ferro.cpu.quotients import *
from ferro.cpu.recurrent import *
from ferro.cpu.reductions import *
from ferro.cpu.scans import *
from ferro.cpu.shape import *
from ferro.cpu.softmax import *
from ferro.cpu.sparse import *
from ferro.cpu.special import *
from ferro.cpu.steps import *
from ferro.cpu.streams import *  # (of torch.cpu, whose name this package has)
from ferro.cpu.structure import *
from ferro.cpu.variance import *

_entries.bind(globals())  # all are declared by now

# log(0) is -inf and 0/0 is nan, here as in PyTorch: no occasion for NumPy's RuntimeWarning where ferro itself computes.
# A filter costs nothing, np.errstate around each operation costs as much as four small operations.
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"ferro(\.|$)")
