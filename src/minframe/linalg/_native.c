/* The loops of qr.py, compiled: one sample after the other, or several at a time by threads.

   What is done, and why, is said in qr.py; the names are the same. Tensors come as the addresses of contiguous float64
   (or complex128) numbers, unless stated otherwise; 0 stands for None. */

#include "_rest.h"
#include "_samples.h"
#include "_white.h"

#define FINITE 1 /* all numbers are finite */
#define FULL 2   /* all axes are determined */
#define SLOW 8   /* no boost is strong */
#define SERVED 4 /* all rows could be made white, or brought to rest, if that was wanted */

/* The rule by which rows are chosen; see native.py. */
typedef struct {
    double fraction, of_longest, of_mean, tie, speck, tiny;
} Rule;

/* A complex number; of a real one the second part is not looked at. */
typedef struct {
    double re, im;
} Number;

/* What holds for all samples of a thread. */
typedef struct {
    _Alignas(LINE) int all;
} Flags;

/* A call of `pivoted_qr`: what it reads and writes. */
typedef struct {
    Rows x;
    Rule rule;
    int special;
    double noise, constant_floor;
    double least;         /* ratio of pivots, of rows that are made white */
    int recentre;         /* these are made to add up to zero */
    double *white, *back; /* T and its inverse, of rows that are made white; else NULL */
    Rest rest;            /* momenta that are brought to rest; of their axes only those of space are chosen */
    const double *origin, *floor, *limit, *row_floor;
    const uint8_t *longest;
    address pose;
    double *basis, *peaks;
    int64_t *positions; /* NULL: neither these nor peaks are wanted */
    uint8_t *determined, *several;
    double *scratch; /* of each thread, `scratch_size` numbers */
    int64_t scratch_size;
    Flags flags[MAX_THREADS];
} Job;

/* What was seen of some rows. */
typedef struct {
    double peak;     /* the largest squared length */
    double zero;     /* NaN if a number is not finite */
    double total;    /* the sum of squared lengths, at first */
    double shortest; /* the least first length above the bar */
    int64_t row;     /* the first row that may be chosen; INT64_MAX: none */
    int several;     /* whether there are more */
} Seen;

static const Seen NOTHING = {0, 0, 0, INFINITY, INT64_MAX, 0};

typedef struct Sample Sample;
typedef Seen Sweep(const Sample *s, int64_t from, int64_t to);

/* One sample. */
struct Sample {
    Job *job;
    Crew *crew; /* who shares it; NULL: nobody */
    int64_t b, n;
    int64_t stride;       /* length of a plane: `padded(n)` for the rows, then `padded(d)` for those of the identity */
    double *planes;       /* d of them, or, complex, 2 d */
    double *r2, *lengths; /* squared, of what is left of each row, and of each row at first */
    Boost boost;          /* to rest */
    int first, axis;      /* the first axis that is chosen, and the step: */
    double bar, at_most;  /* the least that must be left of a row to be chosen, and the largest it may have been */
    double uncertain;     /* squared length below which what is left of any row is rounding, beside its own */
    double *w, scale;     /* the reflection */
    Number sign;          /* what makes the coordinate of the chosen row positive */
    double poison;        /* NaN if numbers are not finite, and else 0 */
    Sweep *sweep;
    int backwards; /* whether the next sweep is from the last portion to the first */
    Seen *seen;    /* by portion */
};

/* ---- Sweeps over rows from, ..., to - 1, both multiples of LANES. `d` and `parts` are those of the rows, and constant
   in the common cases, for the compiler to unroll. */

INLINE double largest_of(const lanes *peak)
{
    double largest = 0;
    for (int j = 0; j < LANES; j++)
        largest = (*peak)[j] > largest ? (*peak)[j] : largest;
    return largest;
}

INLINE Seen seen_of(const lanes *peak, const lanes *zero, const lanes *total)
{
    Seen seen = NOTHING;
    seen.peak = largest_of(peak);
    for (int j = 0; j < LANES; j++)
        seen.zero += (*zero)[j], seen.total += (*total)[j];
    return seen;
}

/* Read rows, relative to the origin, and their squared lengths: a tile at a time, as a vector cannot be read at once
   from where its numbers were just written one by one. */
