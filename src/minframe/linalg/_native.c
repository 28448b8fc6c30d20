/* The loops of qr.py, compiled, for one sample after the other.

   What is done, and why, is said in qr.py; the names are the same. Tensors come as the addresses of contiguous float64
   numbers, unless stated otherwise; 0 stands for None. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <math.h>
#include <stdint.h>

typedef unsigned long long address;

#define POINTER(type, a) ((type *)(uintptr_t)(a))

#define FINITE 1 /* all numbers are finite */
#define FULL 2   /* all axes are determined */

/* The rule by which rows are chosen; see native.py. */
typedef struct {
    double fraction, tolerance, tie, speck, tiny;
} Rule;

/* Rows of float32 or float64 numbers, anywhere in memory: the steps from one sample, row and coordinate to the next. */
typedef struct {
    address numbers;
    int is_double;
    Py_ssize_t sample, row, coordinate;
} Rows;

static double number(const Rows *x, Py_ssize_t b, Py_ssize_t i, Py_ssize_t k)
{
    Py_ssize_t at = b * x->sample + i * x->row + k * x->coordinate;
    return x->is_double ? POINTER(double, x->numbers)[at] : (double)POINTER(float, x->numbers)[at];
}

/* One sample. `column[k]` has coordinate k of the n rows and then of the identity, `length` in all. */
typedef struct {
    double **column;
    Py_ssize_t d, n, length;
    const double *row_floor;
    double floor, constant_floor, limit; /* limit: how much longer than others a chosen row may be, squared; or inf */
    int longest;                         /* take a longest row */
} Sample;

static double largest(const double *r2, Py_ssize_t n)
{
    double peak = 0;
    for (Py_ssize_t i = 0; i < n; i++)
        peak = r2[i] > peak ? r2[i] : peak;
    return peak;
}

static int all_finite(const double *r2, Py_ssize_t n)
{
    double zero = 0;
    for (Py_ssize_t i = 0; i < n; i++)
        zero += 0 * r2[i];
    return zero == 0;
}

static void squared_lengths(const Sample *s, double *r2)
{
    for (Py_ssize_t i = 0; i < s->n; i++)
        r2[i] = s->column[0][i] * s->column[0][i];
    for (Py_ssize_t k = 1; k < s->d; k++)
        for (Py_ssize_t i = 0; i < s->n; i++)
            r2[i] += s->column[k][i] * s->column[k][i];
}

/* Reflect all rows by w, multiply the coordinate that is now canonical by `sign`, and leave in r2 what is left of each
   row behind it. */
static void reflect(const Sample *s, Py_ssize_t axis, const double *w, double scale, double sign, double *r2)
{
    for (Py_ssize_t i = 0; i < s->length; i++) {
        double c = 0, left = 0;
        for (Py_ssize_t k = axis; k < s->d; k++)
            c += s->column[k][i] * w[k];
        c *= scale;
        s->column[axis][i] = sign * (s->column[axis][i] - c * w[axis]);
        for (Py_ssize_t k = axis + 1; k < s->d; k++) {
            double x = s->column[k][i] - c * w[k];
            s->column[k][i] = x;
            left += x * x;
        }
        r2[i] = left;
    }
}

/* The first row above the bar. `several` says whether there are more. */
static Py_ssize_t choose(const double *r2, const double *lengths, Py_ssize_t n, double bar, double limit, int *several)
{
    Py_ssize_t chosen = -1;
    double at_most = INFINITY;
    if (lengths && limit < INFINITY) {
        double shortest = INFINITY;
        for (Py_ssize_t i = 0; i < n; i++)
            if (r2[i] >= bar && lengths[i] < shortest)
                shortest = lengths[i];
        at_most = limit * shortest;
    }
    *several = 0;
    for (Py_ssize_t i = 0; i < n; i++)
        if (r2[i] >= bar && (!lengths || lengths[i] <= at_most)) {
            if (chosen >= 0) {
                *several = 1;
                break;
            }
            chosen = i;
        }
    return chosen < 0 ? 0 : chosen;
}

/* Decompose one sample. FINITE and FULL are returned as far as they hold. `several` may be NULL. Scratch: `r2`, one
   number for each row and for each of the identity, `lengths`, one for each row (NULL if limit is infinite), and `w`,
   one for each axis. */
