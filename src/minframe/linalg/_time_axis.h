/* The time-like unit eigenvector of S eta, by Newton's steps: `time_axis` of eigen.py, for one real S.

   Steps end when the vector is found, and so do not depend on other samples. */

#ifndef MINFRAME_TIME_AXIS_H
#define MINFRAME_TIME_AXIS_H

#include "_lanes.h"

#define MAX_STEPS 6

/* y = (C + l)^-1 b, and 1 - |y|^2. C, the block of space, is positive definite: its pivots need no order. */
INLINE double slope_at(double l, const double *s, int64_t d, int64_t time, double *c, double *y)
{
    const int64_t k = d - 1, first = time == 0;
    double rest = 1;
    for (int64_t i = 0; i < k; i++) {
        y[i] = s[(first + i) * d + time];
        for (int64_t j = 0; j < k; j++)
            c[i * k + j] = s[(first + i) * d + first + j] + (i == j ? l : 0);
    }
    for (int64_t j = 0; j < k; j++)
        for (int64_t i = j + 1; i < k; i++) {
            double part = c[i * k + j] / c[j * k + j];
            for (int64_t m = j + 1; m < k; m++)
                c[i * k + m] -= part * c[j * k + m];
            y[i] -= part * y[j];
        }
    for (int64_t i = k - 1; i >= 0; i--) {
        for (int64_t j = i + 1; j < k; j++)
            y[i] -= c[i * k + j] * y[j];
        y[i] /= c[i * k + i];
        rest -= y[i] * y[i];
    }
    return rest;
}

/* Write the axis; 0 if a few steps do not find it. `scratch` has room for d^2 numbers. */
INLINE int find_time_axis_(const double *s, int64_t d, int64_t time, double *scratch, double *axis)
{
    const int64_t k = d - 1, first = time == 0;
    double *c = scratch, *y = scratch + k * k, a = s[time * d + time], root = a;
    for (int steps = 0; steps < MAX_STEPS; steps++) {
        double rest = slope_at(root, s, d, time, c, y), f = root - a;
        for (int64_t i = 0; i < k; i++)
            f += s[(first + i) * d + time] * y[i];
        double step = f / rest;
        int found = step * step <= 1e-16 * rest * (root * root);
        root -= step;
        if (found) {
            double scale = 1 / sqrt(slope_at(root, s, d, time, c, y));
            for (int64_t i = 0; i < k; i++)
                axis[first + i] = y[i] * scale;
            axis[time] = scale;
            return 1;
        }
    }
    return 0;
}

/* The compiler unrolls the common dimension. */
static int find_time_axis(const double *s, int64_t d, int64_t time, double *scratch, double *axis)
{
    return d == 4 && !time ? find_time_axis_(s, 4, 0, scratch, axis) : find_time_axis_(s, d, time, scratch, axis);
}

#endif
