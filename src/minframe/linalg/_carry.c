/* The loops of carry.py: rows of one list, times matrices of another.

   Tensors come as the addresses of contiguous numbers: rows (N, c, d) of float32 or float64, matrices (K, d, d) of
   float64. Entry e pairs row entry[e] (row e, if that is 0) with matrix owner[e]. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <stdint.h>

typedef unsigned long long address;

#define POINTER(type, a) ((type *)(uintptr_t)(a))

/* Rows that are read or written: float64, or float32. */
typedef struct {
    address numbers;
    int is_double;
} Numbers;

typedef struct {
    Numbers from, to;
    const double *matrix;
    double *sums;
    const int64_t *entry, *owner;
    Py_ssize_t count, rows, matrices, channels, d;
} Job;

/* The row of entry e. */
static inline Py_ssize_t row_of(const Job *job, Py_ssize_t e)
{
    return job->entry ? job->entry[e] : e;
}

/* The first entry whose row or matrix does not exist, or -1. */
static Py_ssize_t outside(const Job *job)
{
    for (Py_ssize_t e = 0; e < job->count; e++)
        if ((size_t)row_of(job, e) >= (size_t)job->rows || (size_t)job->owner[e] >= (size_t)job->matrices)
            return e;
    return -1;
}

static inline void read_row(Numbers x, Py_ssize_t at, int d, double *row)
{
    if (x.is_double)
        for (int j = 0; j < d; j++)
            row[j] = POINTER(const double, x.numbers)[at + j];
    else
        for (int j = 0; j < d; j++)
            row[j] = POINTER(const float, x.numbers)[at + j];
}

static inline void write_row(Numbers x, Py_ssize_t at, int d, const double *row)
{
    if (x.is_double)
        for (int j = 0; j < d; j++)
            POINTER(double, x.numbers)[at + j] = row[j];
    else
        for (int j = 0; j < d; j++)
            POINTER(float, x.numbers)[at + j] = (float)row[j];
}

#define MAX_D 16

/* to[e] = matrix[owner[e]] from[entry[e]] */
static inline void carry_(const Job *job, int d)
{
    double x[MAX_D], y[MAX_D];
    for (Py_ssize_t e = 0; e < job->count; e++) {
        const double *m = job->matrix + job->owner[e] * d * d;
        Py_ssize_t row = row_of(job, e);
        for (Py_ssize_t c = 0; c < job->channels; c++) {
            read_row(job->from, (row * job->channels + c) * d, d, x);
            for (int i = 0; i < d; i++) {
                y[i] = 0;
                for (int j = 0; j < d; j++)
                    y[i] += m[i * d + j] * x[j];
            }
            write_row(job->to, (e * job->channels + c) * d, d, y);
        }
    }
}

/* sums[entry[e]] += matrix[owner[e]]^T from[e] */
static inline void back_(const Job *job, int d)
{
    double y[MAX_D];
    for (Py_ssize_t e = 0; e < job->count; e++) {
        const double *m = job->matrix + job->owner[e] * d * d;
        Py_ssize_t row = row_of(job, e);
        for (Py_ssize_t c = 0; c < job->channels; c++) {
            double *x = job->sums + (row * job->channels + c) * d;
            read_row(job->from, (e * job->channels + c) * d, d, y);
            for (int i = 0; i < d; i++)
                for (int j = 0; j < d; j++)
                    x[j] += m[i * d + j] * y[i];
        }
    }
}

/* sums[owner[e]] += to[e] from[entry[e]]^T */
static inline void outer_(const Job *job, int d)
{
    double x[MAX_D], y[MAX_D];
    for (Py_ssize_t e = 0; e < job->count; e++) {
        double *m = job->sums + job->owner[e] * d * d;
        Py_ssize_t row = row_of(job, e);
        for (Py_ssize_t c = 0; c < job->channels; c++) {
            read_row(job->from, (row * job->channels + c) * d, d, x);
            read_row(job->to, (e * job->channels + c) * d, d, y);
            for (int i = 0; i < d; i++)
                for (int j = 0; j < d; j++)
                    m[i * d + j] += y[i] * x[j];
        }
    }
}

/* The compiler unrolls the common dimensions. */
#define FUNCTION(name)                                                                                                 \
    static PyObject *name(PyObject *self, PyObject *args)                                                              \
    {                                                                                                                  \
        Job job;                                                                                                       \
        if (!parse(args, &job))                                                                                        \
            return NULL;                                                                                               \
        Py_BEGIN_ALLOW_THREADS                                                                                         \
        if (job.d == 3)                                                                                                \
            name##_(&job, 3);                                                                                          \
        else if (job.d == 4)                                                                                           \
            name##_(&job, 4);                                                                                          \
        else                                                                                                           \
            name##_(&job, (int)job.d);                                                                                 \
        Py_END_ALLOW_THREADS                                                                                           \
        Py_RETURN_NONE;                                                                                                \
    }

/* Rows that are read, rows that are written (or read, by outer), matrices, sums (zero at first); entry, owner. */
static int parse(PyObject *args, Job *job)
{
    address matrix, sums, entry, owner;
    if (!PyArg_ParseTuple(args, "KpKpKKKKnnnnn", &job->from.numbers, &job->from.is_double, &job->to.numbers,
                          &job->to.is_double, &matrix, &sums, &entry, &owner, &job->count, &job->rows,
                          &job->matrices, &job->channels, &job->d))
        return 0;
    if (job->d > MAX_D) {
        PyErr_SetString(PyExc_ValueError, "rows are too long");
        return 0;
    }
    job->matrix = POINTER(const double, matrix);
    job->sums = POINTER(double, sums);
    job->entry = POINTER(const int64_t, entry);
    job->owner = POINTER(const int64_t, owner);
    Py_ssize_t e = outside(job);
    if (e >= 0)
        PyErr_Format(PyExc_IndexError, "entry %zd is of row %zd of %zd and matrix %zd of %zd", e, row_of(job, e),
                     job->rows, (Py_ssize_t)job->owner[e], job->matrices);
    return e < 0;
}

FUNCTION(carry)
FUNCTION(back)
FUNCTION(outer)

static PyMethodDef methods[] = {
    {"carry", carry, METH_VARARGS, "Rows times matrices."},
    {"back", back, METH_VARARGS, "Its transpose: sums of rows times the transposed matrices."},
    {"outer", outer, METH_VARARGS, "Sums of outer products of rows."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_carry", "Rows of one list times matrices of another, compiled.", -1, methods,
};

PyMODINIT_FUNC PyInit__carry(void)
{
    return PyModule_Create(&module);
}
