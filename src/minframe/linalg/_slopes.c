/* First and second derivatives of the poses of soft.py, compiled, for one pose after the other.

   With weights w and bases b of all poses as functions of the rows x, and numbers gw, gb,

       slope(x) = gradient of sum_k gw_k w_k + <gb_k, b_k>

   is what a backward pass needs. A second one, through that, needs for some v how slope, w and b change along v. Let f
   be analytic, and real for real arguments: f(x + i h v) = f(x) + i h f'(x) v + O(h^2), so that its imaginary part over
   h is the derivative, exact to rounding for h as small as 1e-150, as nothing is subtracted (Squire and Trapp, SIAM
   Review 40, 1998). So the same text, in _slopes.h, is compiled for real and for complex numbers.

   What is done is said in soft.py and soft_derivatives.py. Tensors come as the addresses of contiguous float64 numbers,
   unless stated otherwise; 0 stands for None. Complex rows and moments are not served. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <complex.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef unsigned long long address;

#define POINTER(type, a) ((type *)(uintptr_t)(a))

#define NEGLIGIBLE 1e-30 /* a term of a sum, relative to the largest: leaving all such out is below rounding */
#define SMALL 1e-150 /* the largest imaginary part of a row; its square is zero beside any real part */

typedef struct {
    double sharpness;
    int special;
    double tiny, sign_slope, flatness, cut_width;
} Rule;

typedef struct {
    Py_ssize_t d, n;
    int alone; /* the only pose of its sample: its weight is one, and stays so */
    double scale;
    const double *basis;
    const int64_t *chosen;
    const uint8_t *gone;
    int64_t *rows; /* where the rows of its sample are */
} Pose;

#define NUMBER double
#define REAL(x) (x)
#define NAMED(name) name##_real
#define POWER pow
#define EXP exp
#define SQRT sqrt
#define WITH_TANGENT(value, tangent) (value)
#include "_slopes.h"
#undef NUMBER
#undef REAL
#undef NAMED
#undef POWER
#undef EXP
#undef SQRT
#undef WITH_TANGENT

#define NUMBER double complex
#define REAL(x) creal(x)
#define NAMED(name) name##_complex
#define POWER cpow
#define EXP cexp
#define SQRT csqrt
#define WITH_TANGENT(value, tangent) ((value) + I * (tangent))
#include "_slopes.h"

/* What both functions are given of the poses. */
typedef struct {
    address rows, order, starts, sizes, sample, chosen, gone, basis, weight, scale, gw, gb;
    Py_ssize_t count, d, largest;
    Rule rule;
} Given;

#define GIVEN "KKKKKKKKKKKKnnn(dpdddd)"
#define FIELDS(g) \
    &(g).rows, &(g).order, &(g).starts, &(g).sizes, &(g).sample, &(g).chosen, &(g).gone, &(g).basis, &(g).weight, \
        &(g).scale, &(g).gw, &(g).gb, &(g).count, &(g).d, &(g).largest, &(g).rule.sharpness, &(g).rule.special, \
        &(g).rule.tiny, &(g).rule.sign_slope, &(g).rule.flatness, &(g).rule.cut_width

static void pose_of(const Given *g, Py_ssize_t k, Pose *pose)
{
    int64_t b = POINTER(int64_t, g->sample)[k], start = POINTER(int64_t, g->starts)[b];
    pose->d = g->d;
    pose->n = POINTER(int64_t, g->sizes)[b];
    pose->alone = POINTER(double, g->weight)[k] == 1;
    pose->scale = POINTER(double, g->scale)[b];
    pose->basis = POINTER(double, g->basis) + k * g->d * g->d;
    pose->chosen = POINTER(int64_t, g->chosen) + k * (g->d - 1);
    pose->gone = POINTER(uint8_t, g->gone) + k * g->d;
    for (Py_ssize_t i = 0; i < pose->n; i++)
        pose->rows[i] = g->order ? POINTER(int64_t, g->order)[start + i] : start + i;
}

