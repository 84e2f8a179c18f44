// Preloaded into the processes that are timed: large aligned blocks that are freed stay here and are handed out again.
//
// PyTorch takes every tensor's memory from posix_memalign. glibc gives large blocks back to the kernel when they are
// freed, and (before 2.38) does not find a freed block again for the next request of the same size and alignment: each
// call would fault all of its memory in anew. See docs/decisions/0008.
//
// Blocks of at least SMALLEST bytes are kept by rounded size, up to LARGEST_KEPT bytes in all.

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <climits>
#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>

extern "C" {
void* __libc_memalign(size_t alignment, size_t size);
void* __libc_malloc(size_t size);
void* __libc_realloc(void* data, size_t size);
void __libc_free(void* data);
}

namespace {

constexpr size_t SMALLEST = size_t(1) << 20;
constexpr size_t HUGE_PAGE = size_t(1) << 21;
constexpr size_t GRAIN = size_t(1) << 16;
constexpr size_t LARGEST_KEPT = size_t(4) << 30;
constexpr int MOST = 4096;
constexpr int LARGEST_IN_HEAP = 32 << 20;  // glibc's limit on 64 bits; it would get there by itself, block by block

struct Block {
  uintptr_t begin;
  size_t size;
  bool used;
  uint64_t freed_at;
};

Block blocks[MOST];
int count = 0;
size_t kept = 0;
uint64_t clock_ = 0;
std::atomic<int> pattern{0};
std::atomic_flag busy = ATOMIC_FLAG_INIT;

struct Guard {
  Guard() { while (busy.test_and_set(std::memory_order_acquire)) {} }
  ~Guard() { busy.clear(std::memory_order_release); }
};

void forget(int at) {
  munmap(reinterpret_cast<void*>(blocks[at].begin), blocks[at].size);
  blocks[at] = blocks[--count];
}

// At the start of a huge page, so that whoever asks for huge pages gets them from the first byte on.
uintptr_t map(size_t size) {
  void* data = mmap(nullptr, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return 0;
  const uintptr_t whole = uintptr_t(data), begin = (whole + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
  if (begin > whole) munmap(data, begin - whole);
  const uintptr_t end = whole + size + HUGE_PAGE;
  if (end > begin + size) munmap(reinterpret_cast<void*>(begin + size), end - begin - size);
  return begin;
}

// By eighths: outputs and scratch whose sizes follow the data find the block of the call before them, whose size was
// a little another. A fresh one would cost the call its page faults.
size_t rounded(size_t wanted) {
  size_t grain = GRAIN;
  while (grain * 16 <= wanted) grain *= 2;
  return (wanted + grain - 1) & ~(grain - 1);
}

void* take(size_t wanted) {
  const size_t size = rounded(wanted);
  Guard guard;
  int best = -1;
  for (int at = 0; at < count; ++at)
    if (!blocks[at].used && blocks[at].size == size && (best < 0 || blocks[at].freed_at > blocks[best].freed_at)) best = at;
  if (best >= 0) {
    blocks[best].used = true;
    kept -= size;
    const int fill = pattern.load();
    if (fill) std::memset(reinterpret_cast<void*>(blocks[best].begin), fill, size);
    return reinterpret_cast<void*>(blocks[best].begin);
  }
  if (count == MOST) return nullptr;
  const uintptr_t begin = map(size);
  if (!begin) return nullptr;
  const int fill = pattern.load();
  if (fill) std::memset(reinterpret_cast<void*>(begin), fill, size);
  blocks[count++] = Block{begin, size, true, 0};
  return reinterpret_cast<void*>(begin);
}

int find(const void* data) {
  for (int at = 0; at < count; ++at)
    if (blocks[at].begin == uintptr_t(data)) return at;
  return -1;
}

bool give(void* data) {
  // Blocks begin at huge pages: hardly any other pointer does, and no list is searched for it.
  if (uintptr_t(data) & (HUGE_PAGE - 1)) return false;
  Guard guard;
  const int at = find(data);
  if (at < 0) return false;
  blocks[at].used = false;
  blocks[at].freed_at = ++clock_;
  kept += blocks[at].size;
  while (kept > LARGEST_KEPT) {
    int oldest = -1;
    for (int i = 0; i < count; ++i)
      if (!blocks[i].used && (oldest < 0 || blocks[i].freed_at < blocks[oldest].freed_at)) oldest = i;
    if (oldest < 0) break;
    kept -= blocks[oldest].size;
    forget(oldest);
  }
  return true;
}

size_t size_of(const void* data) {
  if (uintptr_t(data) & (HUGE_PAGE - 1)) return 0;
  Guard guard;
  const int at = find(data);
  return at < 0 ? 0 : blocks[at].size;
}

// Smaller blocks are glibc's. The outputs of a batch are let go together, at the end of its heap, which would then be
// given back to the kernel: every batch would fault its outputs in anew, 60 us a call for two of 128 KiB.
__attribute__((constructor)) void keep_the_heap() {
  mallopt(M_MMAP_THRESHOLD, LARGEST_IN_HEAP);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

}  // namespace

extern "C" {

// What fresh blocks are filled with; 0: with what lay there. As mallopt's M_PERTURB does for small ones.
void ks_keep_pattern(int fill) { pattern.store(fill & 0xff); }

int posix_memalign(void** out, size_t alignment, size_t size) {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1))) return EINVAL;
  void* data = size >= SMALLEST && alignment <= HUGE_PAGE ? take(size) : nullptr;
  if (!data) data = __libc_memalign(alignment, size);
  if (!data) return ENOMEM;
  *out = data;
  return 0;
}

void free(void* data) {
  if (data && !give(data)) __libc_free(data);
}

void* realloc(void* data, size_t size) {
  const size_t had = data ? size_of(data) : 0;
  if (!had) return __libc_realloc(data, size);
  void* moved = __libc_malloc(size);
  if (!moved) return nullptr;
  std::memcpy(moved, data, had < size ? had : size);
  give(data);
  return moved;
}

size_t malloc_usable_size(void* data) {
  using Ask = size_t (*)(void*);
  static const Ask ask = reinterpret_cast<Ask>(dlsym(RTLD_NEXT, "malloc_usable_size"));
  const size_t had = data ? size_of(data) : 0;
  return had ? had : ask ? ask(data) : 0;
}
}
