/* The poses of soft_poses.py, compiled, for one sample after the other.

   What is done, and why, is said in soft.py and soft_poses.py; the names are the same. Tensors come as the addresses of
   contiguous float64 numbers, unless stated otherwise; 0 stands for None. Complex rows and moments are not served. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef unsigned long long address;

#define POINTER(type, a) ((type *)(uintptr_t)(a))

#define NEGLIGIBLE 1e-20 /* a term of a sum, relative to the largest: leaving all such out is below rounding */

typedef struct {
    double sharpness;
    int special;
    double min_weight, tiny, sign_slope, flatness, cut_width;
    Py_ssize_t max_poses;
} Rule;

/* The results, with room for `capacity` poses; `count` goes on beyond it. */
typedef struct {
    Py_ssize_t capacity, count;
    int64_t *sample, *chosen;
    double *basis, *weight, *length2;
    uint8_t *gone;
} Poses;

/* One sample of n rows. `left[k]` has the rows and then the axes, d numbers each, after k steps. */
typedef struct {
    Py_ssize_t number, d, n, steps, first;
    double noise2, **left, *p, *length2;
    int64_t *chosen;
    uint8_t *gone;
} Sample;

/* A power with a base from 0 to 1. Whole exponents, the usual ones, need no logarithm. */
static double power(double base, double exponent)
{
    if (exponent != floor(exponent) || exponent > 1024)
        return pow(base, exponent);
    double result = 1;
    for (unsigned n = (unsigned)exponent; n; n >>= 1) {
        if (n & 1)
            result *= base;
        base *= base;
    }
    return result;
}

static double ramp(double t, const Rule *rule)
{
    if (!(t > rule->cut_width))
        return 0;
    double inside = fmin(t, 1 - rule->cut_width), rest = 1 - inside;
    return 1 / (1 + exp(-(inside - rest) / (inside * rest) * rule->flatness));
}

/* Squared lengths become shares; the mean squared length with these is returned. */
static double shares(double *r2, Py_ssize_t n, const Rule *rule)
{
    double peak = rule->tiny, sum = 0, mean = 0, exponent = rule->sharpness / 2;
    for (Py_ssize_t i = 0; i < n; i++)
        peak = r2[i] > peak ? r2[i] : peak;
    double bar = peak * pow(NEGLIGIBLE, 1 / exponent);
    for (Py_ssize_t i = 0; i < n; i++) {
        double share = r2[i] < bar ? 0 : power(r2[i] / peak, exponent);
        sum += share;
        mean += share * r2[i];
        r2[i] = share;
    }
    sum = fmax(sum, rule->tiny);
    for (Py_ssize_t i = 0; i < n; i++)
        r2[i] /= sum;
    return mean / sum;
}

/* Shares become weights. */
static void weights(double *p, Py_ssize_t n, const Rule *rule)
{
    double s = 0, sum = 0;
    for (Py_ssize_t i = 0; i < n; i++)
        s += p[i] * p[i];
    s = fmax(s, rule->tiny);
    for (Py_ssize_t i = 0; i < n; i++)
        if (p[i] != 0)
            sum += p[i] *= ramp(2 * p[i] / s - 1, rule);
    sum = fmax(sum, rule->tiny);
    for (Py_ssize_t i = 0; i < n; i++)
        p[i] /= sum;
}

/* SIGN_SLOPE m for the last coordinates of the rows. */
static double sign_weight(const Sample *s, const double *left, const Rule *rule)
{
    double peak = 0, odd = 0, square = 0, b = fmax(rule->sharpness / 4, 5);
    for (Py_ssize_t i = 0; i < s->n; i++)
        peak = fmax(peak, fabs(left[(i + 1) * s->d - 1]));
    if (peak == 0)
        return 0;
    double bar = pow(NEGLIGIBLE, 1 / b);
    for (Py_ssize_t i = 0; i < s->n; i++) {
        double z = left[(i + 1) * s->d - 1], size = fabs(z) / peak;
        if (size < bar)
            continue;
        double term = power(size, b);
        odd += z < 0 ? -term : term;
        square += term * term;
    }
    return rule->sign_slope * odd / sqrt(square);
}

