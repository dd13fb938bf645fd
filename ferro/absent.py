"""Names that PyTorch has and ferro has not: what to use instead, said by errors and by docs/names.md.

Note [How a name is missed].  Every namespace of ferro gets a ``__getattr__``, which Python calls only for names that are
not there.  It raises AttributeError with the substitute from the table below, or with a name that is spelled alike.
Modules that are not there, and names that ``from ferro import name`` looks for in vain, reach the last of Python's
finders, `_Last`, which says the same in an ImportError.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

# The substitute, and the names below `torch` that it stands for (patterns with * where a family shares a prefix). A module
# stands for all in it.
TABLE: dict[str, str] = {
    # -- whole parts of PyTorch
    "quantised tensors are not there: compute in float32, or in bfloat16 under `amp.autocast`": """
        ao quantization nn.intrinsic nn.qat nn.quantizable nn.quantized quantize_* quantized_* fake_quantize_* q_scale
        q_zero_point q_per_channel_* dequantize int_repr empty_quantized choose_qparams_optimized
        fused_moving_avg_obs_fake_quant qscheme per_channel_affine per_channel_affine_float_qparams
        per_channel_symmetric per_tensor_affine per_tensor_symmetric QInt32Storage QInt8Storage QUInt2x4Storage
        QUInt4x2Storage QUInt8Storage fbgemm_* Tensor.int_repr Tensor.q_per_channel_axis
        Tensor.q_per_channel_scales Tensor.q_per_channel_zero_points Tensor.q_scale Tensor.q_zero_point Tensor.qscheme
        Tensor.dequantize
    """,
    "nested tensors are not there: `nn.utils.rnn.pad_sequence` with a mask, or `pack_sequence`": """
        nested jagged nn.functional.nested Tensor.to_padded_tensor
    """,
    "a tensor and its mask are two arguments: `masked.sum(x, mask=m)` and its like, `safe_where`": """
        masked.maskedtensor masked.MaskedTensor masked.as_masked_tensor masked.is_masked_tensor masked.masked_tensor
    """,
    "there is no symbolic tracer: `debug.graph` shows a computation, hooks (`register_forward_hook`) and "
    "`overrides.TorchFunctionMode` change one": """
        fx func.functionalize
    """,
    "programs are not exported: `save(model.state_dict(), file)`, and the class in a Python file": """
        export nativert package onnx jit.export_opnames utils.bundled_inputs utils.mobile_optimizer utils.model_dump
    """,
    "there is no C++ to extend: `autograd.Function` for an operation with a derivative of its own": """
        library.* classes utils.cpp_extension utils.file_baton utils.backend_registration utils.rename_privateuse1_backend
        utils.generate_methods_for_privateuse1_backend nn.cpp utils.cpp_backtrace utils.get_cpp_backtrace cpp
    """,
    "PyTorch's registered operations are not there: the function of the same name in `torch` or `torch.Tensor`": "ops",
    "nothing is traced: einops' `rearrange`": """
        func.rearrange
    """,
    "sizes are numbers, never symbols: Python's int, float and bool": """
        sym_constrain_range sym_constrain_range_for_size sym_fresh_size sym_ite utils.data.graph
        utils.data.graph_settings
    """,
    "nothing is compiled to TorchScript: `jit.script` returns the function or module itself": """
        AVG AggregationType AliasDb AnyType Argument ArgumentSpec AwaitType BenchmarkConfig BenchmarkExecutionStats
        Block BoolType BufferDict CallStack Capsule ClassType Code CompilationUnit CompleteArgumentSpec ComplexType
        ConcreteModuleType ConcreteModuleTypeBuilder DeepCopyMemoTable DeserializationStorageContext DeviceObjType
        DictType EnumType ErrorReport ExecutionPlan FileCheck FloatType FunctionSchema FutureType Gradient Graph
        GraphExecutorState IODescriptor InferredType IntType InterfaceType JITException ListType LiteScriptModule
        LockingLogger LoggerBase ModuleDict Node NoneType NoopLogger NumberType OperatorInfo OptionalType ParameterDict
        PyObjectType PyTorchFileWriter RRefType SUM ScriptClass ScriptClassFunction ScriptDict
        ScriptDictIterator ScriptDictKeyIterator ScriptFunction ScriptList ScriptListIterator ScriptMethod
        ScriptModuleSerializer ScriptObject ScriptObjectProperty SerializationStorageContext StaticModule StreamObjType
        StringType SymBoolType SymIntType TensorType TracingState TupleType Type UnionType Use Value import_ir_module
        import_ir_module_from_buffer merge_type_from_type_comment parse_ir parse_schema parse_type_comment
        unify_type_list jit.Attribute jit.CompilationUnit jit.Error jit.ScriptFunction jit.set_fusion_strategy
        jit.strict_fusion testing.FileCheck
    """,
    "ferro has no dispatcher: `overrides.TorchFunctionMode`, `__torch_function__`, `autograd.Function`": """
        DispatchKey DispatchKeySet ExcludeDispatchKeyGuard Tag StorageBase overrides.redispatch_function
        overrides.enable_reentrant_dispatch
    """,
    "functions run as they are written, so that there are no guards and nothing compiled to keep: leave the "
    "call out": """
        compiler.config compiler.keep_portable_guards_unsafe compiler.keep_tensor_guards_unsafe
        compiler.load_cache_artifacts compiler.load_compiled_function compiler.nested_compile_region
        compiler.save_cache_artifacts compiler.set_enable_guard_collectives compiler.skip_* compiler.substitute_in_graph
        compiler.wrap_numpy
    """,
    # -- other devices and processes
    "for another device or several: ferro computes on the CPU of one machine; ask `cuda.is_available()` before": """
        backends.cusparselt backends.miopen backends.cudnn.rnn backends.python_native cudnn_* miopen_*
        cuda.* xpu.* mps.* mtia.* backends.cuda.* profiler_allow_cudagraph_cupti_lazy_reinit_cuda12
        nn.functional.scaled_mm nn.functional.scaled_grouped_mm nn.functional.ScalingType nn.functional.SwizzleType
        autograd.graph.set_override_stale_capture_stream autograd.graph.set_warn_on_accumulate_grad_stream_mismatch
        autograd.profiler.load_nvprof autograd.profiler.parse_nvprof_trace
        utils.checkpoint.DefaultDeviceType
        nn.attention.*flash_attention* nn.attention.varlen serialization.validate_cuda_device
        serialization.validate_hpu_device autograd.enforce_grad_layout_policy
        autograd.grad_mode.enforce_grad_layout_policy batch_norm_backward_elemt batch_norm_backward_reduce
        batch_norm_elemt batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_stats
        batch_norm_update_stats
    """,
    "work on the CPU is done when a call returns, there is nothing to wait for: leave the call out, or "
    "`device('cpu')`": """
        cpu.* accelerator.* Tensor.ipu FatalError AcceleratorError backends.kleidiai backends.xnnpack backends.mkldnn.m
        numa
    """,
    "inner functions of PyTorch's: the public one (`nn.functional.conv2d`, `norm`, ...), whose kernels ferro "
    "chooses by itself": """
        mkldnn_* utils.mkldnn slice_inverse native_norm Tensor.to_mkldnn Tensor.slice_inverse
    """,
    "training uses one process and all of its cores (`set_num_threads`); Python's `multiprocessing` for others": """
        nn.parallel.comm nn.parallel.* distributed.* nn.parallel.distributed monitor multiprocessing.pool
        multiprocessing.queue multiprocessing.reductions
    """,
    # -- dtypes and layouts
    "no arithmetic is defined on it in PyTorch either: `uint8`, `int8`, `float8_e4m3fn` or `float8_e5m2`": """
        bit bits16 bits1x8 bits2x4 bits4x2 bits8 int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 uint5 uint6
        uint7 float4_e2m1fn_x2 float8_e8m0fnu
    """,
    "`hash(x.numpy().tobytes())`, or `x.view(int64)` and one's own sum": "hash_tensor Tensor.hash_tensor",
    "`random.fork_rng()`, or a `Generator` for each thread": "thread_safe_generator random.thread_safe_generator",
    "`DisableTorchFunctionSubclass`, and no mode around the call": "DisableTorchFunction",
    "`scipy.stats`, or the functions of random numbers (`normal`, `poisson`, `multinomial`)": "distributions",
    "results of `out=` have the type of the function: `return_types.sort`, `return_types.max`, ...": """
        return_types.*_out return_types.all_return_types return_types.pytree_register_structseq
    """,
    "sparse tensors by blocks are not there: `sparse_csr_tensor`, `sparse_csc_tensor`": """
        sparse_bsc_tensor sparse_bsr_tensor Tensor.to_sparse_bsc Tensor.to_sparse_bsr
    """,
    "`x.indices().clone()` and its like": """
        ccol_indices_copy col_indices_copy crow_indices_copy row_indices_copy indices_copy values_copy
    """,
    "`x.resize_(y.shape)` of a dense tensor; `sparse_coo_tensor` with the sizes wanted": "resize_as_sparse_ Tensor.resize_as_sparse_",
    "the 2:4 pattern is for GPUs: `nn.utils.prune`, or a mask": """
        sparse.SparseSemiStructured* sparse.to_sparse_semi_structured
    """,
    "`autograd.gradcheck`, which takes functions of sparse tensors": "sparse.as_sparse_gradcheck",
    "`scipy.sparse.linalg.spsolve` on NumPy arrays, or `linalg.solve(a.to_dense(), b)`": "sparse.solve",
    # -- what PyTorch itself has given up, or has for its own use
    "`linalg.eig` and `linalg.eigh` (PyTorch raises, too)": "eig symeig Tensor.eig Tensor.symeig",
    "the function of the same name in `linalg` (PyTorch raises, too)": """
        lstsq solve matrix_rank Tensor.lstsq Tensor.solve
    """,
    "`distributions`: `-distribution.log_prob(action) * reward` (PyTorch raises, too)": "Tensor.reinforce",
    "`no_grad()` or `detach()` (a tensor of PyTorch's is never volatile, either)": "Tensor.volatile",
    "`data_ptr()`": "Tensor.const_data_ptr",
    "a tensor's gradient has the tensor's dtype: cast in a hook, `register_hook(lambda g: g.to(dtype))`": "Tensor.grad_dtype",
    "`x[...]`, and `x[i] = y` or `index_put_`": "Tensor.index",
    "`linalg.eigh` for all eigenvalues; `scipy.sparse.linalg.lobpcg` for a few of a large matrix": "lobpcg",
    "`contiguous_format`": "legacy_contiguous_format",
    "`signal.windows`, or `hann_window` and its like": "windows",
    "`amp.autocast('cpu', dtype=...)`; `is_autocast_enabled('cpu')`, `get_autocast_dtype('cpu')`, "
    "`set_autocast_dtype('cpu', ...)`": """
        autocast_increment_nesting autocast_decrement_nesting amp.autocast_mode.autocast_decorator
        amp.grad_scaler.OptState *_autocast_ipu_* *_autocast_xla_* is_autocast_ipu_enabled is_autocast_xla_enabled
        set_autocast_gpu_dtype get_autocast_gpu_dtype set_autocast_cpu_enabled set_autocast_cpu_dtype
        get_autocast_cpu_dtype is_autocast_cpu_enabled
    """,
    "`nn.Module`, `nn.Sequential` or `nn.ModuleList` (deprecated in PyTorch, too)": """
        nn.Container nn.modules.container.Container
    """,
    "`autograd.Function` (deprecated in PyTorch, too)": "autograd.NestedIOFunction autograd.function.NestedIOFunction",
    "`autograd.Function`, `Tensor`": """
        autograd.function.BackwardCFunction autograd.function.FunctionMeta autograd.variable.VariableMeta
    """,
    "`autograd.gradcheck`, `autograd.functional.jacobian`, `func.jacrev`": "autograd.gradcheck.get_*",
    "`profiler.profile` measures time and memory of operations; `export_chrome_trace` writes them": """
        autograd.profiler.* autograd.profiler_legacy autograd.profiler_util.* profiler.ExecutionTraceObserver
        profiler.DeviceType profiler.itt profiler.python_tracer
    """,
    "`utils.checkpoint.checkpoint`": "autograd.graph.region_activation_memory_budget",
    "`utils.data.Dataset` or `IterableDataset` (PyTorch develops data pipes no further)": """
        utils.data.*DataPipe* utils.data.DataChunk utils.data.datapipes utils.data.argument_validation
        utils.data.functional_datapipe utils.data.guaranteed_datapipes_determinism utils.data.non_deterministic
        utils.data.runtime_validation* utils.data.backward_compatibility utils.data.DFIterDataPipe
    """,
    "`Module.register_full_backward_hook`": "utils.hooks.BackwardHook",
    "hooks are left out of what is pickled: nothing to mark": "utils.hooks.unserializable_hook utils.hooks.warn_if_has_hooks",
    "Python's `timeit`; `profiler.profile` for operations": """
        utils.ThroughputBenchmark ThroughputBenchmark utils.throughput_benchmark utils.benchmark utils.flop_counter.*
    """,
    "`show_config()`, or `python -m ferro.env`": "utils.collect_env",
    "its warnings are of 2017: leave it out": "utils.backcompat",
    "Python's `pickletools`": "utils.show_pickle",
    "`from torch.utils.tensorboard import SummaryWriter` imports it; it needs `pip install 'ferro[tensorboard]'`": "utils.tensorboard",
    "`Module.register_forward_pre_hook`, or `debug.graph`": "utils.module_tracker",
    "`Tensor.register_hook(print)`, `debug.nan_guard`": "utils.debug_log utils.debug_log.debug_grad_log",
    "`save` and `load` have no such setting: leave it out, or convert what `load` returns": """
        utils.serialization serialization.*
    """,
    "Python's `weakref`: tensors compare and hash by identity": "utils.weak",
    "`utils.checkpoint.create_selective_checkpoint_contexts`": "utils.checkpoint.SAC_IGNORED_OPS",
    "`x.__dlpack_device__()[0]` is 1, the CPU": "utils.dlpack.DLDeviceType",
    "`optimizer.load_state_dict`": "optim.swap_in_optimizer_params_and_state",
    "`is_causal=True`, or a mask: `ones(n, n).tril().bool()`": "nn.attention.bias",
    "`nn.functional.scaled_dot_product_attention` with a mask or an added bias": "nn.attention.flex_attention.*",
    "inner to PyTorch: leave it out": """
        nn.attention.WARN_FOR_UNFUSED_KERNELS nn.factory_kwargs utils.set_module classproperty
    """,
    "what PyTorch's own code imports there: `Tensor`, `overrides.handle_torch_function`, "
    "`overrides.has_torch_function`": """
        nn.functional.BroadcastingList* nn.functional.Tensor nn.functional.assert_int_or_pair
        nn.functional.boolean_dispatch nn.functional.handle_torch_function nn.functional.has_torch_function* fft.Tensor
    """,
    "PyTorch's inside: its public functions are ferro's, too": """
        _C _ops _prims _refs _decomp _higher_order_ops _subclasses _export _functorch
    """,
    "of PyTorch's build: leave it out": """
        compiled_with_cxx11_abi get_file_path prepare_multiprocessing_environment init_num_threads
    """,
}

# The roots of names that are ferro's: `torch`, too, while `ferro.as_torch` is installed.
ROOTS = ["ferro"]
INNER = (
    "absent",
    "as_torch",
    "batched",
    "core",
    "cpu",
    "functional",
    "ops",
    "xp",
)  # ferro's own, of which PyTorch has no name


@cache
def _rules() -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The table, by name and by pattern."""
    rules = [(name, text) for text, names in TABLE.items() for name in names.split()]
    return {n: t for n, t in rules if "*" not in n}, [(n, t) for n, t in rules if "*" in n]