static int decompose(const Sample *s, const Rule *rule, int special, double *r2, double *lengths, double *w,
                     int64_t *chosen, double *peaks, uint8_t *determined, uint8_t *several)
{
    double equal = 0, uncertain = 0, product = 1;
    squared_lengths(s, r2);
    if (!all_finite(r2, s->n)) {
        for (Py_ssize_t axis = 0; axis < s->d; axis++) {
            chosen[axis] = determined[axis] = 0;
            peaks[axis] = NAN;
            if (several)
                several[axis] = 0;
        }
        return 0;
    }
    for (Py_ssize_t axis = 0; axis < s->d; axis++) {
        int more;
        if (s->row_floor)
            for (Py_ssize_t i = 0; i < s->n; i++)
                r2[i] = r2[i] > s->row_floor[i] + uncertain ? r2[i] : 0;
        double peak = largest(r2, s->n);
        if (axis == 0) {
            equal = fmax(rule->tie * sqrt(peak), 2 * s->floor);
            if (lengths)
                for (Py_ssize_t i = 0; i < s->n; i++)
                    lengths[i] = r2[i];
        }
        /* rows of no length, as padding, never tie */
        double bar = s->longest ? fmax(peak - equal * sqrt(peak), rule->tiny) : peak * rule->fraction;
        Py_ssize_t row = choose(r2, axis ? lengths : NULL, s->n, bar, s->limit, &more);
        if (s->row_floor)
            uncertain += (s->row_floor[row] + uncertain) / fmax(r2[row], rule->tiny);
        chosen[axis] = row;
        peaks[axis] = peak;
        if (several)
            several[axis] = (uint8_t)more;
        if (axis == s->d - 1) {
            double sign = s->column[axis][row] < 0 ? -1 : 1;
            if (special) /* each of the d - 1 reflections has determinant -1 */
                sign = s->d % 2 ? product : -product;
            for (Py_ssize_t i = 0; i < s->length; i++)
                s->column[axis][i] *= sign;
        } else {
            double head = s->column[axis][row], norm = head;
            for (Py_ssize_t k = axis + 1; k < s->d; k++) {
                w[k] = s->column[k][row];
                norm = hypot(norm, w[k]);
            }
            if (fabs(norm) < rule->speck)
                head = norm = 1;
            norm = copysign(norm, head);
            w[axis] = head + norm;
            double sign = norm < 0 ? 1 : -1;
            product *= sign;
            reflect(s, axis, w, 1 / (w[axis] * norm), sign, r2);
        }
    }
    double rounding = peaks[0] * rule->tolerance * rule->tolerance;
    double floor = fmax(s->floor, s->constant_floor);
    double bound = fmax(rounding, floor * floor);
    int full = FULL;
    for (Py_ssize_t axis = 0; axis < s->d; axis++) {
        determined[axis] = peaks[axis] > bound;
        full = determined[axis] ? full : 0;
    }
    return FINITE | full;
}

/* Choose the rows, relative to an origin, and decompose. Rows that the mask (of bytes) has 0 for are zero. What is
   below `floor`, for each sample, is rounding, or, without it, what is below `noise` times the length of the origin. */
