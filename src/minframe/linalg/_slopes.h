/* Derivatives of the weight and the basis of one pose, for real numbers and for complex ones; see _slopes.c.

   NUMBER is the type, REAL its real part, NAMED the name of what is made for it. All functions are analytic, and decide
   by real parts alone. */

/* What one step weighs its rows by: powers h of lengths, their sum, and the sums that the weight is made of. */
typedef struct {
    NUMBER *h, sum, square, total, weight;
} NAMED(Step);

/* Room for one pose of a sample of n rows; each array has n * d numbers, or what is said. */
typedef struct {
    NUMBER *y, *z, *gy, *gz;
    NUMBER *q, *t, *gq, *m; /* d * d */
    NUMBER *power, *gp; /* n * d, n */
    NAMED(Step) *step; /* d */
} NAMED(Room);

static NUMBER NAMED(power)(NUMBER base, double exponent)
{
    if (exponent != floor(exponent) || exponent > 1024)
        return POWER(base, exponent);
    NUMBER result = 1;
    for (unsigned n = (unsigned)exponent; n; n >>= 1) {
        if (n & 1)
            result *= base;
        base *= base;
    }
    return result;
}

static NUMBER NAMED(ramp)(NUMBER t, const Rule *rule, NUMBER *slope)
{
    *slope = 0;
    if (!(REAL(t) > rule->cut_width))
        return 0;
    int within = REAL(t) < 1 - rule->cut_width;
    NUMBER inside = within ? t : 1 - rule->cut_width, rest = 1 - inside, both = inside * rest;
    NUMBER e = EXP(-(inside - rest) / both * rule->flatness), value = 1 / (1 + e);
    if (within) /* e value^2 = value (1 - value), without the difference */
        *slope = e * value * value * rule->flatness * (1 - 2 * both) / (both * both);
    return value;
}

/* The weight of row `chosen` by the lengths of the coordinates z from k on. */
static void NAMED(weigh)(NAMED(Room) *r, const Pose *pose, Py_ssize_t k, const Rule *rule)
{
    Py_ssize_t d = pose->d, n = pose->n;
    NAMED(Step) *step = r->step + k;
    NUMBER slope;
    double peak = rule->tiny, exponent = rule->sharpness / 2;
    step->h = r->power + k * n;
    for (Py_ssize_t i = 0; i < n; i++) {
        step->h[i] = 0;
        for (Py_ssize_t j = k; j < d; j++)
            step->h[i] += r->z[i * d + j] * r->z[i * d + j];
        peak = REAL(step->h[i]) > peak ? REAL(step->h[i]) : peak;
    }
    double bar = peak * pow(NEGLIGIBLE, 1 / exponent);
    step->sum = step->square = step->total = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        step->h[i] = REAL(step->h[i]) < bar ? 0 : NAMED(power)(step->h[i] / peak, exponent);
        step->sum += step->h[i];
    }
    for (Py_ssize_t i = 0; i < n; i++)
        step->square += step->h[i] * step->h[i] / (step->sum * step->sum);
    for (Py_ssize_t i = 0; i < n; i++)
        if (REAL(step->h[i]) != 0) {
            NUMBER p = step->h[i] / step->sum;
            step->total += p * NAMED(ramp)(2 * p / step->square - 1, rule, &slope);
        }
    NUMBER p = step->h[pose->chosen[k]] / step->sum;
    step->weight = p * NAMED(ramp)(2 * p / step->square - 1, rule, &slope) / step->total;
}

/* Adds to gz what the weight of step k has for gradient, times g. With p = h / sum, s = sum_j p_j^2, u = p ramp(2 p / s
   - 1) and w = u_chosen / total, from the last to the first. */
static void NAMED(weigh_back)(NAMED(Room) *r, const Pose *pose, Py_ssize_t k, NUMBER g, const Rule *rule)
{
    Py_ssize_t d = pose->d, n = pose->n;
    NAMED(Step) *step = r->step + k;
    NUMBER slope, gs = 0, mean = 0, s = step->square;
    for (Py_ssize_t i = 0; i < n; i++) {
        r->gp[i] = 0;
        if (REAL(step->h[i]) == 0)
            continue;
        NUMBER p = step->h[i] / step->sum, value = NAMED(ramp)(2 * p / s - 1, rule, &slope);
        NUMBER gu = g * ((i == pose->chosen[k]) - step->weight) / step->total;
        r->gp[i] = gu * (value + 2 * p / s * slope);
        gs -= gu * 2 * p * p / (s * s) * slope;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        r->gp[i] += gs * 2 * step->h[i] / step->sum;
        mean += r->gp[i] * step->h[i] / step->sum;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        if (REAL(step->h[i]) == 0)
            continue;
        NUMBER r2 = 0, *z = r->z + i * d, *gz = r->gz + i * d;
        for (Py_ssize_t j = k; j < d; j++)
            r2 += z[j] * z[j];
        NUMBER gr2 = (r->gp[i] - mean) / step->sum * (rule->sharpness / 2) * step->h[i] / r2;
        for (Py_ssize_t j = k; j < d; j++)
            gz[j] += 2 * z[j] * gr2;
    }
}

