"""The methods of Tensor that are operations: every family's, in one class."""

from __future__ import annotations

from ferro.ops.activations import ActivationMethods
from ferro.ops.arithmetic import ArithmeticMethods
from ferro.ops.bessel import BesselMethods
from ferro.ops.bins import BinMethods
from ferro.ops.choices import ChoiceMethods
from ferro.ops.cholesky import CholeskyMethods
from ferro.ops.clamping import ClampMethods
from ferro.ops.comparison import ComparisonMethods
from ferro.ops.complex import ComplexMethods
from ferro.ops.copies import CopyMethods
from ferro.ops.data import DataMethods
from ferro.ops.determinants import DeterminantMethods
from ferro.ops.diagonals import DiagonalMethods
from ferro.ops.differences import DifferenceMethods
from ferro.ops.distances import DistanceMethods
from ferro.ops.division import DivisionMethods
from ferro.ops.expanding import ExpandingMethods
from ferro.ops.exponential import ExponentialMethods
from ferro.ops.extrema import ExtremaMethods
from ferro.ops.filling import FillingMethods
from ferro.ops.flat_positions import FlatPositionMethods
from ferro.ops.fused_arithmetic import FusedArithmeticMethods
from ferro.ops.gathering import GatherMethods
from ferro.ops.hyperbolic import HyperbolicMethods
from ferro.ops.index_reduce import IndexReduceMethods
from ferro.ops.indexing import IndexingMethods
from ferro.ops.items import ItemMethods
from ferro.ops.least_squares import LeastSquaresMethods
from ferro.ops.legacy import LegacyMethods
from ferro.ops.likes import LikeMethods
from ferro.ops.logic import LogicMethods
from ferro.ops.logsumexp import LogSumExpMethods
from ferro.ops.lu import LUMethods
from ferro.ops.masks import MaskMethods
from ferro.ops.matrices import MatrixMethods
from ferro.ops.matrix_functions import MatrixFunctionMethods
from ferro.ops.matrix_norms import MatrixNormMethods
from ferro.ops.new_tensors import NewTensorMethods
from ferro.ops.nonzero import NonzeroMethods
from ferro.ops.norms import NormMethods
from ferro.ops.number_tests import NumberTestMethods
from ferro.ops.order import OrderMethods
from ferro.ops.orthogonal import OrthogonalMethods
from ferro.ops.permuting import PermutingMethods
from ferro.ops.pieces import PieceMethods
from ferro.ops.positions import PositionMethods
from ferro.ops.products import ProductMethods
from ferro.ops.quantiles import QuantileMethods
from ferro.ops.random_filling import RandomMethods
from ferro.ops.reductions import ReductionMethods
from ferro.ops.repeating import RepeatingMethods
from ferro.ops.replacements import ReplacementMethods
from ferro.ops.rounding import RoundingMethods
from ferro.ops.scans import ScanMethods
from ferro.ops.scattering import ScatteringMethods
from ferro.ops.selection import SelectionMethods
from ferro.ops.shape import ShapeMethods
from ferro.ops.signs import SignMethods
from ferro.ops.slices import SliceMethods
from ferro.ops.softmax import SoftmaxMethods
from ferro.ops.solving import SolvingMethods
from ferro.ops.special import SpecialMethods
from ferro.ops.spectral import SpectralMethods
from ferro.ops.spectrogram import SpectrogramMethods
from ferro.ops.statistics import StatisticsMethods
from ferro.ops.storage import StorageMethods
from ferro.ops.strided_views import StridedMethods
from ferro.ops.strides import StrideMethods
from ferro.ops.structure import StructureMethods
from ferro.ops.sums_of_products import SumOfProductsMethods
from ferro.ops.tensor_products import TensorProductMethods
from ferro.ops.triangles import TriangleMethods
from ferro.ops.trigonometric import TrigonometricMethods
from ferro.ops.truths import TruthMethods
from ferro.ops.turning import TurningMethods
from ferro.ops.unique import UniqueMethods
from ferro.ops.variance import VarianceMethods
from ferro.ops.vector_products import VectorProductMethods


class OperationMethods(
    ActivationMethods,
    ArithmeticMethods,
    DivisionMethods,
    FusedArithmeticMethods,
    BesselMethods,
    BinMethods,
    UniqueMethods,
    CholeskyMethods,
    ComparisonMethods,
    NumberTestMethods,
    LogicMethods,
    ChoiceMethods,
    ClampMethods,
    ComplexMethods,
    NewTensorMethods,
    DataMethods,
    DeterminantMethods,
    TensorProductMethods,
    ExponentialMethods,
    ExtremaMethods,
    PositionMethods,
    NormMethods,
    MatrixNormMethods,
    DistanceMethods,
    OrderMethods,
    SelectionMethods,
    QuantileMethods,
    OrthogonalMethods,
    ProductMethods,
    SumOfProductsMethods,
    VectorProductMethods,
    RandomMethods,
    ReductionMethods,
    VarianceMethods,
    LogSumExpMethods,
    TruthMethods,
    RoundingMethods,
    SignMethods,
    ReplacementMethods,
    ScanMethods,
    DifferenceMethods,
    CopyMethods,
    FillingMethods,
    IndexingMethods,
    FlatPositionMethods,
    NonzeroMethods,
    ItemMethods,
    RepeatingMethods,
    TurningMethods,
    LeastSquaresMethods,
    LegacyMethods,
    LikeMethods,
    LUMethods,
    MaskMethods,
    MatrixFunctionMethods,
    MatrixMethods,
    SliceMethods,
    DiagonalMethods,
    PieceMethods,
    StridedMethods,
    ScatteringMethods,
    IndexReduceMethods,
    GatherMethods,
    ShapeMethods,
    PermutingMethods,
    ExpandingMethods,
    StrideMethods,
    SoftmaxMethods,
    SolvingMethods,
    TriangleMethods,
    SpecialMethods,
    SpectralMethods,
    SpectrogramMethods,
    StatisticsMethods,
    StorageMethods,
    StructureMethods,
    TrigonometricMethods,
    HyperbolicMethods,
):
    """Methods of Tensor."""

    __slots__ = ()
