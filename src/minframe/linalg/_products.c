/* Sums and products of rows with matrices, one for each sample: `layout.scatter` and `action.multiply`, compiled. And
   an eigenvector of such sums.

   Tensors come as the addresses of contiguous float64 (or complex128) numbers, unless stated otherwise. */

#include "_samples.h"
#include "_time_axis.h"

typedef struct {
    Rows x;
    const double *matrix; /* of `multiply`, (samples, d, d) */
    address result;
    long long time; /* the axis of the total momentum of real rows, see `to_rest`; -1: it is of no interest */
    const uint8_t *momentum; /* the samples in which it is that; NULL: all */
    double *scratch; /* of each thread, `scratch_size` numbers */
    int64_t scratch_size;
} Job;

/* One sample; a portion of it works in `tiles`, that of the thread, and leaves its sums in `sums`. */
typedef struct {
    Job *job;
    int64_t b, n;
    double *sums;
} Sample;

static double *tile_of(const Job *job, int member)
{
    return job->scratch + member * job->scratch_size;
}

/* Planes of up to TILE rows from row i on; the number of rows, LANES at a time. */
INLINE int64_t read_tile(const Rows *x, int64_t b, int64_t i, int64_t to, int64_t n, int d, int parts, double *tile)
{
    int64_t rows = to - i < TILE ? padded(to - i) : TILE;
    int64_t packed = packed_rows(x, i, i + TILE < to ? i + TILE : to, n, d * parts);
    read_packed(x, b, i, packed, d * parts, NULL, tile, TILE);
    for (int m = 0; m < d * parts; m++)
        for (int64_t j = packed; j < rows; j += LANES)
            read_plane(x, b, i + j, n, m, parts, 0, tile + m * TILE + j);
    return rows;
}

/* Sums of x_a conj(x_c) over the rows of portion k, for c >= a: real parts and, complex, imaginary parts. */
INLINE void add_products(const Sample *s, int64_t k, int d, int parts, double *tile)
{
    const Rows *x = &s->job->x;
    double *sums = s->sums + k * d * d * parts;
    for (int at = 0; at < d * d * parts; at++)
        sums[at] = 0;
    for (int64_t i = k * PORTION; i < end_of(k, s->n); i += TILE) {
        int64_t rows = read_tile(x, s->b, i, end_of(k, s->n), s->n, d, parts, tile);
        for (int a = 0; a < d; a++)
            for (int c = a; c < d; c++) {
                const double *left = tile + a * parts * TILE, *right = tile + c * parts * TILE;
                lanes re = {0}, im = {0};
                for (int64_t j = 0; j < rows; j += LANES) {
                    re += AT(left + j) * AT(right + j);
                    if (parts == 2) {
                        re += AT(left + TILE + j) * AT(right + TILE + j);
                        im += AT(left + TILE + j) * AT(right + j) - AT(left + j) * AT(right + TILE + j);
                    }
                }
                double *sum = sums + (a * d + c) * parts;
                for (int j = 0; j < LANES; j++) {
                    sum[0] += re[j];
                    if (parts == 2)
                        sum[1] += im[j];
                }
            }
    }
}

