/* Rows of features, as labelling needs them: classes of equal ones, moves by a permutation, and means over orbits.

   Classes are those of cluster.py and colours.py; the numbers are the same, bit by bit. Tensors come as the addresses of
   contiguous numbers, int64 unless stated otherwise; 0 stands for None. Nothing here calls Python. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "../linalg/_lanes.h"

typedef unsigned long long address;
typedef Py_ssize_t size;

#define POINTER(type, a) ((type *)(uintptr_t)(a))
#define MAX_INTEGER_COLOUR (1 << 20) /* as in colours.py */

/* How the numbers of a feature are stored. WIDE: int64, compared by its upper half and then by its lower one. */
enum { FLOAT, DOUBLE, WIDE, LONG, INT, SHORT, BYTE, UNSIGNED, KINDS };

/* A feature: `channels` numbers a row. `gap`: numbers that differ by less, relative to the largest, are equal. */
typedef struct {
    const char *data;
    int kind;
    size channels;
    double gap;
} Feature;

/* Rows of one sample as keys that compare like their numbers: `width` of them, row by row. */
typedef struct {
    size width;
    int64_t *key;
    size *item, *spare;
} Rows;

/* Floating-point numbers as integers in the same order; both zeros are 0. Its own inverse on the bits. */
static int64_t ordered(double x)
{
    int64_t bits;
    x += 0.0;
    memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? bits ^ INT64_MAX : bits;
}

static double number(int64_t key)
{
    double x;
    key = key < 0 ? key ^ INT64_MAX : key;
    memcpy(&x, &key, sizeof x);
    return x;
}

static int64_t whole(const Feature *f, size at)
{
    switch (f->kind) {
    case INT:
        return ((const int32_t *)f->data)[at];
    case SHORT:
        return ((const int16_t *)f->data)[at];
    case BYTE:
        return ((const int8_t *)f->data)[at];
    case UNSIGNED:
        return ((const uint8_t *)f->data)[at];
    default:
        return ((const int64_t *)f->data)[at];
    }
}

static size width_of(const Feature *f) { return f->channels * (f->kind == WIDE ? 2 : 1); }

/* The keys of row `row` of a feature; returns 0 if a number is infinite or NaN. */
static int read_row(const Feature *f, size row, int64_t *key)
{
    size c = f->channels, first = row * c;
    int finite = 1;
    if (f->kind == FLOAT)
        for (size k = 0; k < c; k++) {
            float x = ((const float *)f->data)[first + k];
            finite &= x - x == 0;
            key[k] = ordered(x);
        }
    else if (f->kind == DOUBLE)
        for (size k = 0; k < c; k++) {
            double x = ((const double *)f->data)[first + k];
            finite &= x - x == 0;
            key[k] = ordered(x);
        }
    else if (f->kind == WIDE)
        for (size k = 0; k < c; k++) {
            int64_t x = ((const int64_t *)f->data)[first + k];
            key[k] = x >> 32;
            key[c + k] = x & 0xFFFFFFFF;
        }
    else
        for (size k = 0; k < c; k++)
            key[k] = whole(f, first + k);
    return finite;
}

/* Compares rows a and b by the channels from `first` to before `end`. */
static int compare(const Rows *r, size a, size b, size first, size end)
{
    const int64_t *x = r->key + a * r->width, *y = r->key + b * r->width;
    for (size k = first; k < end; k++)
        if (x[k] != y[k])
            return x[k] < y[k] ? -1 : 1;
    return 0;
}

/* Rows in stable order, by merging. */
static void sort_rows(const Rows *r, size *item, size *spare, size m, size first, size end)
{
    if (m < 12) {
        for (size i = 1; i < m; i++) {
            size one = item[i], j = i;
            for (; j && compare(r, item[j - 1], one, first, end) > 0; j--)
                item[j] = item[j - 1];
            item[j] = one;
        }
        return;
    }
    size half = m / 2, i = 0, j = half, k = 0;
    sort_rows(r, item, spare, half, first, end);
    sort_rows(r, item + half, spare, m - half, first, end);
    memcpy(spare, item, half * sizeof(size));
    while (i < half && j < m)
        item[k++] = compare(r, spare[i], item[j], first, end) <= 0 ? spare[i++] : item[j++];
    while (i < half)
        item[k++] = spare[i++];
}

