/* Cutting work among threads: the only place of ours where OpenMP starts work. */
#include "engine/cpu/cpu.h"

int od_cpu_chunks(const od_cpu *cpu, int64_t n, int64_t grain) {
  int64_t most = grain > 0 ? n / grain : n;
  if (most < 1) most = 1;
  return most < cpu->threads ? (int)most : cpu->threads;
}

void od_cpu_for(int chunks, int64_t n, od_cpu_range f, const void *args) {
  if (chunks <= 1) {
    f(args, 0, 0, n);
    return;
  }
#pragma omp parallel for schedule(static) num_threads(chunks)
  for (int t = 0; t < chunks; t++) f(args, t, n * t / chunks, n * (t + 1) / chunks);
}
