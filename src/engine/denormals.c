/* The processor's control word; see denormals.h. */
#include "engine/denormals.h"

#if defined(__SSE__)
#include <xmmintrin.h>
enum { FLUSH = 0x8040 }; /* results and operands */
static uint64_t get(void) { return _mm_getcsr(); }
static void set(uint64_t word) { _mm_setcsr((unsigned)word); }
#elif defined(__aarch64__)
enum { FLUSH = 1 << 24 };
static uint64_t get(void) {
  uint64_t word;
  __asm__ volatile("mrs %0, fpcr" : "=r"(word));
  return word;
}
static void set(uint64_t word) { __asm__ volatile("msr fpcr, %0" : : "r"(word)); }
#else
enum { FLUSH = 0 };
static uint64_t get(void) { return 0; }
static void set(uint64_t word) { (void)word; }
#endif

uint64_t od_denormals_flush(void) {
  const uint64_t before = get();
  set(before | FLUSH);
  return before;
}

void od_denormals_keep(uint64_t before) { set(before); }

/* Workers stay with the thread that they work for, and new ones begin with its control word: they are told once. */
static _Thread_local int told = 1;

void od_denormals_tell_workers(int threads) {
  if (told >= threads) return;
#pragma omp parallel num_threads(threads)
  set(get() | FLUSH);
  told = threads;
}