/* Replace channel c of m rows, floating-point numbers, by classes of numbers without a gap between them. */
static void cluster(Rows *r, size m, size c, const Feature *f)
{
    double largest = 0;
    for (size i = 0; i < m; i++) {
        double x = fabs(number(r->key[i * r->width + c]));
        largest = x > largest ? x : largest;
        r->item[i] = i;
    }
    sort_rows(r, r->item, r->spare, m, c, c + 1);
    int64_t class = 0;
    double before = 0;
    for (size i = 0; i < m; i++) { /* in the precision of the numbers, as in PyTorch */
        int64_t *key = &r->key[r->item[i] * r->width + c];
        double x = number(*key);
        if (i)
            class += f->kind == FLOAT ? (float)x - (float)before > (float)largest * (float)f->gap
                                      : x - before > largest * f->gap;
        before = x;
        *key = class;
    }
}

/* Numbers of the classes of m rows, in lexicographic order, as keys of the first channel. */
static void rank_rows(Rows *r, size m, const Feature *features, size count)
{
    size c = 0;
    for (size k = 0; k < count; c += width_of(&features[k++]))
        if (features[k].gap > 0)
            for (size j = 0; j < features[k].channels; j++)
                cluster(r, m, c + j, &features[k]);
    for (size i = 0; i < m; i++)
        r->item[i] = i;
    sort_rows(r, r->item, r->spare, m, 0, r->width);
    int64_t rank = 0;
    for (size i = 0; i < m; i++) {
        rank += i && compare(r, r->item[i - 1], r->item[i], 0, r->width);
        if (i)
            r->spare[i - 1] = (size)rank; /* written behind: the rows are still compared */
    }
    for (size i = m; i-- > 0;)
        r->key[r->item[i] * r->width] = i ? (int64_t)r->spare[i - 1] : 0;
}

static int reserve(Rows *r, size m, const Feature *features, size count)
{
    r->width = 1;
    size width = 0;
    for (size k = 0; k < count; k++)
        width += width_of(&features[k]);
    r->width = width ? width : 1;
    r->key = PyMem_Malloc((m + 1) * (r->width * sizeof(int64_t) + 2 * sizeof(size)));
    if (!r->key)
        return 0;
    memset(r->key, 0, (m + 1) * r->width * sizeof(int64_t));
    r->item = (size *)(r->key + (m + 1) * r->width);
    r->spare = r->item + m + 1;
    return 1;
}

/* The features of a tuple of (address, kind, channels, gap), as new memory; NULL with an error set. */
static Feature *features_of(PyObject *given, size *count)
{
    *count = PyTuple_Size(given);
    if (*count < 0)
        return NULL;
    Feature *features = PyMem_Malloc((*count + 1) * sizeof(Feature));
    if (!features) {
        PyErr_NoMemory();
        return NULL;
    }
    for (size k = 0; k < *count; k++) {
        address data;
        Feature *f = &features[k];
        if (!PyArg_ParseTuple(PyTuple_GetItem(given, k), "Kind", &data, &f->kind, &f->channels, &f->gap)) {
            PyMem_Free(features);
            return NULL;
        }
        f->data = POINTER(const char, data);
        if (f->kind < 0 || f->kind >= KINDS || (f->kind > DOUBLE && f->gap > 0)) {
            PyErr_SetString(PyExc_ValueError, "a feature of this kind is not known here");
            PyMem_Free(features);
            return NULL;
        }
    }
    return features;
}

static int read_all(const Feature *features, size count, size row, int64_t *key)
{
    int finite = 1;
    for (size k = 0; k < count; key += width_of(&features[k++]))
        finite &= read_row(&features[k], row, key);
    return finite;
}

/* Classes (B, n) of rows with a mask (B, n) of bytes or 0; -1 for padding. Returns whether all numbers are finite. */
static PyObject *classes_dense(PyObject *self, PyObject *args)
{
    size samples, n, count;
    address a_mask, a_result;
    PyObject *given;
    if (!PyArg_ParseTuple(args, "nnKOK", &samples, &n, &a_mask, &given, &a_result))
        return NULL;
    Feature *features = features_of(given, &count);
    if (!features)
        return NULL;
    Rows rows;
    if (!reserve(&rows, n, features, count)) {
        PyMem_Free(features);
        return PyErr_NoMemory();
    }
    int finite = 1;
    for (size b = 0; b < samples; b++) {
        const uint8_t *mask = a_mask ? POINTER(uint8_t, a_mask) + b * n : NULL;
        int64_t *result = POINTER(int64_t, a_result) + b * n;
        size m = 0;
        for (size i = 0; i < n; i++)
            if (!mask || mask[i])
                finite &= read_all(features, count, b * n + i, rows.key + rows.width * m++);
        if (!finite)
            break;
        rank_rows(&rows, m, features, count);
        m = 0;
        for (size i = 0; i < n; i++)
            result[i] = mask && !mask[i] ? -1 : rows.key[rows.width * m++];
    }
    PyMem_Free(rows.key);
    PyMem_Free(features);
    return PyBool_FromLong(finite);
}