def substitute(name: str) -> str | None:
    """What to use instead of a name below `torch` that ferro has not; None if the table does not know the name.

    >>> from ferro.absent import substitute
    >>> substitute("windows")
    '`signal.windows`, or `hann_window` and its like'
    """
    exact, patterns = _rules()
    around = name
    while around:
        if around in exact:
            return exact[around]
        around = around.rpartition(".")[0]
    return next((text for pattern, text in patterns if fnmatchcase(name, pattern)), None)


def explained(name: str, known: list[str]) -> str:
    """How an error goes on about a name below `torch` that is not there: ": torch.fx is not in ferro. ...", or ""."""
    exact, _ = _rules()
    last = name.rpartition(".")[2]
    text = exact.get(name)
    if text is None:  # a pattern may hold for a name that PyTorch has not, either: first what is spelled alike
        near = [n for n in known if abs(len(n) - len(last)) <= 2 and not n.startswith("_")]
        alike = difflib.get_close_matches(last, near, 1, 0.75)
        if alike:
            return f". Did you mean: {alike[0]!r}?"
        text = substitute(name)
    return f": torch.{name} is not in ferro. Instead: {text} (docs/names.md)" if text else ""


def missing(module: str, name: str) -> NoReturn:
    """Raises AttributeError for a name that a module of ferro has not."""
    short = f"{module}.{name}".partition(".")[2]
    more = "" if name.startswith("__") else explained(short, dir(sys.modules[module]))
    error = AttributeError(f"module {module!r} has no attribute {name!r}{more}")
    error.name = name  # (Python would add a guess of its own otherwise)
    raise error