static void emit(const Sample *s, const double *left, double weight, double sign, Poses *found)
{
    Py_ssize_t k = found->count++, d = s->d;
    if (k >= found->capacity)
        return;
    found->sample[k] = s->number;
    found->weight[k] = weight;
    memcpy(found->basis + k * d * d, left + s->n * d, d * d * sizeof(double));
    for (Py_ssize_t i = 0; i < d; i++)
        found->basis[k * d * d + (i + 1) * d - 1] *= sign;
    for (Py_ssize_t i = 0; i < s->steps; i++) /* of one dimension there is none, and nowhere to copy from */
        found->chosen[k * s->steps + i] = s->chosen[i];
    memcpy(found->length2 + k * d, s->length2, d * sizeof(double));
    memcpy(found->gone + k * d, s->gone, d);
}

/* The axis that no row is chosen for: by the determinant, or with either sign. */
static void fix_last(Sample *s, const double *left, double weight, double det, const Rule *rule, Poses *found)
{
    Py_ssize_t d = s->d;
    double *r2 = s->p + s->steps * s->n;
    for (Py_ssize_t i = 0; i < s->n; i++)
        r2[i] = left[(i + 1) * d - 1] * left[(i + 1) * d - 1];
    s->length2[d - 1] = shares(r2, s->n, rule);
    s->gone[d - 1] = s->length2[d - 1] <= s->noise2;
    if (rule->special) {
        emit(s, left, weight, det, found);
        return;
    }
    double m = s->gone[d - 1] ? 1 : sign_weight(s, left, rule);
    for (int sign = 1; sign >= -1; sign -= 2) {
        double w = ramp((1 + sign * m) / 2, rule);
        if (w * weight > rule->min_weight)
            emit(s, left, w * weight, sign, found);
    }
}

/* left[k + 1] is left[k], reflected so that `row` lies on axis k; the determinant of that. */
static double reflect(const Sample *s, Py_ssize_t k, Py_ssize_t row)
{
    Py_ssize_t d = s->d;
    const double *from = s->left[k];
    double *to = s->left[k + 1], *w = s->left[s->steps + 1], norm2 = 0;
    for (Py_ssize_t j = k; j < d; j++) {
        w[j] = s->gone[k] ? j == k : from[row * d + j];
        norm2 += w[j] * w[j];
    }
    double norm = sqrt(norm2), phase = w[k] < 0 ? -1 : 1, half = norm * (fabs(w[k]) + norm);
    w[k] += phase * norm;
    for (Py_ssize_t i = 0; i < s->n + d; i++) {
        const double *x = from + i * d;
        double *y = to + i * d, c = 0;
        for (Py_ssize_t j = 0; j < k; j++)
            y[j] = x[j];
        for (Py_ssize_t j = k; j < d; j++)
            c += x[j] * w[j];
        c /= half;
        for (Py_ssize_t j = k; j < d; j++)
            y[j] = x[j] - c * w[j];
        y[k] *= -phase;
    }
    return phase;
}

/* Grow the tree of poses from step k on, in the order of the rows. */
static void grow(Sample *s, Py_ssize_t k, double weight, double det, const Rule *rule, Poses *found)
{
    Py_ssize_t d = s->d;
    const double *left = s->left[k];
    if (k == s->steps) {
        fix_last(s, left, weight, det, rule, found);
        return;
    }
    double *p = s->p + k * s->n;
    for (Py_ssize_t i = 0; i < s->n; i++) {
        p[i] = 0;
        for (Py_ssize_t j = k; j < d; j++)
            p[i] += left[i * d + j] * left[i * d + j];
    }
    s->length2[k] = shares(p, s->n, rule);
    s->gone[k] = s->length2[k] <= s->noise2;
    if (s->gone[k]) {
        s->chosen[k] = 0;
        grow(s, k + 1, weight, det * reflect(s, k, 0), rule, found);
        return;
    }
    weights(p, s->n, rule);
    for (Py_ssize_t i = 0; i < s->n; i++)
        if (p[i] * weight > rule->min_weight && found->count - s->first <= rule->max_poses) {
            s->chosen[k] = i;
            grow(s, k + 1, weight * p[i], det * reflect(s, k, i), rule, found);
        }
}

/* The number of poses of all samples, or, if sample b has more than max_poses, -1 - b. The rows of sample b are
   order[starts[b]], ..., sizes[b] of them. Where the number exceeds the capacity, results are not complete. */