INLINE Seen read_rows(const Sample *s, int64_t from, int64_t to, int d, int parts)
{
    const Rows *x = &s->job->x;
    const double *origin = s->job->origin ? s->job->origin + s->b * d * parts : NULL;
    lanes peak = {0}, zero = {0}, total = {0};
    for (int64_t tile = from; tile < to; tile += TILE) {
        int64_t end = tile + TILE < to ? tile + TILE : to, packed = packed_rows(x, tile, end, s->n, d * parts);
        read_packed(x, s->b, tile, packed, d * parts, origin, s->planes + tile, s->stride);
        for (int m = 0; m < d * parts; m++)
            for (int64_t i = tile + packed; i < end; i += LANES)
                read_plane(x, s->b, i, s->n, m, parts, origin ? origin[m] : 0, s->planes + m * s->stride + i);
        for (int64_t i = tile; i < end; i += LANES) {
            lanes r2 = {0};
            for (int m = 0; m < d * parts; m++)
                r2 += AT(s->planes + m * s->stride + i) * AT(s->planes + m * s->stride + i);
            AT(s->r2 + i) = r2;
            peak = SELECT(r2 > peak, r2, peak);
            zero += 0 * r2;
            total += r2;
        }
    }
    return seen_of(&peak, &zero, &total);
}

/* Make rows white, and leave their squared lengths in r2. */
INLINE Seen whiten_rows(const Sample *s, int64_t from, int64_t to, int d, int parts)
{
    const double *back = s->job->back + s->b * d * d * parts;
    lanes peak = {0}, zero = {0}, total = {0};
    for (int64_t i = from; i < to; i += LANES) {
        lanes r2 = {0};
        multiply_rows(s->planes + i, s->stride, back, d, parts);
        for (int m = 0; m < d * parts; m++)
            r2 += AT(s->planes + m * s->stride + i) * AT(s->planes + m * s->stride + i);
        AT(s->r2 + i) = r2;
        peak = SELECT(r2 > peak, r2, peak);
        zero += 0 * r2;
        total += r2;
    }
    return seen_of(&peak, &zero, &total);
}

/* Bring momenta to rest, and leave their squared lengths in space in r2. */
INLINE Seen rest_rows(const Sample *s, int64_t from, int64_t to, int d)
{
    lanes peak = {0}, zero = {0}, total = {0};
    for (int64_t i = from; i < to; i += LANES) {
        double *row = s->planes + i;
        boost_rows(row, s->stride, &s->boost, d, s->r2 + i);
        lanes r2 = AT(s->r2 + i);
        peak = SELECT(r2 > peak, r2, peak);
        zero += 0 * r2;
        total += r2 + AT(row) * AT(row);
    }
    return seen_of(&peak, &zero, &total);
}

/* Multiply all coordinates by `scale`. */
static Seen scale_rows(const Sample *s, int64_t from, int64_t to)
{
    for (int64_t m = 0; m < s->job->x.d * s->job->x.parts; m++)
        for (int64_t i = from; i < to; i += LANES)
            AT(s->planes + m * s->stride + i) *= s->scale;
    return NOTHING;
}

/* Reflect rows by w, multiply the coordinate that is now canonical by `sign`, and leave in r2 what is left of each row
   behind it. */
INLINE Seen reflect(const Sample *s, int64_t from, int64_t to, int d, int parts)
{
    const int left = d - s->axis;
    const int64_t stride = s->stride;
    const double *w = s->w, scale = s->scale;
    const Number sign = s->sign;
    lanes peak = {0};
    for (int64_t i = from; i < to; i += LANES) {
        double *row = s->planes + s->axis * parts * stride + i;
        lanes re = {0}, im = {0}, rest = {0};
        for (int k = 0; k < left; k++)
            if (parts == 1)
                re += AT(row + k * stride) * w[k];
            else { /* conj(w) x */
                lanes x = AT(row + 2 * k * stride), y = AT(row + (2 * k + 1) * stride);
                re += x * w[2 * k] + y * w[2 * k + 1];
                im += y * w[2 * k] - x * w[2 * k + 1];
            }
        re *= scale;
        im *= scale;
        if (parts == 1)
            AT(row) = sign.re * (AT(row) - re * w[0]);
        else {
            lanes x = AT(row) - (re * w[0] - im * w[1]), y = AT(row + stride) - (re * w[1] + im * w[0]);
            AT(row) = x * sign.re - y * sign.im;
            AT(row + stride) = x * sign.im + y * sign.re;
        }
        for (int k = 1; k < left; k++)
            if (parts == 1) {
                lanes x = AT(row + k * stride) - re * w[k];
                AT(row + k * stride) = x;
                rest += x * x;
            } else {
                lanes x = AT(row + 2 * k * stride) - (re * w[2 * k] - im * w[2 * k + 1]);
                lanes y = AT(row + (2 * k + 1) * stride) - (re * w[2 * k + 1] + im * w[2 * k]);
                AT(row + 2 * k * stride) = x;
                AT(row + (2 * k + 1) * stride) = y;
                rest += x * x + y * y;
            }
        AT(s->r2 + i) = rest;
        peak = SELECT(rest > peak, rest, peak);
    }
    Seen seen = NOTHING;
    seen.peak = largest_of(&peak);
    return seen;
}