/* Classes (m,) of rows, counted within the sample (m,) of each, or 0: all are of one. `samples`: how many there are. */
static PyObject *classes_listed(PyObject *self, PyObject *args)
{
    size samples, m, count, largest = 0;
    address a_owner, a_result;
    PyObject *given;
    if (!PyArg_ParseTuple(args, "nnKOK", &samples, &m, &a_owner, &given, &a_result))
        return NULL;
    Feature *features = features_of(given, &count);
    if (!features)
        return NULL;
    const int64_t *owner = POINTER(int64_t, a_owner);
    int64_t *result = POINTER(int64_t, a_result);
    size *first = PyMem_Malloc((samples + m + 2) * sizeof(size)), *sorted = first + samples + 2;
    if (!first) {
        PyMem_Free(features);
        return PyErr_NoMemory();
    }
    memset(first, 0, (samples + 2) * sizeof(size));
    for (size i = 0; i < m; i++)
        first[(owner ? owner[i] : 0) + 2]++;
    for (size b = 0; b < samples; b++) {
        largest = first[b + 2] > largest ? first[b + 2] : largest;
        first[b + 2] += first[b + 1];
    }
    for (size i = 0; i < m; i++)
        sorted[first[(owner ? owner[i] : 0) + 1]++] = i;
    Rows rows;
    if (!reserve(&rows, largest, features, count)) {
        PyMem_Free(features);
        PyMem_Free(first);
        return PyErr_NoMemory();
    }
    int finite = 1;
    for (size b = 0; b < samples && finite; b++) {
        const size *mine = sorted + first[b];
        size k = first[b + 1] - first[b];
        for (size i = 0; i < k; i++)
            finite &= read_all(features, count, mine[i], rows.key + rows.width * i);
        if (!finite)
            break;
        rank_rows(&rows, k, features, count);
        for (size i = 0; i < k; i++)
            result[mine[i]] = rows.key[rows.width * i];
    }
    PyMem_Free(rows.key);
    PyMem_Free(features);
    PyMem_Free(first);
    return PyBool_FromLong(finite);
}

/* Weights that are colours as they are: one channel of integers, or of floating-point numbers that are small integers.
   Returns 0 if they are not, as NaN and infinity are not. */
static int whole_pairs(const Feature *f, size b, size n, const uint8_t *mask, int64_t *result)
{
    if (f->channels != 1)
        return 0;
    for (size i = 0; i < n; i++)
        for (size j = 0; j < n; j++) {
            size at = (b * n + i) * n + j;
            int64_t colour = 0;
            if (mask && !(mask[i] && mask[j]))
                ;
            else if (f->kind > DOUBLE)
                colour = whole(f, at);
            else {
                double x = f->kind == FLOAT ? ((const float *)f->data)[at] : ((const double *)f->data)[at];
                if (!(fabs(x) <= MAX_INTEGER_COLOUR) || x != (double)(colour = (int64_t)x))
                    return 0;
            }
            result[i * n + j] = colour;
        }
    return 1;
}

/* Colours of the pairs of one sample, see colours.py: those that are not zero, with a row of zeros in front, are ranked.
   Returns whether all numbers are finite. */
static int colour_pairs(Rows *r, const Feature *f, size b, size n, const uint8_t *mask, int64_t *result)
{
    if (whole_pairs(f, b, n, mask, result))
        return 1;
    size m = 1;
    int finite = 1;
    memset(r->key, 0, r->width * sizeof(int64_t));
    for (size i = 0; i < n; i++)
        for (size j = 0; j < n; j++) {
            int64_t *key = r->key + m * r->width, any = 0;
            int real = !mask || (mask[i] && mask[j]);
            if (real) {
                finite &= read_row(f, (b * n + i) * n + j, key);
                for (size k = 0; k < r->width; k++)
                    any |= key[k];
            }
            result[i * n + j] = any ? (int64_t)m++ : 0;
        }
    if (!finite)
        return 0;
    rank_rows(r, m, f, 1);
    for (size k = 0; k < n * n; k++)
        if (result[k])
            result[k] = r->key[(size)result[k] * r->width] - r->key[0];
    return 1;
}

