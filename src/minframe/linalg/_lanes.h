/* Eight numbers at a time, and one sum of the same roundings on every machine.

   The extension is built without contraction (a * b + c is rounded twice), so that wider registers, chosen when the
   program runs, change no result. */

#ifndef MINFRAME_LANES_H
#define MINFRAME_LANES_H

#include <math.h>
#include <stdint.h>

#define LANES 8

typedef double lanes __attribute__((vector_size(LANES * sizeof(double))));
typedef int64_t flags __attribute__((vector_size(LANES * sizeof(int64_t))));

/* Inlined, so that it is compiled with the registers of its caller. */
#define INLINE static inline __attribute__((always_inline))

/* Compiled several times, for the registers that machines have; where the loader cannot choose, once. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_MACHINE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_MACHINE
#endif

/* The numbers at `pointer`, which is aligned. */
#define AT(pointer) (*(lanes *)(pointer))

/* `yes` where the condition holds, and else `no`. */
#define SELECT(condition, yes, no) ((lanes)(((condition) & (flags)(yes)) | (~(condition) & (flags)(no))))

/* The least multiple of LANES that is at least n, and not zero. */
INLINE int64_t padded(int64_t n)
{
    return n < LANES ? LANES : (n + LANES - 1) / LANES * LANES;
}

#endif