/* Multiply the last coordinate by `sign`. */
INLINE void turn(const Sample *s, int64_t from, int64_t to, int d, int parts)
{
    double *last = s->planes + (d - 1) * parts * s->stride;
    for (int64_t i = from; i < to; i += LANES)
        if (parts == 1)
            AT(last + i) *= s->sign.re;
        else {
            lanes x = AT(last + i), y = AT(last + s->stride + i);
            AT(last + i) = x * s->sign.re - y * s->sign.im;
            AT(last + s->stride + i) = x * s->sign.im + y * s->sign.re;
        }
}

/* Write the pose, zero where not determined. */
INLINE void write_rows(const Sample *s, int64_t from, int64_t to, int d, int parts)
{
    const Job *job = s->job;
    int full = s->poison == 0;
    for (int a = 0; a < d; a++)
        full &= job->determined[s->b * d + a];
    for (int64_t tile = from; tile < to; tile += TILE) {
        int64_t end = tile + TILE < to ? tile + TILE : to, packed = full && !job->x.order && __builtin_constant_p(d) ? end - tile : 0;
        packed = end <= s->n ? packed : 0;
        turn(s, tile, end, d, parts);
        write_packed(&job->x, s->b, tile, packed, d * parts, s->planes + tile, s->stride, job->pose);
        for (int m = 0; m < d * parts; m++)
            for (int64_t i = tile + packed; i < end; i += LANES)
                write_plane(&job->x, s->b, i, s->n, m, parts, s->planes + m * s->stride + i,
                            job->determined[s->b * d + m / parts], s->poison, job->pose);
    }
}

/* What is below the rounding of its row becomes zero. */
static Seen drop_rounding(const Sample *s, int64_t from, int64_t to)
{
    Seen seen = NOTHING;
    for (int64_t i = from; i < to && i < s->n; i++) {
        double rounding = s->job->row_floor[place_of(&s->job->x, s->b, i)] + s->uncertain;
        s->r2[i] = s->r2[i] > rounding ? s->r2[i] : 0;
        seen.peak = s->r2[i] > seen.peak ? s->r2[i] : seen.peak;
    }
    return seen;
}

/* Keep the lengths of the rows; those of padding are never the shortest. */
static Seen keep_lengths(const Sample *s, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++)
        s->lengths[i] = i < s->n ? s->r2[i] : INFINITY;
    return NOTHING;
}

/* The first length of the shortest row above the bar. */
FOR_EACH_MACHINE static Seen shortest_above(const Sample *s, int64_t from, int64_t to)
{
    const lanes infinite = (lanes){0} + INFINITY;
    lanes shortest = infinite;
    for (int64_t i = from; i < to; i += LANES) {
        lanes length = SELECT(AT(s->r2 + i) >= s->bar, AT(s->lengths + i), infinite);
        shortest = SELECT(length < shortest, length, shortest);
    }
    Seen seen = NOTHING;
    for (int j = 0; j < LANES; j++)
        seen.shortest = shortest[j] < seen.shortest ? shortest[j] : seen.shortest;
    return seen;
}

/* The first row above the bar that is not too long. */
static Seen choose(const Sample *s, int64_t from, int64_t to)
{
    Seen seen = NOTHING;
    for (int64_t i = from; i < to && i < s->n; i++)
        if (s->r2[i] >= s->bar && (s->at_most == INFINITY || s->lengths[i] <= s->at_most)) {
            seen.several = seen.row < INT64_MAX;
            if (seen.several || !s->job->several) {
                seen.row = seen.several ? seen.row : i;
                break;
            }
            seen.row = i;
        }
    return seen;
}

#define COMMON_CASES(call)                                                                                             \
    if (s->job->x.parts == 2)                                                                                          \
        call((int)s->job->x.d, 2);                                                                                     \
    else if (s->job->x.d == 3)                                                                                         \
        call(3, 1);                                                                                                    \
    else if (s->job->x.d == 4)                                                                                         \
        call(4, 1);                                                                                                    \
    else                                                                                                               \
        call((int)s->job->x.d, 1);

FOR_EACH_MACHINE static Seen sweep_read(const Sample *s, int64_t from, int64_t to)
{
#define CALL(d, parts) return read_rows(s, from, to, d, parts)
    COMMON_CASES(CALL)
#undef CALL
}

FOR_EACH_MACHINE static Seen sweep_whiten(const Sample *s, int64_t from, int64_t to)
{
#define CALL(d, parts) return whiten_rows(s, from, to, d, parts)
    COMMON_CASES(CALL)
#undef CALL
}

FOR_EACH_MACHINE static Seen sweep_rest(const Sample *s, int64_t from, int64_t to)
{
    return s->job->x.d == 4 ? rest_rows(s, from, to, 4) : rest_rows(s, from, to, (int)s->job->x.d);
}

