/* Rows that are made white: the direct way of whiten.py, for one sample, whose rows are planes of numbers.

   With S = sum_i x_i x_i^* = L L^*, the rows sqrt(n) L^-1 x are white. S has the square of the condition number of the
   rows, so this serves rows whose pivots are alike; all others are left to whiten.py. */

#ifndef MINFRAME_WHITE_H
#define MINFRAME_WHITE_H

#include "_lanes.h"

/* Planes of `rows` rows, a multiple of LANES, zero behind the last and in padding. */
typedef struct {
    double *at;
    int64_t stride, rows;
} Planes;

/* The lower half of S. */
INLINE void add_scatter(Planes x, int d, int parts, double *s)
{
    for (int a = 0; a < d; a++)
        for (int c = 0; c <= a; c++) {
            const double *left = x.at + a * parts * x.stride, *right = x.at + c * parts * x.stride;
            lanes re = {0}, im = {0};
            for (int64_t i = 0; i < x.rows; i += LANES)
                if (parts == 1)
                    re += AT(left + i) * AT(right + i);
                else {
                    lanes p = AT(left + i), q = AT(left + x.stride + i);
                    lanes u = AT(right + i), v = AT(right + x.stride + i);
                    re += p * u + q * v;
                    im += q * u - p * v;
                }
            double *sum = s + (a * d + c) * parts;
            for (int part = 0; part < parts; part++)
                sum[part] = 0;
            for (int j = 0; j < LANES; j++) {
                sum[0] += re[j];
                if (parts == 2)
                    sum[1] += im[j];
            }
        }
}

/* Replace S by L; 0 if it has none, or if a pivot is at most `least` times another. */
static int factor(double *s, int64_t d, int64_t parts, double least)
{
    double smallest = INFINITY, largest = 0;
    for (int64_t a = 0; a < d; a++)
        for (int64_t c = 0; c <= a; c++) {
            double *to = s + (a * d + c) * parts, re = to[0], im = parts == 2 ? to[1] : 0;
            for (int64_t k = 0; k < c; k++) { /* l_ak conj(l_ck) */
                const double *p = s + (a * d + k) * parts, *q = s + (c * d + k) * parts;
                re -= parts == 2 ? p[0] * q[0] + p[1] * q[1] : p[0] * q[0];
                im -= parts == 2 ? p[1] * q[0] - p[0] * q[1] : 0;
            }
            if (c < a) {
                double pivot = s[(c * d + c) * parts];
                re /= pivot;
                im /= pivot;
            } else {
                if (!(re > 0))
                    return 0;
                re = sqrt(re);
                im = 0;
                smallest = re < smallest ? re : smallest;
                largest = re > largest ? re : largest;
            }
            to[0] = re;
            if (parts == 2)
                to[1] = im;
        }
    for (int64_t a = 0; a < d; a++)
        for (int64_t at = (a * d + a + 1) * parts; at < (a + 1) * d * parts; at++)
            s[at] = 0;
    return smallest > least * largest;
}

/* The inverse of a lower triangle with a real diagonal, column by column. */
static void invert(const double *l, double *back, int64_t d, int64_t parts)
{
    for (int64_t c = 0; c < d; c++)
        for (int64_t a = 0; a < d; a++) {
            double re = a == c, im = 0;
            for (int64_t k = c; k < a; k++) {
                const double *p = l + (a * d + k) * parts, *q = back + (k * d + c) * parts;
                re -= parts == 2 ? p[0] * q[0] - p[1] * q[1] : p[0] * q[0];
                im -= parts == 2 ? p[0] * q[1] + p[1] * q[0] : 0;
            }
            double pivot = l[(a * d + a) * parts], *to = back + (a * d + c) * parts;
            to[0] = re / pivot;
            if (parts == 2)
                to[1] = im / pivot;
        }
}

/* Rows i, ..., i + LANES - 1 times a lower triangle, in place: the last coordinate first. */
INLINE void multiply_rows(double *row, int64_t stride, const double *triangle, int d, int parts)
{
    for (int a = d - 1; a >= 0; a--) {
        lanes re = {0}, im = {0};
        for (int c = 0; c <= a; c++) {
            const double *m = triangle + (a * d + c) * parts, *from = row + c * parts * stride;
            if (parts == 1)
                re += AT(from) * m[0];
            else {
                re += AT(from) * m[0] - AT(from + stride) * m[1];
                im += AT(from) * m[1] + AT(from + stride) * m[0];
            }
        }
        AT(row + a * parts * stride) = re;
        if (parts == 2)
            AT(row + (2 * a + 1) * stride) = im;
    }
}

#endif
