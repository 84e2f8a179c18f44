// What this machine's memory and arithmetic can do at best, as a ceiling for candidates.
//
//   peaks THREADS MEMORY_BYTES WORKING_SET...     one line for each working set, then one for arithmetic:
//     bandwidth WORKING_SET_BYTES BYTES_PER_SECOND
//     fma FP32_OPERATIONS_PER_SECOND
//
// Bandwidth is bytes read plus bytes written by the loop, per second, best of several repetitions and of seven access
// patterns (McCalpin's STREAM counts the same way): the traffic that a write-allocate adds is not counted, because a
// problem's bytes are not counted with it either. Huge pages keep address translation out of it.
#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

// What one register holds, and how many such fit the registers beside two constants. Vectors wider than a register are
// spilt to memory: on a machine with AVX2, 64 bytes showed 2.5 GFLOP/s where PyTorch's own products ran at 130.
#if defined(__AVX512F__)
typedef float Vec __attribute__((vector_size(64)));
static const int CHAINS = 16;
#elif defined(__AVX__)
typedef float Vec __attribute__((vector_size(32)));
static const int CHAINS = 12;
#elif defined(__x86_64__)
typedef float Vec __attribute__((vector_size(16)));
static const int CHAINS = 12;
#else
typedef float Vec __attribute__((vector_size(16)));
static const int CHAINS = 16;
#endif
typedef std::chrono::steady_clock Clock;

static double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

static inline void stream(Vec* p, Vec v) {
#if defined(__AVX512F__)
  _mm512_stream_ps((float*)p, (__m512)v);
#elif defined(__AVX__)
  _mm256_stream_ps((float*)p, (__m256)v);
#else
  *p = v;
#endif
}

enum Pattern { READ, FILL, FILL_STREAM, COPY, COPY_STREAM, TRIAD, TRIAD_STREAM, PATTERNS };

// How many arrays a working set is divided into.
static long arrays(int pattern) { return pattern <= FILL_STREAM ? 1 : pattern <= COPY_STREAM ? 2 : 3; }

static float pass(int pattern, Vec* a, const Vec* b, const Vec* c, long from, long to) {
  const Vec one = Vec{} + 1.0f;
  Vec s0{}, s1{}, s2{}, s3{};
  switch (pattern) {
    case READ: {
      long i = from;
      for (; i + 4 <= to; i += 4) s0 += a[i], s1 += a[i + 1], s2 += a[i + 2], s3 += a[i + 3];
      for (; i < to; i++) s0 += a[i];
      break;
    }
    case FILL: for (long i = from; i < to; i++) a[i] = one; break;
    case FILL_STREAM: for (long i = from; i < to; i++) stream(a + i, one); break;
    case COPY: for (long i = from; i < to; i++) a[i] = b[i]; break;
    case COPY_STREAM: for (long i = from; i < to; i++) stream(a + i, b[i]); break;
    case TRIAD: for (long i = from; i < to; i++) a[i] = b[i] + 3.0f * c[i]; break;
    case TRIAD_STREAM: for (long i = from; i < to; i++) stream(a + i, b[i] + 3.0f * c[i]); break;
  }
  const Vec sum = s0 + s1 + s2 + s3;
  return sum[0];
}

static volatile float sink;

// Best time of one pass over the working set by all threads, seconds.
static double best_pass(int pattern, Vec* arena, long vectors, int threads, double budget) {
  const long length = vectors / arrays(pattern);
  Vec *a = arena, *b = arena + length, *c = arena + 2 * length;
  double best = 1e30;
#pragma omp parallel num_threads(threads)
  {
    const long me = omp_get_thread_num(), from = length * me / threads, to = length * (me + 1) / threads;
    static bool go_on;
    const auto begin = Clock::now();
    for (int round = 0;; round++) {
#pragma omp barrier
      const auto start = Clock::now();
      sink = pass(pattern, a, b, c, from, to);
#pragma omp barrier
#pragma omp master
      {
        if (round > 0) best = std::min(best, since(start));
        go_on = round < 3 || (since(begin) < budget && round < 500);
      }
#pragma omp barrier
      if (!go_on) break;
    }
  }
  return best;
}

static double bandwidth(Vec* arena, long bytes, int threads) {
  double best = 0;
  for (int pattern = 0; pattern < PATTERNS; pattern++) {
    const long length = bytes / long(sizeof(Vec)) / arrays(pattern), moved = length * arrays(pattern) * sizeof(Vec);
    best = std::max(best, moved / best_pass(pattern, arena, bytes / long(sizeof(Vec)), threads, 0.008));
  }
  return best;
}

// Independent chains of multiply-adds hide the latency of two units.
static float multiply_adds(long rounds, float seed) {
  Vec x[CHAINS];
  const Vec a = Vec{} + 0.999f, b = Vec{} + seed;
  for (int k = 0; k < CHAINS; k++) x[k] = Vec{} + float(k);
  for (long r = 0; r < rounds; r++)
#pragma GCC unroll 16
    for (int k = 0; k < CHAINS; k++) x[k] = x[k] * a + b;
  Vec sum{};
  for (int k = 0; k < CHAINS; k++) sum += x[k];
  return sum[0];
}

static double fma_peak(int threads) {
  const long rounds = 500000, lanes = sizeof(Vec) / sizeof(float);
  double best = 0;
  for (int repetition = 0; repetition < 10; repetition++) {
    const auto start = Clock::now();
#pragma omp parallel num_threads(threads)
    sink = multiply_adds(rounds, 0.001f * (1 + omp_get_thread_num()));
    best = std::max(best, 2.0 * CHAINS * lanes * rounds * threads / since(start));
  }
  return best;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const int threads = atoi(argv[1]);
  const long huge = 2L << 20, size = atol(argv[2]);
  char* memory = (char*)mmap(nullptr, size + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 3;
  Vec* arena = (Vec*)(((uintptr_t)memory + huge - 1) & ~(uintptr_t)(huge - 1));
#if defined(MADV_HUGEPAGE)
  madvise(arena, size, MADV_HUGEPAGE);
#endif
  omp_set_dynamic(0);
#pragma omp parallel for num_threads(threads)
  for (long i = 0; i < size / long(sizeof(Vec)); i++) arena[i] = Vec{} + 1.0f;
  for (int i = 3; i < argc; i++) printf("bandwidth %ld %.6g\n", atol(argv[i]), bandwidth(arena, atol(argv[i]), threads));
  printf("fma %.6g\n", fma_peak(threads));
}