/* The rows of portion k, times the matrix of the sample. */
INLINE void multiply_portion(const Sample *s, int64_t k, int d, int parts, double *tile)
{
    const Rows *x = &s->job->x;
    const double *matrix = s->job->matrix + s->b * d * d * parts;
    double *product = tile + d * parts * TILE;
    for (int64_t i = k * PORTION; i < end_of(k, s->n); i += TILE) {
        int64_t rows = read_tile(x, s->b, i, end_of(k, s->n), s->n, d, parts, tile);
        for (int64_t j = 0; j < rows; j += LANES)
            for (int a = 0; a < d; a++) {
                lanes re = {0}, im = {0};
                for (int c = 0; c < d; c++) {
                    const double *m = matrix + (a * d + c) * parts, *from = tile + c * parts * TILE + j;
                    re += AT(from) * m[0];
                    if (parts == 2) {
                        re -= AT(from + TILE) * m[1];
                        im += AT(from) * m[1] + AT(from + TILE) * m[0];
                    }
                }
                AT(product + a * parts * TILE + j) = re;
                if (parts == 2)
                    AT(product + (2 * a + 1) * TILE + j) = im;
            }
        int64_t packed = __builtin_constant_p(d) && !x->order && i + rows <= s->n ? rows : 0;
        write_packed(x, s->b, i, packed, d * parts, product, TILE, s->job->result);
        for (int m = 0; m < d * parts; m++)
            for (int64_t j = packed; j < rows; j += LANES)
                write_plane(x, s->b, i + j, s->n, m, parts, product + m * TILE + j, 1, 0, s->job->result);
    }
}

/* The compiler unrolls the common dimensions. */
#define COMMON_CASES(function)                                                                                         \
    const Sample *s = sample;                                                                                          \
    double *tile = tile_of(s->job, member);                                                                            \
    int d = (int)s->job->x.d;                                                                                          \
    if (s->job->x.parts == 2 && d == 4)                                                                                \
        function(s, k, 4, 2, tile);                                                                                    \
    else if (s->job->x.parts == 2)                                                                                     \
        function(s, k, d, 2, tile);                                                                                    \
    else if (d == 3)                                                                                                   \
        function(s, k, 3, 1, tile);                                                                                    \
    else if (d == 4)                                                                                                   \
        function(s, k, 4, 1, tile);                                                                                    \
    else                                                                                                               \
        function(s, k, d, 1, tile);

FOR_EACH_MACHINE static void portion_of_scatter(void *sample, int64_t k, int member)
{
    COMMON_CASES(add_products)
}

FOR_EACH_MACHINE static void portion_of_product(void *sample, int64_t k, int member)
{
    COMMON_CASES(multiply_portion)
}

/* The sums of all portions in their order, and their conjugates below the diagonal. */
static void write_scatter(const Sample *s)
{
    const int64_t d = s->job->x.d, parts = s->job->x.parts, size = d * d * parts, portions = portions_of(s->n);
    double *result = POINTER(double, s->job->result) + s->b * size;
    for (int64_t a = 0; a < d; a++)
        for (int64_t c = a; c < d; c++)
            for (int64_t part = 0; part < parts; part++) {
                int64_t at = (a * d + c) * parts + part;
                double sum = 0;
                for (int64_t k = 0; k < portions; k++)
                    sum += s->sums[k * size + at];
                result[(c * d + a) * parts + part] = part ? -sum : sum;
                result[at] = part && a == c ? 0 : sum;
            }
}

static void serve_scatter(void *argument, Crew *crew, int64_t b, int member)
{
    Job *job = argument;
    Sample s = {job, b, size_of(&job->x, b), tile_of(job, member) + 2 * job->x.d * job->x.parts * TILE};
    if (crew)
        share(crew, portion_of_scatter, &s, portions_of(s.n), 0);
    else
        for (int64_t k = 0; k < portions_of(s.n); k++)
            portion_of_scatter(&s, k, member);
    write_scatter(&s);
}

/* Take from products y what rounding left of their total across the axis of time, as a boost by so little does to first
   order: y_i -= v y_i0, with the velocity v of the total. A sample is still in the cache. */
INLINE void take_total(const Sample *s, int d)
{
    const Rows *x = &s->job->x;
    const int time = (int)s->job->time;
    double *rows = POINTER(double, s->job->result), *velocity = s->sums;
    for (int a = 0; a < d; a++)
        velocity[a] = 0;
    for (int64_t i = 0; i < s->n; i++)
        for (int a = 0; a < d; a++)
            velocity[a] += rows[place_of(x, s->b, i) * d + a];
    double mass = velocity[time];
    for (int a = 0; a < d; a++)
        velocity[a] /= a == time ? INFINITY : mass;
    for (int64_t i = 0; i < s->n; i++) {
        double *row = rows + place_of(x, s->b, i) * d, energy = row[time];
        for (int a = 0; a < d; a++)
            row[a] -= velocity[a] * energy;
    }
}

