/* Rows grouped by their sample, by counting. Tensors come as the addresses of contiguous int64 numbers. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <stdint.h>

typedef unsigned long long address;

#define POINTER(a) ((int64_t *)(uintptr_t)(a))

/* index (n,), from 0 to count - 1; results: order (n,), starts (count,), sizes (count,). The largest size; -1 if the
   index has other numbers. */
static PyObject *group(PyObject *self, PyObject *args)
{
    address a_index, a_order, a_starts, a_sizes;
    Py_ssize_t n, count;
    if (!PyArg_ParseTuple(args, "KnnKKK", &a_index, &n, &count, &a_order, &a_starts, &a_sizes))
        return NULL;
    const int64_t *index = POINTER(a_index);
    int64_t *order = POINTER(a_order), *starts = POINTER(a_starts), *sizes = POINTER(a_sizes), largest = 0, next = 0;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t b = 0; b < count; b++)
        sizes[b] = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (index[i] < 0 || index[i] >= count) {
            largest = -1;
            break;
        }
        sizes[index[i]]++;
    }
    for (Py_ssize_t b = 0; b < count && largest >= 0; b++) {
        starts[b] = next;
        next += sizes[b];
        largest = sizes[b] > largest ? sizes[b] : largest;
    }
    for (Py_ssize_t i = 0; i < n && largest >= 0; i++)
        order[starts[index[i]]++] = i;
    for (Py_ssize_t b = 0; b < count && largest >= 0; b++)
        starts[b] -= sizes[b];
    Py_END_ALLOW_THREADS
    return PyLong_FromLongLong(largest);
}

static PyMethodDef methods[] = {
    {"group", group, METH_VARARGS, "Group rows by their sample."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_segments", "Rows grouped by their sample.", -1, methods,
};

PyMODINIT_FUNC PyInit__segments(void)
{
    return PyModule_Create(&module);
}
