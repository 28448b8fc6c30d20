/* Momenta that are brought to rest: the boost of at_rest.py, for one sample, whose rows are planes of numbers.

   The first plane is that of time. With P the sum of the rows, M its mass and w = P + s M e_t, s the sign of P_t, the
   reflection x -> x - w <w, x> / h, h = <w, w> / 2, brings P to rest; and so does the boost, which differs from it in
   the time axis alone. That is P / M, or what of it points into the future. */

#ifndef MINFRAME_REST_H
#define MINFRAME_REST_H

#include "_lanes.h"

#define MOST_AXES 16

/* Which samples are ordinary, and are served. */
typedef struct {
    int wanted, orthochronous;
    double reach; /* the largest size of the rows at rest */
    double share; /* the least that must be left for the last axis, over the square of the speed */
    double limit; /* how much longer than others a row may be and still carry an axis, squared */
    double slow;  /* up to which squared norm products with an element are exact enough */
    double *linear, *adjoint, *triangle; /* the elements, (samples, d, d), and their factors Q^* and R */
    uint8_t *served;                     /* which samples they are known of */
} Rest;

/* The boost of one sample, in d dimensions: unless stated otherwise, sizes are over M. */
typedef struct {
    double mass, speed; /* M; 1 + gamma */
    double forward;     /* the sign of P_t */
    double *w, *form;   /* w / M, and M <w, .> / h */
    double *time;       /* <P / M, .>, or minus that */
} Boost;

/* The boost for momenta that add up to `total`; 0 if there is none. */
static int set_boost(Boost *boost, const double *total, int64_t d, int orthochronous)
{
    double mass2 = total[0] * total[0];
    for (int64_t k = 1; k < d; k++)
        mass2 -= total[k] * total[k];
    if (!(mass2 > 1e-280 && mass2 < 1e280))
        return 0;
    double mass = sqrt(mass2);
    boost->mass = mass;
    boost->forward = total[0] < 0 ? -1 : 1;
    boost->speed = 1 + fabs(total[0]) / mass;
    for (int64_t k = 0; k < d; k++) {
        double u = total[k] / mass, eta = k ? -1 : 1;
        boost->w[k] = k ? u : u + boost->forward;
        boost->form[k] = eta * boost->w[k] / boost->speed;
        boost->time[k] = eta * (orthochronous ? boost->forward * u : u);
    }
    return 1;
}

/* Boost rows i, ..., i + LANES - 1, in place, and write the squared lengths of what they are in space. */
INLINE void boost_rows(double *row, int64_t stride, const Boost *boost, int d, double *squares)
{
    lanes form = {0}, time = {0}, sum = {0};
    for (int k = 0; k < d; k++) {
        form += AT(row + k * stride) * boost->form[k];
        time += AT(row + k * stride) * boost->time[k];
    }
    AT(row) = time;
    for (int k = 1; k < d; k++) {
        lanes y = AT(row + k * stride) - form * boost->w[k];
        AT(row + k * stride) = y;
        sum += y * y;
    }
    AT(squares) = sum;
}

/* The element, whose adjoint has the given columns; whether it is slow. */
static int write_element(const Rest *rest, int64_t b, int64_t d, const double *columns)
{
    double norm2 = 0, *linear = rest->linear + b * d * d;
    for (int64_t i = 0; i < d; i++)
        for (int64_t k = 0; k < d; k++) {
            double entry = columns[i * d + k];
            linear[i * d + k] = (i == 0) == (k == 0) ? entry : -entry;
            norm2 += entry * entry;
        }
    return norm2 <= rest->slow;
}

/* Factor a matrix: its product with `adjoint` is `triangle` (Householder). Of a slow element both are one: nobody asks. */
static void factor_element(const Rest *rest, int64_t b, int64_t d, int slow)
{
    double *q = rest->adjoint + b * d * d, *r = rest->triangle + b * d * d, v[MOST_AXES];
    for (int64_t at = 0; at < d * d; at++) {
        q[at] = at / d == at % d;
        r[at] = slow ? q[at] : rest->linear[b * d * d + at];
    }
    for (int64_t c = 0; c + 1 < d && !slow; c++) {
        double norm2 = 0;
        for (int64_t i = c; i < d; i++) {
            v[i] = r[i * d + c];
            norm2 += v[i] * v[i];
        }
        double norm = sqrt(norm2), half = norm * (norm + fabs(v[c]));
        v[c] += v[c] < 0 ? -norm : norm;
        for (int64_t k = 0; k < d; k++) {
            double of_q = 0, of_r = 0;
            for (int64_t i = c; i < d; i++) {
                of_q += v[i] * q[i * d + k];
                of_r += v[i] * r[i * d + k];
            }
            for (int64_t i = c; i < d; i++) {
                q[i * d + k] -= v[i] * (of_q / half);
                r[i * d + k] = i > c && k <= c ? 0 : r[i * d + k] - v[i] * (of_r / half);
            }
        }
    }
}

/* Rows i, ..., i + LANES - 1 as they are given, in the columns of the element: by substitution (columns.py). */
INLINE void substitute_rows(double *row, int64_t stride, const double *adjoint, const double *triangle, int d)
{
    lanes y[MOST_AXES];
    for (int a = 0; a < d; a++) {
        y[a] = (lanes){0};
        for (int c = 0; c < d; c++)
            y[a] += AT(row + c * stride) * adjoint[a * d + c];
    }
    for (int a = d - 1; a >= 0; a--) {
        for (int c = a + 1; c < d; c++)
            y[a] -= AT(row + c * stride) * triangle[a * d + c];
        AT(row + a * stride) = y[a] / triangle[a * d + a];
    }
}

#endif