/* Colours (B, n, n) of the pairs of nodes, of one feature (B, n, n, channels); see `classes_dense`. */
static PyObject *colours_of_pairs(PyObject *self, PyObject *args)
{
    size samples, n, count;
    address a_mask, a_result;
    PyObject *given;
    if (!PyArg_ParseTuple(args, "nnKOK", &samples, &n, &a_mask, &given, &a_result))
        return NULL;
    Feature *features = features_of(given, &count);
    if (!features)
        return NULL;
    Rows rows;
    if (!reserve(&rows, n * n + 1, features, 1)) {
        PyMem_Free(features);
        return PyErr_NoMemory();
    }
    int finite = 1;
    for (size b = 0; b < samples && finite; b++) {
        const uint8_t *mask = a_mask ? POINTER(uint8_t, a_mask) + b * n : NULL;
        finite = colour_pairs(&rows, features, b, n, mask, POINTER(int64_t, a_result) + b * n * n);
    }
    PyMem_Free(rows.key);
    PyMem_Free(features);
    return PyBool_FromLong(finite);
}

/* How many samples a batch vector (N,) has, or -1 if numbers are negative, too large, or missing. */
static PyObject *count_samples(PyObject *self, PyObject *args)
{
    size n, count = 0;
    address a_batch;
    if (!PyArg_ParseTuple(args, "nK", &n, &a_batch))
        return NULL;
    const int64_t *batch = POINTER(int64_t, a_batch);
    int ascending = n == 0 || batch[0] == 0;
    for (size i = 0; i < n; i++) {
        if (batch[i] < 0 || batch[i] >= n)
            return PyLong_FromLong(-1);
        ascending &= !i || batch[i] == batch[i - 1] || batch[i] == batch[i - 1] + 1;
        count = batch[i] >= count ? (size)batch[i] + 1 : count;
    }
    if (ascending)
        return PyLong_FromSsize_t(count);
    uint8_t *seen = PyMem_Malloc(count + 1);
    if (!seen)
        return PyErr_NoMemory();
    memset(seen, 0, count + 1);
    for (size i = 0; i < n; i++)
        seen[batch[i]] = 1;
    int all = !memchr(seen, 0, count);
    PyMem_Free(seen);
    return PyLong_FromSsize_t(all ? count : -1);
}

/* Whether all edges (2, E) join nodes from 0 to n - 1 that belong to one sample by the batch vector (n,), or 0. */
static PyObject *joins_nodes(PyObject *self, PyObject *args)
{
    size n, e;
    address a_index, a_batch;
    if (!PyArg_ParseTuple(args, "nnKK", &n, &e, &a_index, &a_batch))
        return NULL;
    const int64_t *source = POINTER(int64_t, a_index), *target = source + e, *batch = POINTER(int64_t, a_batch);
    int fine = 1;
    for (size k = 0; k < e && fine; k++) {
        fine = source[k] >= 0 && source[k] < n && target[k] >= 0 && target[k] < n;
        fine = fine && (!batch || batch[source[k]] == batch[target[k]]);
    }
    return PyBool_FromLong(fine);
}

/* One entry of so many bytes, or zeros. Of FLOAT and DOUBLE, -0.0 becomes 0.0. */
static void copy(char *to, const char *from, size bytes, int kind, int real)
{
    if (!real)
        memset(to, 0, bytes);
    else if (kind == FLOAT)
        for (size k = 0; k < bytes / (size)sizeof(float); k++)
            ((float *)to)[k] = ((const float *)from)[k] + 0.0f;
    else if (kind == DOUBLE)
        for (size k = 0; k < bytes / (size)sizeof(double); k++)
            ((double *)to)[k] = ((const double *)from)[k] + 0.0;
    else
        memcpy(to, from, bytes);
}

/* The rows (B, n, ...) or, if `axes` is 2, pairs (B, n, n, ...) at `index` (B, n); padding, by a mask, becomes 0.

   `bytes` are those of an entry. `kind` FLOAT or DOUBLE: -0.0 becomes 0.0; else any other number. */