INLINE Seen substitute(const Sample *s, int64_t from, int64_t to, int d)
{
    const double *adjoint = s->job->rest.adjoint + s->b * d * d, *triangle = s->job->rest.triangle + s->b * d * d;
    for (int64_t i = from; i < to; i += LANES)
        substitute_rows(s->planes + i, s->stride, adjoint, triangle, d);
    return NOTHING;
}

FOR_EACH_MACHINE static Seen sweep_substitute(const Sample *s, int64_t from, int64_t to)
{
    return s->job->x.d == 4 ? substitute(s, from, to, 4) : substitute(s, from, to, (int)s->job->x.d);
}

FOR_EACH_MACHINE static void add_up_rows(const Sample *s, double *total)
{
    for (int64_t m = 0; m < s->job->x.d; m++) {
        lanes sum = {0};
        for (int64_t i = 0; i < padded(s->n); i += LANES)
            sum += AT(s->planes + m * s->stride + i);
        total[m] = 0;
        for (int j = 0; j < LANES; j++)
            total[m] += sum[j];
    }
}

FOR_EACH_MACHINE static void scatter(const Sample *s, double *sums)
{
    Planes x = {s->planes, s->stride, padded(s->n)};
#define CALL(d, parts) add_scatter(x, d, parts, sums)
    COMMON_CASES(CALL)
#undef CALL
}

FOR_EACH_MACHINE static Seen sweep_reflect(const Sample *s, int64_t from, int64_t to)
{
#define CALL(d, parts) return reflect(s, from, to, d, parts)
    COMMON_CASES(CALL)
#undef CALL
}

FOR_EACH_MACHINE static Seen sweep_write(const Sample *s, int64_t from, int64_t to)
{
#define CALL(d, parts) write_rows(s, from, to, d, parts)
    COMMON_CASES(CALL)
#undef CALL
    return NOTHING;
}

static void portion_of_rows(void *sample, int64_t k, int member)
{
    Sample *s = sample;
    s->seen[k] = s->sweep(s, k * PORTION, end_of(k, padded(s->n)));
    (void)member;
}

/* Sweep over all rows, and put together what was seen of the portions, in their order, however many threads there are. */
static Seen over_rows(Sample *s, Sweep *sweep)
{
    if (s->n <= PORTION)
        return sweep(s, 0, padded(s->n));
    int64_t portions = portions_of(padded(s->n));
    s->sweep = sweep;
    share(s->crew, portion_of_rows, s, portions, s->backwards);
    s->backwards = !s->backwards;
    Seen all = s->seen[0];
    for (int64_t k = 1; k < portions; k++) {
        const Seen *seen = s->seen + k;
        all.peak = seen->peak > all.peak ? seen->peak : all.peak;
        all.zero += seen->zero;
        all.total += seen->total;
        all.shortest = seen->shortest < all.shortest ? seen->shortest : all.shortest;
        all.several |= seen->several || (seen->row < INT64_MAX && all.row < INT64_MAX);
        all.row = seen->row < all.row ? seen->row : all.row;
    }
    return all;
}

/* ---- One sample */

/* The Euclidean length of count numbers, whose squares may be too large or too small. */
static double length_of(const double *v, int64_t count)
{
    double square = 0, largest = 0;
    for (int64_t k = 0; k < count; k++) {
        square += v[k] * v[k];
        largest = fabs(v[k]) > largest ? fabs(v[k]) : largest;
    }
    if ((square > 1e-290 && square < 1e290) || largest == 0)
        return sqrt(square);
    square = 0;
    for (int64_t k = 0; k < count; k++)
        square += v[k] / largest * (v[k] / largest);
    return largest * sqrt(square);
}

/* The reflection of the chosen row, whose coordinates are in w; there are `left` of them. */
static void set_reflection(Sample *s, int64_t left, int parts)
{
    double *w = s->w, norm = length_of(w, left * parts), speck = s->job->rule.speck;
    if (norm < speck) {
        w[0] = norm = 1;
        if (parts == 2)
            w[1] = 0;
    }
    if (parts == 1) {
        s->sign = (Number){signbit(w[0]) ? 1 : -1, 0};
        w[0] -= s->sign.re * norm;
        s->scale = -s->sign.re / (w[0] * norm);
        return;
    }
    double head = hypot(w[0], w[1]);
    Number phase = head < speck ? (Number){1, 0} : (Number){w[0] / head, w[1] / head};
    s->sign = (Number){-phase.re, phase.im};
    w[0] += phase.re * norm;
    w[1] += phase.im * norm;
    s->scale = 1 / ((head + norm) * norm);
}

