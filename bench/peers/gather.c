/* The least work that sampling can do: copy given rows, with prefetch, in one or several threads.
   Compiled by limits.py with: cc -O3 -march=native -fopenmp -shared -fPIC */
#include <stdint.h>
#include <string.h>

enum { AHEAD = 8 };

static void gather_part(char *out, const char *rows, const int64_t *index, int64_t from, int64_t to, int64_t bytes)
{
    for (int64_t i = from; i < to; i++) {
        if (i + AHEAD < to) {
            const char *next = rows + index[i + AHEAD] * bytes;
            for (int64_t line = 0; line < bytes && line < 1024; line += 64)
                __builtin_prefetch(next + line);
        }
        memcpy(out + i * bytes, rows + index[i] * bytes, (size_t)bytes);
    }
}

void gather(char *out, const char *rows, const int64_t *index, int64_t count, int64_t bytes, int threads)
{
    if (threads == 1) {
        gather_part(out, rows, index, 0, count, bytes);
        return;
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int part = 0; part < threads; part++)
        gather_part(out, rows, index, count * part / threads, count * (part + 1) / threads, bytes);
}