static PyObject *take(PyObject *self, PyObject *args)
{
    size samples, n, bytes;
    int axes, kind;
    address a_index, a_mask, a_from, a_to;
    if (!PyArg_ParseTuple(args, "nnniiKKKK", &samples, &n, &bytes, &axes, &kind, &a_index, &a_mask, &a_from, &a_to))
        return NULL;
    char *to = POINTER(char, a_to);
    const char *from = POINTER(const char, a_from);
    for (size b = 0; b < samples; b++) {
        const int64_t *index = POINTER(int64_t, a_index) + b * n;
        const uint8_t *mask = a_mask ? POINTER(uint8_t, a_mask) + b * n : NULL;
        for (size i = 0; i < n; i++) {
            int64_t p = index[i];
            int real = !mask || mask[p];
            if (axes == 1) {
                copy(to, from + (b * n + p) * bytes, bytes, kind, real);
                to += bytes;
                continue;
            }
            const char *row = from + (b * n + p) * n * bytes;
            size last = real ? n : 0; /* all that follows is padding, which is last in canonical orders */
            while (last && mask && !mask[index[last - 1]])
                last--;
            if (bytes == sizeof(float) && kind == FLOAT && !mask)
                for (size j = 0; j < last; j++)
                    ((float *)to)[j] = ((const float *)row)[index[j]] + 0.0f;
            else if (bytes == sizeof(float) && kind == FLOAT)
                for (size j = 0; j < last; j++)
                    ((float *)to)[j] = mask[index[j]] ? ((const float *)row)[index[j]] + 0.0f : 0.0f;
            else
                for (size j = 0; j < last; j++)
                    copy(to + j * bytes, row + index[j] * bytes, bytes, kind, !mask || mask[index[j]]);
            memset(to + last * bytes, 0, (n - last) * bytes);
            to += n * bytes;
        }
    }
    Py_RETURN_NONE;
}

/* The means of rows (m, channels) over equal numbers; `count` says how often each occurs, `total` has room for a sum.
   A row alone in its orbit is its own mean, but for the sign of zero, which sums that begin with 0.0 do not keep. */
#define MEANS(real)                                                                                                    \
    static void means_##real(size m, size channels, const int64_t *numbers, const size *count, double *total,          \
                             const real *from, real *to)                                                               \
    {                                                                                                                  \
        for (size i = 0; i < m; i++)                                                                                   \
            if (count[i] > 1)                                                                                          \
                memset(total + i * channels, 0, channels * sizeof(double));                                            \
        for (size i = 0; i < m; i++) {                                                                                 \
            const real *x = from + i * channels;                                                                       \
            double *sum = total + numbers[i] * channels;                                                               \
            if (count[numbers[i]] > 1)                                                                                 \
                for (size c = 0; c < channels; c++)                                                                    \
                    sum[c] += x[c];                                                                                    \
        }                                                                                                              \
        for (size i = 0; i < m; i++)                                                                                   \
            if (count[i] > 1)                                                                                          \
                for (size c = 0; c < channels; c++)                                                                    \
                    total[i * channels + c] /= (double)count[i];                                                       \
        for (size i = 0; i < m; i++) {                                                                                 \
            const real *x = from + i * channels;                                                                       \
            const double *sum = total + numbers[i] * channels;                                                         \
            real *y = to + i * channels;                                                                               \
            if (count[numbers[i]] > 1)                                                                                 \
                for (size c = 0; c < channels; c++)                                                                    \
                    y[c] = (real)sum[c];                                                                               \
            else                                                                                                       \
                for (size c = 0; c < channels; c++)                                                                    \
                    y[c] = x[c] + (real)0;                                                                             \
        }                                                                                                              \
    }

MEANS(float)
MEANS(double)