def _getattr(module: str) -> Callable[[str], Any]:
    def __getattr__(name: str) -> NoReturn:
        missing(module, name)

    return __getattr__


class _Missing:
    """A method that PyTorch's tensors have and ferro's have not: AttributeError, as if it were not there.

    (A ``__getattr__`` of the class would slow down every attribute that is there.)
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, t: Any, owner: type) -> NoReturn:
        about = f"type object {owner.__name__!r}" if t is None else f"{owner.__name__!r} object"
        error = AttributeError(f"{about} has no attribute {self.name!r}{explained(f'Tensor.{self.name}', [])}")
        error.name = self.name
        raise error


def explain_methods(cls: Any) -> None:
    """Lets the class of tensors say what stands for the methods of the table that it has not; dir() leaves them out."""
    gone = set()
    for name in _rules()[0]:
        base, _, method = name.rpartition(".")
        if base == "Tensor" and not hasattr(cls, method):
            setattr(cls, method, _Missing(method))
            gone.add(method)

    def __dir__(self: Any) -> list[str]:
        names = [name for name in object.__dir__(self) if name not in gone or hasattr(self, name)]
        if not self.is_cuda or self.is_sparse:
            names.remove("__cuda_array_interface__")
        return names

    cls.__dir__ = __dir__


def explain(*modules: str) -> None:
    """Lets namespaces say what stands for the names that they have not; those that have a ``__getattr__`` keep it."""
    for name in modules:
        module = sys.modules[name]
        vars(module).setdefault("__getattr__", _getattr(name))
        vars(module).setdefault("__path__", [])  # so that `from module import name` asks `_Last`, too


def load(name: str) -> ModuleType:
    """A module of ferro that is imported when it is first asked for; it explains, too."""
    module = import_module(name)
    explain(name)
    return module


def explain_all() -> None:
    """The same for all of ferro's public modules that have been imported, and for modules that have not been found."""
    names = [n.split(".") for n in sys.modules if n.startswith("ferro.")]
    public = [n for n in names if n[1] not in INNER and not any(part.startswith("_") for part in n)]
    explain(*(".".join(n) for n in public))
    if not any(isinstance(finder, _Last) for finder in sys.meta_path):
        sys.meta_path.append(_Last())


class _Last:
    """The last of Python's finders: what nobody has found is explained if it is PyTorch's."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> None:
        root, _, inside = name.partition(".")
        if root not in ROOTS or not inside or sys._getframe(2).f_code.co_name == "find_spec":  # (it only asks whether)
            return
        parent, _, last = name.rpartition(".")
        more = explained(inside, dir(sys.modules[parent]))
        if more:
            raise ModuleNotFoundError(f"No module named {name!r}; cannot import name {last!r} from {parent!r}{more}")
