// What CUDA's compiler gives to kernels, for a C++ compiler of the processor. The threads of a block are fibres: each runs until it
// waits at a barrier or for other lanes of its warp. The order in which they go on is chosen by a seed: 0 the order of their
// numbers, 1 the reverse; with others one warp at random after the other goes as far as it comes, its lanes in an order at random. A kernel whose threads race gives other bits in another order. Shared memory
// is filled with nan before each block. What CUDA leaves undefined (a barrier that not all threads reach, lanes that are not
// there) ends the launch with a message.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <algorithm>
#include <vector>
using std::acos; using std::asin; using std::atan; using std::cos; using std::erf; using std::erfc; using std::exp;
using std::exp2; using std::expm1; using std::fabs; using std::fma; using std::log; using std::log1p; using std::log2;
using std::pow; using std::sin; using std::sqrt; using std::tan; using std::tanh; using std::ceil; using std::atan2; using std::cosh; using std::sinh;
#define __global__
#define __device__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static __attribute__((section("shared_memory")))
struct Three { unsigned x = 1, y = 1, z = 1; };
static Three blockIdx, threadIdx, blockDim, gridDim;
struct __half { _Float16 bits; };
inline float __half2float(__half x) { return (float)x.bits; }
inline __half __float2half(float x) { return __half{(_Float16)x}; }
struct __nv_bfloat16 { uint16_t bits; };
inline float __bfloat162float(__nv_bfloat16 x) {
  const uint32_t wide = (uint32_t)x.bits << 16;
  float y;
  std::memcpy(&y, &wide, 4);
  return y;
}
inline __nv_bfloat16 __float2bfloat16(float x) {  // to nearest, ties to even
  uint32_t wide;
  std::memcpy(&wide, &x, 4);
  if (x != x) return __nv_bfloat16{0x7fc0};
  return __nv_bfloat16{(uint16_t)((wide + 0x7fff + ((wide >> 16) & 1)) >> 16)};
}
template <class T> inline void sincospi(T x, T* s, T* c) {
  *s = (T)std::sin(3.14159265358979323846L * x);
  *c = (T)std::cos(3.14159265358979323846L * x);
}
inline double cospi(double x) { return (double)std::cos(3.14159265358979323846L * x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((uint64_t)a * b) >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
template <class P, class V> inline P atomicAdd(P* p, V v) { const P old = *p; *p = old + (P)v; return old; }
template <class P, class V> inline P atomicMax(P* p, V v) { const P old = *p; if ((P)v > old) *p = (P)v; return old; }
template <class P, class V> inline P atomicMin(P* p, V v) { const P old = *p; if ((P)v < old) *p = (P)v; return old; }
template <class P, class V> inline P atomicExch(P* p, V v) { const P old = *p; *p = (P)v; return old; }
template <class P> inline P atomicCAS(P* p, P is, P then) { const P old = *p; if (old == is) *p = then; return old; }

extern "C" {
extern unsigned char __start_shared_memory[] __attribute__((weak, visibility("hidden")));
extern unsigned char __stop_shared_memory[] __attribute__((weak, visibility("hidden")));
char emulation_failure[256];
}

namespace emulation {

enum State { READY, AT_BARRIER, AT_WARP, ENDED };
enum Kind { XOR, DOWN, UP, FROM, BALLOT, SYNC };
constexpr size_t STACK = 1 << 16;

struct Fibre {
  void* at;
  char* stack;
  Three place;
  State state;
  int line;
  // what a lane asks of its warp
  Kind kind;
  unsigned mask;
  uint64_t value;
  unsigned other;
  int width;
};

static std::vector<Fibre> fibres;
static Fibre* current;
static void* scheduler;
static unsigned threads, random_state;
static bool failed;
static void (*body)(void*);
static void* body_of;
static char* dynamic;

__attribute__((noinline)) static void fail(const char* what) {
  if (!failed)
    std::snprintf(emulation_failure, sizeof emulation_failure, "%s (block %u %u %u, thread %u %u %u)", what, blockIdx.x,
                  blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
  failed = true;
}

static unsigned draw() {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 17;
  return random_state ^= random_state << 5;
}

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
// Saves the registers that a function must keep, and goes on with another stack.
extern "C" void emulation_switch(void** from, void* to) __attribute__((visibility("hidden")));
asm(".text\n.globl emulation_switch\n.hidden emulation_switch\n.type emulation_switch, @function\nemulation_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
static void begin(Fibre& f, void (*entry)()) {
  void** top = (void**)(f.stack + STACK - 64);
  *--top = nullptr;  // where a function finds its caller's address: the stack is aligned as after a call
  *--top = (void*)entry;
  for (int k = 0; k < 6; ++k) *--top = nullptr;
  f.at = top;
}
#else
}  // namespace emulation
#include <ucontext.h>
namespace emulation {
static std::vector<ucontext_t*> contexts;
static void emulation_switch(void** from, void* to) {
  ucontext_t here;
  *from = &here;
  swapcontext(&here, (ucontext_t*)to);
}
static void begin(Fibre& f, void (*entry)()) {
  const size_t k = &f - fibres.data();
  while (contexts.size() <= k) contexts.push_back(new ucontext_t);
  getcontext(contexts[k]);
  contexts[k]->uc_stack.ss_sp = f.stack;
  contexts[k]->uc_stack.ss_size = STACK;
  contexts[k]->uc_link = nullptr;
  makecontext(contexts[k], entry, 0);
  f.at = contexts[k];
}
#endif

__attribute__((noinline)) static void wait(State state, int line) {
  Fibre* me = current;
  me->state = state;
  me->line = line;
  emulation_switch(&me->at, scheduler);
}

static void entry() {
  body(body_of);
  current->state = ENDED;
  emulation_switch(&current->at, scheduler);
}

__attribute__((noinline)) static void barrier(int line) { wait(AT_BARRIER, line); }

static uint64_t answer(const Fibre* warp, unsigned lanes, unsigned lane) {
  const Fibre& me = warp[lane];
  if (me.kind == SYNC) return 0;
  if (me.kind == BALLOT) {
    uint64_t bits = 0;
    for (unsigned k = 0; k < lanes; ++k)
      if (me.mask >> k & 1 && warp[k].value) bits |= 1u << k;
    return bits;
  }
  const int width = me.width, first = (int)lane & ~(width - 1), n = (int)me.other;
  int from = me.kind == XOR ? (int)lane ^ n : me.kind == DOWN ? (int)lane + n : me.kind == UP ? (int)lane - n : first + (n & (width - 1));
  if (me.kind == UP ? from < first : from >= first + width) from = (int)lane;
  if ((unsigned)from >= lanes || !(me.mask >> from & 1)) return ~(uint64_t)0;  // undefined: nan
  return warp[from].value;
}

// What all lanes of a mask do together: the last to come answers for all.
__attribute__((noinline)) static uint64_t together(Kind kind, unsigned mask, uint64_t value, unsigned other, int width, int line) {
  const unsigned number = (unsigned)(current - fibres.data()), lane = number % 32;
  Fibre* warp = &fibres[number - lane];
  const unsigned lanes = std::min(32u, threads - (number - lane));
  Fibre* me = current;
  me->kind = kind, me->mask = mask, me->value = value, me->other = other, me->width = width, me->line = line;
  if (!(mask >> lane & 1)) fail("a lane is not in the mask of its own shuffle");
  if (lanes < 32 && mask >> lanes) fail("a mask names lanes that the block has not");
  me->state = AT_WARP;
  bool all = true;
  for (unsigned k = 0; k < lanes && !failed; ++k) {
    if (!(mask >> k & 1)) continue;
    if (warp[k].state == ENDED) fail("a mask names a lane that has ended");
    if (warp[k].state != AT_WARP) { all = false; continue; }
    if (warp[k].kind != kind || warp[k].mask != mask || warp[k].line != line) fail("lanes of a mask meet at different shuffles");
  }
  if (all && !failed) {
    uint64_t found[32];
    for (unsigned k = 0; k < lanes; ++k)
      if (mask >> k & 1) found[k] = answer(warp, lanes, k);
    for (unsigned k = 0; k < lanes; ++k)
      if (mask >> k & 1) warp[k].value = found[k], warp[k].state = READY;
  } else {
    emulation_switch(&me->at, scheduler);
  }
  return me->value;
}

template <class V> inline V shuffled(Kind kind, int line, unsigned mask, V value, unsigned other, int width = 32) {
  static_assert(sizeof(V) <= 8, "shuffles move 8 bytes at most");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(V));
  bits = together(kind, mask, bits, other, width, line);
  std::memcpy(&value, &bits, sizeof(V));
  return value;
}

__attribute__((no_sanitize("address", "undefined"))) static void poison() {
  for (volatile unsigned char* p = __start_shared_memory; p < __stop_shared_memory; ++p) *p = 0xff;
}

// Lets a thread go on to where it waits next; false where it cannot.
static bool go_on(unsigned k) {
  if (fibres[k].state != READY || failed) return false;
  current = &fibres[k];
  threadIdx = current->place;
  emulation_switch(&scheduler, current->at);
  return true;
}

// Lets a warp go on alone as far as it comes, its lanes in an order at random: it may be far ahead of the others where no barrier holds it.
static bool run_ahead(unsigned first) {
  const unsigned lanes = std::min(32u, threads - first);
  bool moved = false;
  for (bool more = true; more;) {
    more = false;
    const unsigned start = draw(), step = lanes == 32 ? draw() | 1 : 1;
    for (unsigned k = 0; k < lanes; ++k) more |= go_on(first + (start % lanes + k * step) % lanes);
    moved |= more;
  }
  return moved;
}

static void run_block(unsigned seed, size_t bytes) {
  poison();
  if (bytes) std::memset(dynamic, 0xff, bytes);
  static std::vector<unsigned> warps;
  warps.resize((threads + 31) / 32);
  for (unsigned k = 0; k < warps.size(); ++k) warps[k] = k;
  for (unsigned k = 0; k < threads; ++k) {
    Fibre& f = fibres[k];
    f.state = READY;
    f.place = {k % blockDim.x, k / blockDim.x % blockDim.y, k / (blockDim.x * blockDim.y)};
    begin(f, entry);
  }
  while (true) {
    bool moved = false;
    if (seed > 1) {
      for (unsigned k = warps.size() - 1; k > 0; --k) std::swap(warps[k], warps[draw() % (k + 1)]);
      for (unsigned warp : warps) moved |= run_ahead(32 * warp);
    } else {
      for (unsigned k = 0; k < threads; ++k) moved |= go_on(seed == 1 ? threads - 1 - k : k);
    }
    if (failed) return;
    if (moved) continue;
    const Fibre* waits = nullptr;
    bool ended = false;
    for (unsigned k = 0; k < threads; ++k) {
      const Fibre& f = fibres[k];
      threadIdx = f.place;
      if (f.state == AT_WARP) return fail("a lane waits for others that do not come");
      if (f.state == ENDED) { ended = true; continue; }
      if (waits && waits->line != f.line) return fail("threads wait at different barriers");
      waits = &f;
    }
    if (!waits) return;
    threadIdx = waits->place;
    if (ended) return fail("a barrier that not all threads reach");
    for (unsigned k = 0; k < threads; ++k) fibres[k].state = READY;
  }
}

// Runs a kernel over the blocks of a grid: shape is {grid x y z, block x y z, bytes of dynamic shared memory}; 0 if all went well.
template <class Kernel> int launch(const unsigned* shape, unsigned seed, bool plain, Kernel kernel) {
  failed = false;
  random_state = seed * 2654435761u + 12345u;
  gridDim = {shape[0], shape[1], shape[2]};
  blockDim = {shape[3], shape[4], shape[5]};
  threads = shape[3] * shape[4] * shape[5];
  threadIdx = blockIdx = {0, 0, 0};
  if (threads > 1024 || !threads) fail("a block has 1 to 1024 threads");
  if (shape[1] > 65535 || shape[2] > 65535) fail("a grid has at most 65535 blocks along y and z");
  const unsigned count = shape[0] * shape[1] * shape[2];
  while (!plain && fibres.size() < threads) {
    fibres.push_back(Fibre());
    fibres.back().stack = (char*)std::malloc(STACK);
  }
  body = [](void* k) { (*(Kernel*)k)(); };
  body_of = &kernel;
  dynamic = shape[6] ? (char*)std::malloc(shape[6]) : nullptr;
  std::vector<unsigned> blocks(count);
  for (unsigned k = 0; k < count; ++k) blocks[k] = seed == 1 ? count - 1 - k : k;
  if (seed > 1)
    for (unsigned k = count; k > 1; --k) std::swap(blocks[k - 1], blocks[draw() % k]);
  for (unsigned b : blocks) {
    if (failed) break;
    blockIdx = {b % shape[0], b / shape[0] % shape[1], b / (shape[0] * shape[1])};
    if (!plain) {
      run_block(seed, shape[6]);
      continue;
    }
    for (unsigned z = 0; z < shape[5]; ++z)
      for (unsigned y = 0; y < shape[4]; ++y)
        for (unsigned x = 0; x < shape[3]; ++x) {
          threadIdx = {x, y, z};
          kernel();
        }
  }
  std::free(dynamic);
  return failed;
}

}  // namespace emulation

#define __syncthreads() emulation::barrier(__LINE__)
#define __syncwarp(...) emulation::together(emulation::SYNC, 0xffffffffu, 0, 0, 32, __LINE__)
#define __shfl_xor_sync(...) emulation::shuffled(emulation::XOR, __LINE__, __VA_ARGS__)
#define __shfl_down_sync(...) emulation::shuffled(emulation::DOWN, __LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) emulation::shuffled(emulation::UP, __LINE__, __VA_ARGS__)
#define __shfl_sync(...) emulation::shuffled(emulation::FROM, __LINE__, __VA_ARGS__)
#define __ballot_sync(mask, truth) \
  ((unsigned)emulation::together(emulation::BALLOT, mask, (truth) ? 1 : 0, 0, 32, __LINE__))
#define __any_sync(mask, truth) (__ballot_sync(mask, truth) != 0)
#define __all_sync(mask, truth) (__ballot_sync(mask, truth) == (mask))

// mma.m16n8k16 of a warp: each lane shows what it holds, and finds the numbers of its rows and columns where PTX's tables say they are.
#define EMULATED
inline float emulated_load(__half x) { return __half2float(x); }
inline float emulated_load(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class S> inline float emulated_half(unsigned pair, int which) {
  const uint16_t bits = (uint16_t)(pair >> 16 * which);
  S x;
  std::memcpy(&x, &bits, 2);
  return emulated_load(x);
}
static float emulated_fragments[32][32][12];  // of each warp and lane: eight numbers of a, four of b
template <class S> inline void emulated_mma(float* d, const unsigned* a, const unsigned* b) {
  const unsigned number = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x, lane = number % 32;
  float(*shown)[12] = emulated_fragments[number / 32];
  for (int k = 0; k < 12; ++k) shown[lane][k] = emulated_half<S>(k < 8 ? a[k / 2] : b[k / 2 - 4], k % 2);
  __syncwarp();
  for (unsigned k = 0; k < 16; ++k)
    for (int i = 0; i < 4; ++i) {
      const unsigned column = lane % 4 * 2 + i % 2, from = k % 8 / 2;
      d[i] += shown[lane / 4 * 4 + from][(k / 8 * 2 + i / 2) * 2 + k % 2] * shown[column * 4 + from][8 + k / 8 * 2 + k % 2];
    }
  __syncwarp();
}
