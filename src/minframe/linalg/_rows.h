/* Where the rows of samples are in memory, and how they are read and written, LANES rows at a time. */

#ifndef MINFRAME_ROWS_H
#define MINFRAME_ROWS_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include "_lanes.h"

typedef unsigned long long address;

#define POINTER(type, a) ((type *)(uintptr_t)(a))

/* Rows of float32 or float64 numbers, real or complex. A row has d coordinates of `parts` planes each: 1, or 2 for the
   real and the imaginary part.

   Dense, sample b has the rows (b, 0), ..., (b, n - 1), anywhere in memory: `sample`, `row` and `coordinate` are the
   steps from one to the next, in numbers. Padding has zeros in `mask`. With a batch vector (`order` is not NULL) sample
   b has the rows order[starts[b]], ..., sizes[b] of them, and n is the largest size. */
typedef struct {
    address numbers;
    int is_double, parts;
    Py_ssize_t sample, row, coordinate;
    Py_ssize_t samples, n, d;
    address mask_, order_, starts_, sizes_;
    const uint8_t *mask;
    const int64_t *order, *starts, *sizes;
} Rows;

#define ROWS_FORMAT "((Kpinnn)(nnn)(KKKK))"
#define ROWS_FIELDS(x)                                                                                                 \
    &(x).numbers, &(x).is_double, &(x).parts, &(x).sample, &(x).row, &(x).coordinate, &(x).samples, &(x).n, &(x).d,    \
        &(x).mask_, &(x).order_, &(x).starts_, &(x).sizes_

/* The addresses that were parsed, as pointers. */
static void set_pointers(Rows *x)
{
    x->mask = POINTER(const uint8_t, x->mask_);
    x->order = POINTER(const int64_t, x->order_);
    x->starts = POINTER(const int64_t, x->starts_);
    x->sizes = POINTER(const int64_t, x->sizes_);
}

/* Number of rows of sample b. */
INLINE int64_t size_of(const Rows *x, int64_t b)
{
    return x->order ? x->sizes[b] : x->n;
}

/* The number of row i of sample b among the rows of all samples. */
INLINE int64_t place_of(const Rows *x, int64_t b, int64_t i)
{
    return x->order ? x->order[x->starts[b] + i] : b * x->n + i;
}

INLINE int is_real(const Rows *x, int64_t b, int64_t i)
{
    return !x->mask || x->mask[b * x->n + i];
}

/* Plane m of LANES rows of sample b from row i on: less `origin`, zero behind the last row and in padding. */
#define READ(type)                                                                                                     \
    const type *from = POINTER(type, x->numbers) + m / parts * x->coordinate + m % parts;                              \
    if (plain) {                                                                                                       \
        from += b * x->sample + i * x->row;                                                                            \
        for (int j = 0; j < LANES; j++)                                                                                \
            to[j] = (double)from[j * x->row] - origin;                                                                 \
    } else                                                                                                             \
        for (int j = 0; j < LANES; j++) {                                                                              \
            int there = i + j < n && is_real(x, b, i + j);                                                             \
            int64_t at = !there ? 0 : x->order ? place_of(x, b, i + j) * x->row : b * x->sample + (i + j) * x->row;    \
            to[j] = there ? (double)from[at] - origin : 0;                                                             \
        }

INLINE void read_plane(const Rows *x, int64_t b, int64_t i, int64_t n, int m, int parts, double origin, double *to)
{
    int plain = !x->order && !x->mask && i + LANES <= n;
    if (x->is_double) {
        READ(double)
    } else {
        READ(float)
    }
}

/* Write plane m of the same rows, times `keep` plus `poison`, to contiguous rows; padding is zero. */
#define WRITE(type)                                                                                                    \
    type *to = POINTER(type, rows) + m;                                                                                \
    if (plain)                                                                                                         \
        for (int j = 0; j < LANES; j++)                                                                                \
            to[(b * x->n + i + j) * planes] = (type)(keep ? from[j] + poison : poison);                                \
    else                                                                                                               \
        for (int j = 0; j < LANES && i + j < n; j++)                                                                   \
            to[place_of(x, b, i + j) * planes] = (type)(keep ? from[j] + poison : poison);

INLINE void write_plane(const Rows *x, int64_t b, int64_t i, int64_t n, int m, int parts, const double *from, int keep,
                        double poison, address rows)
{
    int plain = !x->order && i + LANES <= n;
    int64_t planes = x->d * parts;
    if (x->is_double) {
        WRITE(double)
    } else {
        WRITE(float)
    }
}

/* ---- Rows that follow each other in memory, and coordinates in them: with constant steps the compiler reads and writes
   whole vectors, in a third of the time. `planes` is that of the rows; where it is no constant, none are read so. */

/* How many rows of a tile, from row i on, up to row `to`, a multiple of LANES, can be read so. */
INLINE int64_t packed_rows(const Rows *x, int64_t i, int64_t to, int64_t n, int planes)
{
    int packed = !x->order && !x->mask && x->row == planes && x->coordinate == x->parts;
    int64_t rows = to < n ? to - i : n - i;
    if (!__builtin_constant_p(planes))
        return 0;
    return packed && rows > 0 ? rows / LANES * LANES : 0;
}

#define READ_PACKED(type)                                                                                              \
    const type *restrict from = POINTER(const type, x->numbers) + b * x->sample + i * planes;                          \
    _Pragma("GCC ivdep") for (int64_t j = 0; j < rows; j++) for (int m = 0; m < planes; m++)                           \
        to[m * stride + j] = (double)from[j * planes + m] - (origin ? origin[m] : 0);

/* Rows less `origin`, which may be NULL, as planes that are `stride` apart. */
INLINE void read_packed(const Rows *x, int64_t b, int64_t i, int64_t rows, int planes, const double *origin, double *to,
                        int64_t stride)
{
    if (x->is_double) {
        READ_PACKED(double)
    } else {
        READ_PACKED(float)
    }
}

#define WRITE_PACKED(type)                                                                                             \
    type *restrict to = POINTER(type, result) + (b * x->n + i) * planes;                                               \
    _Pragma("GCC ivdep") for (int64_t j = 0; j < rows; j++) for (int m = 0; m < planes; m++)                           \
        to[j * planes + m] = (type)from[m * stride + j];

INLINE void write_packed(const Rows *x, int64_t b, int64_t i, int64_t rows, int planes, const double *from,
                         int64_t stride, address result)
{
    if (x->is_double) {
        WRITE_PACKED(double)
    } else {
        WRITE_PACKED(float)
    }
}

#endif