/* The weight of the sign of the last axis; with g, adds its gradient to gz. */
static NUMBER NAMED(weigh_sign)(NAMED(Room) *r, const Pose *pose, const NUMBER *g, const Rule *rule)
{
    Py_ssize_t d = pose->d, n = pose->n;
    double peak = 0, b = fmax(rule->sharpness / 4, 5), bar = pow(NEGLIGIBLE, 1 / b);
    NUMBER odd = 0, square = 0, slope, *f = r->gp;
    for (Py_ssize_t i = 0; i < n; i++)
        peak = fmax(peak, fabs(REAL(r->z[(i + 1) * d - 1])));
    if (peak == 0)
        return 0.5;
    for (Py_ssize_t i = 0; i < n; i++) {
        NUMBER z = r->z[(i + 1) * d - 1] / peak;
        double sign = REAL(z) < 0 ? -1 : 1;
        f[i] = fabs(REAL(z)) < bar ? 0 : NAMED(power)(sign * z, b);
        odd += sign * f[i];
        square += f[i] * f[i];
    }
    NUMBER root = SQRT(square), value = NAMED(ramp)((1 + rule->sign_slope * odd / root) / 2, rule, &slope);
    for (Py_ssize_t i = 0; g && i < n; i++) {
        NUMBER z = r->z[(i + 1) * d - 1];
        double sign = REAL(z) < 0 ? -1 : 1;
        if (REAL(f[i]) != 0)
            r->gz[(i + 1) * d - 1] +=
                *g * slope / 2 * rule->sign_slope * (sign - odd * f[i] / square) / root * b * f[i] / z;
    }
    return value;
}

/* The axes q of the pose in its own coordinates, by Gram and Schmidt, and the coefficients t of the chosen rows. Axes
   that no row carries are as near as possible to what they are. */
static void NAMED(axes)(NAMED(Room) *r, const Pose *pose)
{
    Py_ssize_t d = pose->d;
    for (Py_ssize_t k = 0; k < d; k++) {
        NUMBER *q = r->q + k * d, *t = r->t + k * d, norm2 = 0;
        int carried = k < d - 1 && !pose->gone[k];
        for (Py_ssize_t j = 0; j < d; j++)
            q[j] = carried ? r->y[pose->chosen[k] * d + j] : j == k;
        for (Py_ssize_t m = 0; m < k; m++) {
            t[m] = 0;
            for (Py_ssize_t j = 0; j < d; j++)
                t[m] += q[j] * r->q[m * d + j];
            for (Py_ssize_t j = 0; j < d; j++)
                q[j] -= t[m] * r->q[m * d + j];
        }
        for (Py_ssize_t j = 0; j < d; j++)
            norm2 += q[j] * q[j];
        t[k] = SQRT(norm2);
        for (Py_ssize_t j = 0; j < d; j++)
            q[j] /= t[k];
    }
}

/* From the gradient gq of the axes to that of the rows. They change by dq_m = sum_j q_j W_jm with W antisymmetric, and
   row k is sum_(m <= k) t_km q_m, so that for j > k

       W_jk t_kk = q_j . dv_k - sum_(m < k) t_km W_jm,

   which is solved here from the last unknown to the first. */
static void NAMED(axes_back)(NAMED(Room) *r, const Pose *pose)
{
    Py_ssize_t d = pose->d;
    for (Py_ssize_t j = 0; j < d; j++)
        for (Py_ssize_t k = 0; k < j; k++) {
            NUMBER a = 0;
            for (Py_ssize_t i = 0; i < d; i++)
                a += r->q[j * d + i] * r->gq[k * d + i] - r->q[k * d + i] * r->gq[j * d + i];
            r->m[j * d + k] = a;
        }
    for (Py_ssize_t k = d - 2; k >= 0; k--)
        for (Py_ssize_t j = k + 1; j < d; j++) {
            NUMBER a = r->m[j * d + k] / r->t[k * d + k];
            for (Py_ssize_t i = 0; i < d && !pose->gone[k]; i++)
                r->gy[pose->chosen[k] * d + i] += a * r->q[j * d + i];
            for (Py_ssize_t m = 0; m < k; m++)
                r->m[j * d + m] -= r->t[k * d + m] * a;
        }
}