/* The mean of y (B, m, channels) over equal numbers (B, m), which are below m; see orbits.py. */
static PyObject *mean(PyObject *self, PyObject *args)
{
    size samples, m, channels;
    int kind;
    address a_numbers, a_from, a_to;
    if (!PyArg_ParseTuple(args, "nnniKKK", &samples, &m, &channels, &kind, &a_numbers, &a_from, &a_to))
        return NULL;
    double *total = PyMem_Malloc((m * channels + 1) * sizeof(double) + (m + 1) * sizeof(size));
    if (!total)
        return PyErr_NoMemory();
    size *count = (size *)(total + m * channels + 1);
    for (size b = 0; b < samples; b++) {
        const int64_t *numbers = POINTER(int64_t, a_numbers) + b * m;
        size first = b * m * channels;
        memset(count, 0, m * sizeof(size));
        for (size i = 0; i < m; i++)
            count[numbers[i]]++;
        if (kind == FLOAT)
            means_float(m, channels, numbers, count, total, POINTER(float, a_from) + first, POINTER(float, a_to) + first);
        else
            means_double(m, channels, numbers, count, total, POINTER(double, a_from) + first,
                         POINTER(double, a_to) + first);
    }
    PyMem_Free(total);
    Py_RETURN_NONE;
}

/* Positions of nodes in the order by cell, then by value: the number of nodes in front, which needs no branches. */
FOR_EACH_MACHINE static void positions_of(const int64_t *cell, const double *value, size n, int64_t *position)
{
    for (size i = 0; i < n; i++) {
        int64_t front = 0;
        for (size j = 0; j < n; j++)
            front += (cell[j] < cell[i]) |
                     ((cell[j] == cell[i]) & ((value[j] < value[i]) | ((value[j] == value[i]) & (j < i))));
        position[i] = front;
    }
}

/* Cut the cells of a sample at gaps of one channel of values that exceed `tolerance`; how many cells there are. `item`:
   scratch for the node at each position. */
static size cut_cells(int64_t *cell, const double *value, size n, double tolerance, size *item, double *margin)
{
    int64_t start = 0;
    double last = 0;
    size count = 0;
    for (size p = 0; p < n; p++) {
        size i = item[p];
        double gap = value[i] - last;
        last = value[i];
        if (p > cell[i])
            *margin = fmin(*margin, fabs(gap - tolerance));
        if (p == cell[i] || gap > tolerance) {
            start = p;
            count++;
        }
        cell[i] = start;
    }
    return count;
}

/* Cut cells (B, n) at all gaps of values (B, n, k), float64, channel by channel, as separate.py does; tolerances (B,) and
   the distance of the nearest decision from flipping, (B,), are float64. */
static PyObject *separate(PyObject *self, PyObject *args)
{
    size samples, n, k;
    address a_values, a_tolerance, a_cells, a_margin;
    if (!PyArg_ParseTuple(args, "nnnKKKK", &samples, &n, &k, &a_values, &a_tolerance, &a_cells, &a_margin))
        return NULL;
    double *value = PyMem_Malloc((n + 1) * (sizeof(double) + sizeof(int64_t) + sizeof(size)));
    if (!value)
        return PyErr_NoMemory();
    int64_t *position = (int64_t *)(value + n + 1);
    size *item = (size *)(position + n + 1);
    for (size b = 0; b < samples; b++) {
        const double *values = POINTER(const double, a_values) + b * n * k;
        int64_t *cells = POINTER(int64_t, a_cells) + b * n;
        double margin = INFINITY;
        size count = 0;
        for (size c = 0; c < k && count < n; c++) {
            for (size i = 0; i < n; i++)
                value[i] = values[i * k + c];
            positions_of(cells, value, n, position);
            for (size i = 0; i < n; i++)
                item[position[i]] = i;
            count = cut_cells(cells, value, n, POINTER(const double, a_tolerance)[b], item, &margin);
        }
        POINTER(double, a_margin)[b] = margin;
    }
    PyMem_Free(value);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"separate", separate, METH_VARARGS, "Cells cut at gaps of invariants."},
    {"classes_dense", classes_dense, METH_VARARGS, "Classes of equal rows, sample by sample."},
    {"classes_listed", classes_listed, METH_VARARGS, "Classes of equal rows with a batch vector."},
    {"colours_of_pairs", colours_of_pairs, METH_VARARGS, "Colours of the pairs of nodes."},
    {"count_samples", count_samples, METH_VARARGS, "The number of samples of a batch vector."},
    {"joins_nodes", joins_nodes, METH_VARARGS, "Whether listed edges are valid."},
    {"take", take, METH_VARARGS, "Rows or pairs in another order."},
    {"mean", mean, METH_VARARGS, "Means over orbits."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_rows", "Rows of features, compiled.", -1, methods,
};

PyMODINIT_FUNC PyInit__rows(void) { return PyModule_Create(&module); }