/* Adds the slope to `slope`, which has the shape of the rows. */
static PyObject *slopes(PyObject *self, PyObject *args)
{
    Given g;
    address a_slope;
    Room_real r = {0};
    Pose pose;
    if (!PyArg_ParseTuple(args, GIVEN "K", FIELDS(g), &a_slope))
        return NULL;
    pose.rows = PyMem_Malloc(g.largest * sizeof(int64_t));
    if (!make_room_real(&r, g.largest, g.d) || !pose.rows) {
        free_room_real(&r);
        PyMem_Free(pose.rows);
        return PyErr_NoMemory();
    }
    Py_BEGIN_ALLOW_THREADS
    Py_ssize_t d = g.d;
    double *out = POINTER(double, a_slope);
    for (Py_ssize_t k = 0; k < g.count; k++) {
        pose_of(&g, k, &pose);
        enter_real(&r, &pose, POINTER(double, g.rows), NULL, POINTER(double, g.gb) + k * d * d);
        pose_slope_real(&r, &pose, POINTER(double, g.gw)[k], &g.rule);
        for (Py_ssize_t i = 0; i < pose.n; i++)
            for (Py_ssize_t j = 0; j < d; j++)
                if (r.gy[i * d + j] != 0)
                    for (Py_ssize_t m = 0; m < d; m++)
                        out[pose.rows[i] * d + m] += r.gy[i * d + j] * pose.basis[m * d + j] / pose.scale;
    }
    Py_END_ALLOW_THREADS
    free_room_real(&r);
    PyMem_Free(pose.rows);
    Py_RETURN_NONE;
}

/* How slope, w and b change along `v`, which has the shape of the rows; adds to the first. */
static PyObject *curvatures(PyObject *self, PyObject *args)
{
    Given g;
    address a_v, a_slope, a_weight, a_basis;
    Py_ssize_t length;
    Room_complex r = {0};
    Pose pose;
    if (!PyArg_ParseTuple(args, GIVEN "nKKKK", FIELDS(g), &length, &a_v, &a_slope, &a_weight, &a_basis))
        return NULL;
    pose.rows = PyMem_Malloc(g.largest * sizeof(int64_t));
    double *v = PyMem_Malloc((length * g.d + 1) * sizeof(double));
    if (!make_room_complex(&r, g.largest, g.d) || !pose.rows || !v) {
        free_room_complex(&r);
        PyMem_Free(pose.rows);
        PyMem_Free(v);
        return PyErr_NoMemory();
    }
    Py_BEGIN_ALLOW_THREADS
    Py_ssize_t d = g.d;
    double *out = POINTER(double, a_slope), largest = 0;
    for (Py_ssize_t i = 0; i < length * d; i++)
        largest = fmax(largest, fabs(POINTER(double, a_v)[i]));
    double h = largest > 0 && isfinite(largest) ? SMALL / largest : SMALL;
    for (Py_ssize_t i = 0; i < length * d; i++)
        v[i] = POINTER(double, a_v)[i] * h;
    for (Py_ssize_t k = 0; k < g.count; k++) {
        pose_of(&g, k, &pose);
        enter_complex(&r, &pose, POINTER(double, g.rows), v, POINTER(double, g.gb) + k * d * d);
        POINTER(double, a_weight)[k] = cimag(pose_slope_complex(&r, &pose, POINTER(double, g.gw)[k], &g.rule)) / h;
        for (Py_ssize_t m = 0; m < d; m++)
            for (Py_ssize_t j = 0; j < d; j++) {
                double change = 0;
                for (Py_ssize_t i = 0; i < d; i++)
                    change += pose.basis[m * d + i] * cimag(r.q[j * d + i]);
                POINTER(double, a_basis)[(k * d + m) * d + j] = change / h;
            }
        for (Py_ssize_t i = 0; i < pose.n; i++)
            for (Py_ssize_t j = 0; j < d; j++)
                for (Py_ssize_t m = 0; m < d; m++)
                    out[pose.rows[i] * d + m] +=
                        cimag(r.gy[i * d + j]) / h * pose.basis[m * d + j] / pose.scale;
    }
    Py_END_ALLOW_THREADS
    free_room_complex(&r);
    PyMem_Free(pose.rows);
    PyMem_Free(v);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"slopes", slopes, METH_VARARGS, "The gradient of a sum of weights and bases."},
    {"curvatures", curvatures, METH_VARARGS, "How that gradient, weights and bases change in a direction."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_slopes", "Derivatives of minframe.linalg.soft_derivatives, compiled.", -1, methods,
};

PyMODINIT_FUNC PyInit__slopes(void)
{
    return PyModule_Create(&module);
}