/* gy, the gradient of gw * weight + <gq, q> with respect to the rows y, all in coordinates of the pose; the weight. */
static NUMBER NAMED(pose_slope)(NAMED(Room) *r, const Pose *pose, double gw, const Rule *rule)
{
    Py_ssize_t d = pose->d, n = pose->n;
    NUMBER weight = 1, sign = 1;
    NAMED(axes)(r, pose);
    memset(r->gy, 0, n * d * sizeof(NUMBER));
    if (!pose->alone) {
        memset(r->gz, 0, n * d * sizeof(NUMBER));
        for (Py_ssize_t i = 0; i < n; i++)
            for (Py_ssize_t j = 0; j < d; j++) {
                NUMBER z = 0;
                for (Py_ssize_t m = 0; m < d; m++)
                    z += r->y[i * d + m] * r->q[j * d + m];
                r->z[i * d + j] = z;
            }
        for (Py_ssize_t k = 0; k < d - 1; k++)
            if (!pose->gone[k]) {
                NAMED(weigh)(r, pose, k, rule);
                weight *= r->step[k].weight;
            }
        if (!rule->special && !pose->gone[d - 1])
            sign = NAMED(weigh_sign)(r, pose, NULL, rule);
        for (Py_ssize_t k = 0; k < d - 1; k++)
            if (!pose->gone[k])
                NAMED(weigh_back)(r, pose, k, gw * sign * weight / r->step[k].weight, rule);
        NUMBER g = gw * weight;
        if (!rule->special && !pose->gone[d - 1])
            NAMED(weigh_sign)(r, pose, &g, rule);
        for (Py_ssize_t i = 0; i < n; i++)
            for (Py_ssize_t j = 0; j < d; j++) {
                NUMBER gz = r->gz[i * d + j];
                if (gz != 0)
                    for (Py_ssize_t m = 0; m < d; m++) {
                        r->gy[i * d + m] += gz * r->q[j * d + m];
                        r->gq[j * d + m] += gz * r->y[i * d + m];
                    }
            }
    }
    NAMED(axes_back)(r, pose);
    return weight * sign;
}

static int NAMED(make_room)(NAMED(Room) *r, Py_ssize_t n, Py_ssize_t d)
{
    memset(r, 0, sizeof(*r));
    r->y = PyMem_Malloc((5 * n * d + 4 * d * d + n) * sizeof(NUMBER));
    r->step = PyMem_Malloc(d * sizeof(NAMED(Step)));
    if (!r->y || !r->step)
        return 0;
    r->z = r->y + n * d;
    r->gy = r->z + n * d;
    r->gz = r->gy + n * d;
    r->power = r->gz + n * d;
    r->gp = r->power + n * d;
    r->q = r->gp + n;
    r->t = r->q + d * d;
    r->gq = r->t + d * d;
    r->m = r->gq + d * d;
    return 1;
}

static void NAMED(free_room)(NAMED(Room) *r)
{
    PyMem_Free(r->y);
    PyMem_Free(r->step);
}

/* The rows of a pose in its own coordinates, y = (x + i STEP v) b / scale, and the gradient gq = b^T gb of its axes. */
static void NAMED(enter)(NAMED(Room) *r, const Pose *pose, const double *x, const double *v, const double *gb)
{
    Py_ssize_t d = pose->d;
    for (Py_ssize_t i = 0; i < pose->n; i++)
        for (Py_ssize_t j = 0; j < d; j++) {
            double value = 0, along = 0;
            for (Py_ssize_t m = 0; m < d; m++) {
                double b = pose->basis[m * d + j] / pose->scale;
                value += x[pose->rows[i] * d + m] * b;
                along += v ? v[pose->rows[i] * d + m] * b : 0;
            }
            r->y[i * d + j] = WITH_TANGENT(value, along);
        }
    for (Py_ssize_t k = 0; k < d; k++)
        for (Py_ssize_t j = 0; j < d; j++) {
            r->gq[k * d + j] = 0;
            for (Py_ssize_t m = 0; m < d; m++)
                r->gq[k * d + j] += pose->basis[m * d + j] * gb[m * d + k];
        }
}