FOR_EACH_MACHINE static void to_rest(const Sample *s)
{
    if (s->job->x.d == 4)
        take_total(s, 4);
    else
        take_total(s, (int)s->job->x.d);
}

static void serve_product(void *argument, Crew *crew, int64_t b, int member)
{
    Job *job = argument;
    Sample s = {job, b, size_of(&job->x, b), tile_of(job, member) + 2 * job->x.d * job->x.parts * TILE};
    if (crew)
        share(crew, portion_of_product, &s, portions_of(s.n), 0);
    else
        for (int64_t k = 0; k < portions_of(s.n); k++)
            portion_of_product(&s, k, member);
    if (job->time >= 0 && (!job->momentum || job->momentum[b]))
        to_rest(&s);
}

static PyObject *run(Job *job, Serve *serve, int threads)
{
    int64_t planes = job->x.d * job->x.parts;
    set_pointers(&job->x);
    threads = possible_threads(threads);
    job->scratch_size = apart(2 * planes * TILE + portions_of(job->x.n) * job->x.d * planes);
    char *memory = PyMem_Malloc(LINE + threads * job->scratch_size * sizeof(double));
    if (!memory)
        return PyErr_NoMemory();
    job->scratch = aligned(memory);
    Py_BEGIN_ALLOW_THREADS
    for_samples(&job->x, serve, job, threads);
    Py_END_ALLOW_THREADS
    PyMem_Free(memory);
    Py_RETURN_NONE;
}

static PyObject *scatter(PyObject *self, PyObject *args)
{
    Job job = {.matrix = NULL, .time = -1};
    int threads;
    if (!PyArg_ParseTuple(args, ROWS_FORMAT "Ki", ROWS_FIELDS(job.x), &job.result, &threads))
        return NULL;
    return run(&job, serve_scatter, threads);
}

static PyObject *multiply(PyObject *self, PyObject *args)
{
    Job job = {.matrix = NULL};
    address matrix, momentum;
    int threads;
    if (!PyArg_ParseTuple(args, ROWS_FORMAT "KKLKi", ROWS_FIELDS(job.x), &matrix, &job.result, &job.time, &momentum,
                          &threads))
        return NULL;
    job.matrix = POINTER(const double, matrix);
    job.momentum = POINTER(const uint8_t, momentum);
    return run(&job, serve_product, threads);
}

/* The time-like eigenvectors of real sums `s`, (samples, d, d); False if some are not found. */
static PyObject *time_axes(PyObject *self, PyObject *args)
{
    address s, result;
    Py_ssize_t samples, d, time;
    if (!PyArg_ParseTuple(args, "KnnnK", &s, &samples, &d, &time, &result))
        return NULL;
    double *scratch = PyMem_Malloc(d * d * sizeof(double));
    if (!scratch)
        return PyErr_NoMemory();
    int found = 1;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t b = 0; b < samples && found; b++)
        found = find_time_axis(POINTER(const double, s) + b * d * d, d, time, scratch, POINTER(double, result) + b * d);
    Py_END_ALLOW_THREADS
    PyMem_Free(scratch);
    return PyBool_FromLong(found);
}

static PyMethodDef methods[] = {
    {"scatter", scatter, METH_VARARGS, "The sum of x x^* over the rows of each sample."},
    {"multiply", multiply, METH_VARARGS, "The rows of each sample times a matrix, at rest if asked for."},
    {"time_axes", time_axes, METH_VARARGS, "The time-like eigenvectors of sums."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_products", "Sums and products of rows, compiled.", -1, methods,
};

PyMODINIT_FUNC PyInit__products(void)
{
    return PyModule_Create(&module);
}