static PyObject *soft_poses(PyObject *self, PyObject *args)
{
    address a_rows, a_order, a_starts, a_sizes, a_reach;
    address a_sample, a_basis, a_weight, a_chosen, a_gone, a_length2, a_scale, a_noise;
    Py_ssize_t samples, d, largest;
    double rounding, least_noise;
    Rule rule;
    Poses found = {0};
    Sample s;
    if (!PyArg_ParseTuple(args, "KKKKnnnddK(dpdddddn)nKKKKKKKK", &a_rows, &a_order, &a_starts, &a_sizes, &samples, &d,
                          &largest, &rounding, &least_noise, &a_reach, &rule.sharpness, &rule.special,
                          &rule.min_weight, &rule.tiny, &rule.sign_slope, &rule.flatness, &rule.cut_width,
                          &rule.max_poses, &found.capacity, &a_sample, &a_basis, &a_weight, &a_chosen, &a_gone,
                          &a_length2, &a_scale, &a_noise))
        return NULL;
    s.d = d;
    s.steps = d - 1;
    Py_ssize_t level = (largest + d) * d;
    double *values = PyMem_Malloc((level * d + largest * d + 2 * d) * sizeof(double));
    s.left = PyMem_Malloc((d + 1) * sizeof(double *));
    s.chosen = PyMem_Malloc(d * sizeof(int64_t));
    s.gone = PyMem_Malloc(d);
    if (!values || !s.left || !s.chosen || !s.gone) {
        PyMem_Free(values);
        PyMem_Free(s.left);
        PyMem_Free(s.chosen);
        PyMem_Free(s.gone);
        return PyErr_NoMemory();
    }
    Py_ssize_t too_many = -1;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t k = 0; k < d; k++)
        s.left[k] = values + k * level;
    s.p = values + d * level;
    s.left[d] = s.p + largest * d; /* scratch of a reflection */
    s.length2 = s.left[d] + d;
    found.sample = POINTER(int64_t, a_sample);
    found.chosen = POINTER(int64_t, a_chosen);
    found.basis = POINTER(double, a_basis);
    found.weight = POINTER(double, a_weight);
    found.length2 = POINTER(double, a_length2);
    found.gone = POINTER(uint8_t, a_gone);
    for (Py_ssize_t b = 0; b < samples && too_many < 0; b++) {
        const double *rows = POINTER(double, a_rows);
        Py_ssize_t start = POINTER(int64_t, a_starts)[b];
        double scale2 = 0, zero = 0, *left = s.left[0];
        s.number = b;
        s.n = POINTER(int64_t, a_sizes)[b];
        s.first = found.count;
        for (Py_ssize_t i = 0; i < s.n; i++) {
            const double *row = rows + (a_order ? POINTER(int64_t, a_order)[start + i] : start + i) * d;
            double r2 = 0;
            for (Py_ssize_t j = 0; j < d; j++) {
                left[i * d + j] = row[j];
                r2 += row[j] * row[j];
            }
            scale2 = r2 > scale2 ? r2 : scale2;
            zero += 0 * r2;
        }
        double scale = scale2 > 0 ? sqrt(scale2) : 1, reach = a_reach ? POINTER(double, a_reach)[b] : 0;
        double noise = least_noise + rounding * reach / scale;
        POINTER(double, a_scale)[b] = scale + zero;
        POINTER(double, a_noise)[b] = noise;
        if (zero != 0) /* numbers that are not finite, which the caller sees by the scale */
            continue;
        for (Py_ssize_t i = 0; i < s.n * d; i++)
            left[i] /= scale;
        for (Py_ssize_t i = 0; i < d * d; i++)
            left[s.n * d + i] = i / d == i % d;
        s.noise2 = noise * noise;
        grow(&s, 0, 1, 1, &rule, &found);
        if (found.count - s.first > rule.max_poses)
            too_many = b;
    }
    Py_END_ALLOW_THREADS
    PyMem_Free(values);
    PyMem_Free(s.left);
    PyMem_Free(s.chosen);
    PyMem_Free(s.gone);
    return PyLong_FromSsize_t(too_many < 0 ? found.count : -1 - too_many);
}

static PyMethodDef methods[] = {
    {"soft_poses", soft_poses, METH_VARARGS, "The poses of each sample, and their number."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_soft", "The loops of minframe.linalg.soft_poses, compiled.", -1, methods,
};

PyMODINIT_FUNC PyInit__soft(void)
{
    return PyModule_Create(&module);
}