/* What makes the last coordinate of the chosen row positive, or the determinant one, if `others` is the product of the
   signs before: each of the d - 1 reflections has determinant -1. */
static Number last_sign(const Sample *s, const double *last, Number others)
{
    if (s->job->special)
        return s->job->x.d % 2 ? (Number){others.re, -others.im} : (Number){-others.re, others.im};
    if (s->job->x.parts == 1)
        return (Number){last[0] < 0 ? -1 : 1, 0};
    double size = hypot(last[0], last[1]);
    return size < s->job->rule.speck ? (Number){1, 0} : (Number){last[0] / size, -last[1] / size};
}

static Number product(Number a, Number b)
{
    return (Number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* The rows of the identity, behind the others. */
static void add_identity(const Sample *s)
{
    int parts = s->job->x.parts;
    for (int64_t m = 0; m < s->job->x.d * parts; m++)
        for (int64_t i = 0; i < padded(s->job->x.d); i++)
            s->planes[m * s->stride + padded(s->n) + i] = i * parts == m;
}

/* The basis is what has become of the identity, conjugated. */
static void write_basis(const Sample *s)
{
    const int64_t d = s->job->x.d, parts = s->job->x.parts;
    double *basis = s->job->basis + s->b * d * d * parts;
    const double *plane = s->planes + padded(s->n);
    for (int64_t m = 0; m < d * parts; m++, plane += s->stride) {
        double sign = parts == 2 && m & 1 ? -1 : 1;
        for (int64_t i = 0; i < d; i++)
            basis[i * d * parts + m] = sign * plane[i] + s->poison;
    }
}

/* A sample with numbers that are not finite: nothing is known. */
static void forget(const Sample *s)
{
    const int64_t d = s->job->x.d;
    for (int64_t at = s->b * d; at < (s->b + 1) * d; at++) {
        s->job->determined[at] = 0;
        if (s->job->positions)
            s->job->positions[at] = 0, s->job->peaks[at] = NAN;
        if (s->job->several)
            s->job->several[at] = 0;
    }
}

/* The number of rows that are not padding. */
static int64_t count_real(const Rows *x, int64_t b, int64_t n)
{
    int64_t count = n;
    if (x->mask)
        for (int64_t i = count = 0; i < n; i++)
            count += is_real(x, b, i) != 0;
    return count;
}

/* Subtract what is left of the mean. */
static void recentre(const Sample *s, double count)
{
    for (int64_t m = 0; m < s->job->x.d * s->job->x.parts; m++) {
        double *plane = s->planes + m * s->stride, mean = 0;
        for (int64_t i = 0; i < s->n; i++)
            mean += plane[i];
        mean /= count;
        for (int64_t i = 0; i < s->n; i++)
            plane[i] -= is_real(&s->job->x, s->b, i) ? mean : 0;
    }
}

/* Make all rows white; 0 if they are too far from it. */
static int whiten(Sample *s, double count, Seen *seen)
{
    const int64_t d = s->job->x.d, parts = s->job->x.parts, size = d * d * parts;
    double *t = s->job->white + s->b * size, *back = s->job->back + s->b * size;
    if (s->job->recentre)
        recentre(s, count);
    scatter(s, t);
    if (!factor(t, d, parts, s->job->least))
        return 0;
    for (int64_t at = 0; at < size; at++)
        t[at] /= sqrt(count);
    invert(t, back, d, parts);
    *seen = over_rows(s, sweep_whiten);
    return seen->zero == 0;
}

/* Bring all rows to rest; 0 if they have no rest frame, or are too long there. */
static int to_rest(Sample *s, Seen *seen)
{
    const Rest *rest = &s->job->rest;
    add_up_rows(s, s->w);
    if (!set_boost(&s->boost, s->w, s->job->x.d, rest->orthochronous))
        return 0;
    sweep_rest(s, padded(s->n), s->stride);
    *seen = over_rows(s, sweep_rest);
    return sqrt(seen->total) <= rest->reach * s->boost.mass;
}

/* Whether what is left for the last axis at rest is more than rounding. */
static int is_ordinary(const Sample *s, double peak)
{
    double speed = s->boost.speed;
    return sqrt(peak) > s->job->rest.share * speed * speed * s->boost.mass;
}

/* Write the element; whether it is slow. If not, the rows, read once more, have their coordinates by substitution. */
static int is_slow(Sample *s)
{
    const int64_t d = s->job->x.d;
    int slow = write_element(&s->job->rest, s->b, d, s->job->basis + s->b * d * d);
    factor_element(&s->job->rest, s->b, d, slow);
    if (!slow) {
        over_rows(s, sweep_read);
        over_rows(s, sweep_substitute);
        s->sign.re = 1;
    }
    return slow;
}

/* The volume of T, to the power 1 / d: under a special group its share for each axis. */
static double edge_of(const Sample *s)
{
    const int64_t d = s->job->x.d, parts = s->job->x.parts;
    double logarithm = 0;
    for (int64_t a = 0; a < d; a++)
        logarithm += log(s->job->white[(s->b * d * d + a * d + a) * parts]);
    return exp(logarithm / (double)d);
}

/* The first row that may be chosen, of all rows. Mostly it is in the first portion, and others are not looked at. */
static Seen first_choice(Sample *s)
{
    Seen first = choose(s, 0, end_of(0, padded(s->n)));
    int settled = first.several || (first.row < INT64_MAX && !s->job->several);
    return settled || s->n <= PORTION ? first : over_rows(s, choose);
}

/* Choose the row for an axis, and leave what is left of its coordinates in w. */
static Seen choose_row(Sample *s, double limit)
{
    const int64_t parts = s->job->x.parts, from = s->axis * parts;
    s->at_most = INFINITY;
    if (s->axis > s->first && limit < INFINITY) /* at first lengths are what is compared with the bar */
        s->at_most = limit * over_rows(s, shortest_above).shortest;
    Seen found = first_choice(s);
    found.row = found.row < INT64_MAX ? found.row : 0;
    for (int64_t m = from; m < s->job->x.d * parts; m++)
        s->w[m - from] = s->planes[m * s->stride + found.row];
    return found;
}

/* Decompose one sample. FINITE and FULL are returned as far as they hold. */
static int decompose(Sample *s)
{
    Job *job = s->job;
    const Rule *rule = &job->rule;
    const int d = (int)job->x.d, parts = job->x.parts;
    double far = job->origin ? length_of(job->origin + s->b * d * parts, d * parts) : 0;
    double floor = job->floor ? job->floor[s->b] : job->noise * far, least = fmax(floor, job->constant_floor);
    double limit = job->limit ? job->limit[s->b] : job->rest.wanted ? job->rest.limit : INFINITY;
    int longest = job->longest ? job->longest[s->b] : rule->tie > 0, full = FULL;
    Seen seen = over_rows(s, sweep_read);
    if (seen.zero != 0 || !s->n) {
        forget(s);
        return 0;
    }
    double count = (double)count_real(&job->x, s->b, s->n);
    if (job->white && !whiten(s, count, &seen))
        return FINITE;
    Number signs = {1, 0};
    if (job->rest.wanted) {
        if (!to_rest(s, &seen))
            return FINITE;
        /* One reflection less is to come than last_sign counts, and a boost along -P_t has determinant -1. */
        signs.re = job->rest.orthochronous ? -1 : -s->boost.forward;
        s->first = 1;
        job->determined[s->b * d] = 1;
        if (job->positions)
            job->positions[s->b * d] = 0, job->peaks[s->b * d] = s->boost.mass * s->boost.mass;
    }
    double equal = 0, bound = 0, mean = seen.total / count;
    for (s->axis = s->first; s->axis < d; s->axis++) {
        if (job->row_floor)
            seen = over_rows(s, drop_rounding);
        double peak = seen.peak;
        if (s->axis == s->first) {
            bound = fmax(peak * rule->of_longest * rule->of_longest, mean * rule->of_mean * rule->of_mean);
            bound = fmax(bound, least * least);
            equal = fmax(rule->tie * sqrt(peak), 2 * floor);
            if (limit < INFINITY)
                over_rows(s, keep_lengths);
        }
        /* rows that are rounding never tie */
        s->bar = longest ? fmax(peak - equal * sqrt(peak), fmin(bound, peak)) : peak * rule->fraction;
        Seen found = choose_row(s, limit);
        if (job->row_floor) {
            double rounding = job->row_floor[place_of(&job->x, s->b, found.row)] + s->uncertain;
            s->uncertain += rounding / fmax(s->r2[found.row], rule->tiny);
        }
        int64_t at = s->b * d + s->axis;
        if (job->positions) {
            job->positions[at] = job->x.order ? place_of(&job->x, s->b, found.row) : found.row;
            job->peaks[at] = peak;
        }
        job->determined[at] = peak > bound;
        full = peak > bound ? full : 0;
        if (job->several)
            job->several[at] = (uint8_t)found.several;
        if (s->axis == d - 1) {
            if (job->rest.wanted && !is_ordinary(s, peak))
                return FINITE;
            break;
        }
        set_reflection(s, d - s->axis, parts);
        signs = product(signs, s->sign);
        sweep_reflect(s, padded(s->n), s->stride);
        seen = over_rows(s, sweep_reflect);
    }
    s->sign = last_sign(s, s->w, signs);
    if (job->white && job->special) {
        s->scale = edge_of(s);
        over_rows(s, scale_rows);
    }
    return FINITE | SERVED | SLOW | full;
}

/* Sample b, in the scratch of a thread. */
static void serve(void *argument, Crew *crew, int64_t b, int member)
{
    Job *job = argument;
    if (job->white && !(job->flags[member].all & SERVED)) /* what was found is not used */
        return;
    int64_t n = size_of(&job->x, b), planes = job->x.d * job->x.parts;
    Sample s = {.job = job, .crew = crew, .b = b, .n = n, .stride = padded(n) + padded(job->x.d)};
    s.planes = job->scratch + member * job->scratch_size;
    s.r2 = s.planes + planes * s.stride;
    s.lengths = s.r2 + s.stride;
    s.w = s.lengths + s.stride;
    s.boost.w = s.w + padded(planes);
    s.boost.form = s.boost.w + padded(planes);
    s.boost.time = s.boost.form + padded(planes);
    s.seen = (Seen *)(s.boost.time + padded(planes));
    add_identity(&s);
    int found = decompose(&s);
    if (job->rest.wanted)
        job->rest.served[b] = (found & SERVED) != 0;
    if ((job->white || job->rest.wanted) && !(found & SERVED)) {
        job->flags[member].all &= found | SLOW;
        return;
    }
    s.poison = found & FINITE ? 0 : NAN;
    turn(&s, padded(n), s.stride, (int)job->x.d, job->x.parts);
    write_basis(&s);
    if (job->rest.wanted && !is_slow(&s))
        found &= ~SLOW;
    over_rows(&s, sweep_write);
    job->flags[member].all &= found;
}

/* Numbers of scratch for a sample of n rows. */
static int64_t scratch_of(const Rows *x, int64_t n)
{
    int64_t planes = x->d * x->parts, portions = n / PORTION + 1;
    return apart((padded(n) + padded(x->d)) * (planes + 2) + 4 * padded(planes) + portions * (int64_t)sizeof(Seen) / 8);
}

/* Choose the rows, relative to an origin, and decompose. What is below `floor`, for each sample, is rounding, or,
   without it, what is below `noise` times the length of the origin.

   With `white`, the rows are made white first. Under a special group the pose then has the volume of the rows. With
   `rest`, they are momenta, and brought to rest first. Where that cannot be done, SERVED is not among the flags that are
   returned; no rows are white then, and those at rest are known of the samples that are `served`. */
static PyObject *pivoted_qr(PyObject *self, PyObject *args)
{
    address origin, floor, limit, row_floor, longest, basis, positions, peaks, determined, several;
    address white, back, linear, adjoint, triangle, served;
    int threads, flags = FINITE | FULL | SERVED | SLOW;
    Job job = {.special = 0};
    if (!PyArg_ParseTuple(args, ROWS_FORMAT "KKddKKK(dddddd)pKKKKKK(KKdp)(ppddddKKKK)i", ROWS_FIELDS(job.x), &origin, &floor, &job.noise,
                          &job.constant_floor, &limit, &row_floor, &longest, &job.rule.fraction, &job.rule.of_longest,
                          &job.rule.of_mean, &job.rule.tie, &job.rule.speck, &job.rule.tiny, &job.special, &job.pose,
                          &basis, &positions, &peaks, &determined, &several, &white, &back, &job.least, &job.recentre,
                          &job.rest.wanted, &job.rest.orthochronous, &job.rest.reach, &job.rest.share, &job.rest.limit,
                          &job.rest.slow, &linear, &adjoint, &triangle, &served, &threads))
        return NULL;
    set_pointers(&job.x);
    job.origin = POINTER(const double, origin);
    job.floor = POINTER(const double, floor);
    job.limit = POINTER(const double, limit);
    job.row_floor = POINTER(const double, row_floor);
    job.longest = POINTER(const uint8_t, longest);
    job.white = POINTER(double, white);
    job.back = POINTER(double, back);
    job.rest.linear = POINTER(double, linear);
    job.rest.adjoint = POINTER(double, adjoint);
    job.rest.triangle = POINTER(double, triangle);
    job.rest.served = POINTER(uint8_t, served);
    job.basis = POINTER(double, basis);
    job.positions = POINTER(int64_t, positions);
    job.peaks = POINTER(double, peaks);
    job.determined = POINTER(uint8_t, determined);
    job.several = POINTER(uint8_t, several);
    threads = possible_threads(threads);
    if (!job.x.samples)
        return PyLong_FromLong(flags);
    int64_t small = job.x.n < LARGE_SAMPLE ? job.x.n : LARGE_SAMPLE;
    job.scratch_size = scratch_of(&job.x, small);
    int64_t size = (threads - 1) * job.scratch_size + scratch_of(&job.x, job.x.n);
    char *memory = PyMem_Malloc(LINE + size * sizeof(double));
    if (!memory)
        return PyErr_NoMemory();
    for (int i = 0; i < threads; i++)
        job.flags[i].all = flags;
    /* the first thread, which also serves large samples, has the last part */
    job.scratch = aligned(memory) + (threads - 1) * job.scratch_size;
    job.scratch_size = -job.scratch_size;
    Py_BEGIN_ALLOW_THREADS
    for_samples(&job.x, serve, &job, threads);
    Py_END_ALLOW_THREADS
    PyMem_Free(memory);
    for (int i = 0; i < threads; i++)
        flags &= job.flags[i].all;
    return PyLong_FromLong(flags);
}

/* ---- Means */

/* A call of `mean`. */
typedef struct {
    Rows x;
    double *mean;
    double *sums; /* scratch of each thread, `sums_size` numbers */
    int64_t sums_size;
} MeanJob;

/* One sample; `sums` are those of its portions. */
typedef struct {
    MeanJob *job;
    int64_t b, n;
    double *mean, *sums;
} MeanSample;

#define MOST_PACKED 4 /* planes of rows that are read together */

/* The sums of the rows of a portion, relative to the mean so far, one for each plane. */
INLINE void add_planes(const MeanSample *s, int64_t k, int planes)
{
    const Rows *x = &s->job->x;
    int64_t to = end_of(k, s->n), i = k * PORTION;
    lanes tile[MOST_PACKED * TILE / LANES], sums[MOST_PACKED] = {{0}};
    for (int64_t rows; (rows = packed_rows(x, i, i + TILE < to ? i + TILE : to, s->n, planes)) > 0; i += rows) {
        read_packed(x, s->b, i, rows, planes, s->mean, (double *)tile, TILE);
        for (int m = 0; m < planes; m++)
            for (int64_t j = 0; j < rows / LANES; j++)
                sums[m] += tile[m * TILE / LANES + j];
    }
    for (int m = 0; m < planes; m++) {
        lanes sum = {0}, values = {0};
        if (i > k * PORTION)
            sum = sums[m];
        for (int64_t j = i; j < to; j += LANES) {
            read_plane(x, s->b, j, s->n, m, x->parts, s->mean[m], (double *)&values);
            sum += values;
        }
        double total = 0;
        for (int j = 0; j < LANES; j++)
            total += sum[j];
        s->sums[k * planes + m] = total;
    }
}

FOR_EACH_MACHINE static void add_up(const MeanSample *s, int64_t k)
{
    int planes = (int)s->job->x.d * s->job->x.parts;
    if (planes == 3)
        add_planes(s, k, 3);
    else if (planes == 4)
        add_planes(s, k, 4);
    else
        add_planes(s, k, planes);
}

static void portion_of_mean(void *sample, int64_t k, int member)
{
    add_up(sample, k);
    (void)member;
}

/* The mean of sample b. A sum of float32 numbers is exact, or as good as that. Of float64 numbers a second pass makes
   coincident rows come out as their mean. */
static void serve_mean(void *argument, Crew *crew, int64_t b, int member)
{
    MeanJob *job = argument;
    int64_t n = size_of(&job->x, b), planes = job->x.d * job->x.parts, portions = portions_of(n);
    MeanSample s = {job, b, n, job->mean + b * planes, job->sums + member * job->sums_size};
    double count = (double)count_real(&job->x, b, n);
    for (int64_t m = 0; m < planes; m++)
        s.mean[m] = 0;
    for (int pass = 0; pass < 1 + job->x.is_double; pass++) {
        share(crew, portion_of_mean, &s, portions, pass);
        for (int64_t m = 0; m < planes; m++) {
            double sum = 0;
            for (int64_t k = 0; k < portions; k++)
                sum += s.sums[k * planes + m];
            s.mean[m] += sum / count;
        }
    }
}

/* The mean of the rows of each sample. */
static PyObject *mean(PyObject *self, PyObject *args)
{
    address result;
    int threads;
    MeanJob job;
    if (!PyArg_ParseTuple(args, ROWS_FORMAT "Ki", ROWS_FIELDS(job.x), &result, &threads))
        return NULL;
    set_pointers(&job.x);
    threads = possible_threads(threads);
    job.mean = POINTER(double, result);
    job.sums_size = apart((job.x.n / PORTION + 1) * job.x.d * job.x.parts);
    void *memory = PyMem_Malloc(LINE + threads * job.sums_size * sizeof(double));
    if (!memory)
        return PyErr_NoMemory();
    job.sums = aligned(memory);
    Py_BEGIN_ALLOW_THREADS
    for_samples(&job.x, serve_mean, &job, threads);
    Py_END_ALLOW_THREADS
    PyMem_Free(memory);
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
