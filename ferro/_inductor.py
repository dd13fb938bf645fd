"""Settings of PyTorch's code generator that programs change (``torch._inductor.config.max_autotune = True``): kept, without effect."""

from ferro._dynamo import Config

__all__ = ["config"]

config = Config(
    "ferro._inductor.config",
    assert_indirect_indexing=True,
    compile_threads=1,
    conv_1x1_as_mm=False,
    coordinate_descent_check_all_directions=False,
    coordinate_descent_tuning=False,
    cpp_wrapper=False,
    debug=False,
    emulate_precision_casts=False,
    epilogue_fusion=True,
    fallback_random=False,
    force_fuse_int_mm_with_mul=False,
    freezing=False,
    fx_graph_cache=True,
    max_autotune=False,
    max_autotune_gemm_backends="ATEN,TRITON,CPP",
    permute_fusion=False,
    shape_padding=True,
    use_mixed_mm=True,
    triton=Config("ferro._inductor.config.triton", cudagraph_trees=True, cudagraphs=False, unique_kernel_names=True),
)
