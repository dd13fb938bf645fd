"""The functions of torch.nn.functional, family by family."""

from ferro.ops.activations import (
    celu,
    celu_,
    elu,
    elu_,
    gelu,
    glu,
    logsigmoid,
    mish,
    selu,
    selu_,
    silu,
    softplus,
    softsign,
    tanhshrink,
)
from ferro.ops.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices,
)
from ferro.ops.attention import scaled_dot_product_attention
from ferro.ops.average_pooling import avg_pool1d, avg_pool2d, avg_pool3d, lp_pool1d, lp_pool2d, lp_pool3d
from ferro.ops.batch_norms import batch_norm
from ferro.ops.binary_entropy import binary_cross_entropy, binary_cross_entropy_with_logits
from ferro.ops.clipped_activations import hardshrink, hardsigmoid, hardswish, hardtanh, hardtanh_, relu6, softshrink
from ferro.ops.convolution import conv1d, conv2d, conv3d, conv_tbc
from ferro.ops.ctc import ctc_loss
from ferro.ops.distances import cosine_similarity, pairwise_distance, pdist
from ferro.ops.dropout import alpha_dropout, dropout
from ferro.ops.embedding import embedding, one_hot
from ferro.ops.embedding_bags import embedding_bag
from ferro.ops.entropy import cross_entropy, kl_div, nll_loss
from ferro.ops.exponential import sigmoid
from ferro.ops.feature_dropout import dropout1d, dropout2d, dropout3d, feature_alpha_dropout
from ferro.ops.fractional_pooling import (
    fractional_max_pool2d,
    fractional_max_pool2d_with_indices,
    fractional_max_pool3d,
    fractional_max_pool3d_with_indices,
)
from ferro.ops.grids import affine_grid, grid_sample
from ferro.ops.group_norms import functional_group_norm as group_norm
from ferro.ops.group_norms import instance_norm
from ferro.ops.grouped import grouped_mm
from ferro.ops.hyperbolic import tanh
from ferro.ops.interpolation import interpolate, upsample, upsample_bilinear, upsample_nearest
from ferro.ops.label_losses import multi_margin_loss, multilabel_margin_loss, multilabel_soft_margin_loss
from ferro.ops.layer_norms import layer_norm, rms_norm
from ferro.ops.likelihood_losses import gaussian_nll_loss, poisson_nll_loss
from ferro.ops.linear import linear
from ferro.ops.linear_entropy import linear_cross_entropy
from ferro.ops.losses import huber_loss, l1_loss, mse_loss, smooth_l1_loss
from ferro.ops.margin_losses import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from ferro.ops.max_pooling import (
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool2d_with_indices,
    max_pool3d,
    max_pool3d_with_indices,
)
from ferro.ops.multihead import multi_head_attention_forward
from ferro.ops.norms import normalize
from ferro.ops.padding import channel_shuffle, pad, pixel_shuffle, pixel_unshuffle
from ferro.ops.positional import native_channel_shuffle
from ferro.ops.rectifiers import leaky_relu, leaky_relu_, prelu, relu, relu_, rrelu, rrelu_, threshold, threshold_
from ferro.ops.response_norm import local_response_norm
from ferro.ops.sliding import fold, unfold
from ferro.ops.softmax import gumbel_softmax, log_softmax, softmax, softmin
from ferro.ops.tensor_products import bilinear
from ferro.ops.transposed_convolution import conv_transpose1d, conv_transpose2d, conv_transpose3d
from ferro.ops.unpooling import max_unpool1d, max_unpool2d, max_unpool3d

from . import grad

__all__ = [name for name in dir() if not name.startswith("_")]