static PyObject *pivoted_qr(PyObject *self, PyObject *args)
{
    address a_origin, a_mask, a_floor, a_short, a_row_floor, a_longest;
    address a_pose, a_basis, a_positions, a_peaks, a_determined, a_several;
    Py_ssize_t d, samples, n;
    double noise;
    Rows x;
    Rule rule;
    Sample s;
    int special, flags = FINITE | FULL;
    if (!PyArg_ParseTuple(args, "(Kpnnn)nnnKKKddKKK(ddddd)pKKKKKK", &x.numbers, &x.is_double, &x.sample, &x.row,
                          &x.coordinate, &samples, &n, &d, &a_origin, &a_mask, &a_floor, &noise, &s.constant_floor,
                          &a_short, &a_row_floor, &a_longest, &rule.fraction, &rule.tolerance, &rule.tie, &rule.speck, &rule.tiny,
                          &special, &a_pose, &a_basis, &a_positions, &a_peaks, &a_determined, &a_several))
        return NULL;
    s.d = d;
    s.n = n;
    s.length = n + d;
    s.column = PyMem_Malloc(d * sizeof(double *));
    double *values = PyMem_Malloc(((d + 2) * s.length + d) * sizeof(double));
    if (!s.column || !values) {
        PyMem_Free(s.column);
        PyMem_Free(values);
        return PyErr_NoMemory();
    }
    Py_BEGIN_ALLOW_THREADS
    double *r2 = values + d * s.length, *lengths = r2 + s.length, *w = lengths + s.length;
    for (Py_ssize_t k = 0; k < d; k++)
        s.column[k] = values + k * s.length;
    for (Py_ssize_t b = 0; b < samples; b++) {
        const double *origin = a_origin ? POINTER(double, a_origin) + b * d : NULL;
        const uint8_t *mask = a_mask ? POINTER(uint8_t, a_mask) + b * n : NULL;
        double far = 0;
        for (Py_ssize_t k = 0; k < d; k++) {
            for (Py_ssize_t i = 0; i < n; i++)
                s.column[k][i] = mask && !mask[i] ? 0 : number(&x, b, i, k) - (origin ? origin[k] : 0);
            for (Py_ssize_t i = 0; i < d; i++)
                s.column[k][n + i] = i == k;
            far = origin ? hypot(far, origin[k]) : 0;
        }
        s.floor = a_floor ? POINTER(double, a_floor)[b] : noise * far;
        s.longest = a_longest ? POINTER(uint8_t, a_longest)[b] : rule.tie > 0;
        s.limit = a_short ? POINTER(double, a_short)[b] : INFINITY;
        s.row_floor = a_row_floor ? POINTER(double, a_row_floor) + b * n : NULL;
        uint8_t *determined = POINTER(uint8_t, a_determined) + b * d;
        int found = decompose(&s, &rule, special, r2, a_short ? lengths : NULL, w,
                              POINTER(int64_t, a_positions) + b * d, POINTER(double, a_peaks) + b * d, determined,
                              a_several ? POINTER(uint8_t, a_several) + b * d : NULL);
        double poison = found & FINITE ? 0 : NAN; /* added to all results of the sample */
        flags &= found;
        for (Py_ssize_t k = 0; k < d; k++) {
            for (Py_ssize_t i = 0; i < d; i++)
                POINTER(double, a_basis)[(b * d + i) * d + k] = s.column[k][n + i] + poison;
            for (Py_ssize_t i = 0, at = b * n * d + k; i < n; i++, at += d) {
                double canonical = (determined[k] ? s.column[k][i] : 0) + poison;
                if (x.is_double)
                    POINTER(double, a_pose)[at] = canonical;
                else
                    POINTER(float, a_pose)[at] = (float)canonical;
            }
        }
    }
    Py_END_ALLOW_THREADS
    PyMem_Free(s.column);
    PyMem_Free(values);
    return PyLong_FromLong(flags);
}

/* The mean of the rows of each sample. The second pass makes coincident rows come out as their mean. */
static PyObject *mean(PyObject *self, PyObject *args)
{
    address a_mask, a_mean;
    Py_ssize_t samples, n, d;
    Rows x;
    if (!PyArg_ParseTuple(args, "(Kpnnn)nnnKK", &x.numbers, &x.is_double, &x.sample, &x.row, &x.coordinate, &samples,
                          &n, &d, &a_mask, &a_mean))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t b = 0; b < samples; b++)
        for (Py_ssize_t k = 0; k < d; k++) {
            const uint8_t *mask = a_mask ? POINTER(uint8_t, a_mask) + b * n : NULL;
            double mean = 0;
            for (int pass = 0; pass < 2; pass++) {
                double sum = 0;
                Py_ssize_t count = 0;
                for (Py_ssize_t i = 0; i < n; i++)
                    if (!mask || mask[i]) {
                        sum += number(&x, b, i, k) - mean;
                        count++;
                    }
                mean += sum / (double)count;
            }
            POINTER(double, a_mean)[b * d + k] = mean;
        }
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"pivoted_qr", pivoted_qr, METH_VARARGS, "Choose the rows of each sample and decompose."},
    {"mean", mean, METH_VARARGS, "The mean of the rows of each sample."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_native", "The loops of minframe.linalg, compiled.", -1, methods,
};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModule_Create(&module);
}
