/* Canonical orders and orbits of a batch of graphs, one graph after the other.

   The algorithms are described in refine.py (colours), residual.py (pieces) and pieces.py (how they are put in
   order); the names are the same, and so are the results, bit by bit. Tensors come as the addresses of contiguous int64
   numbers, unless stated otherwise; 0 stands for None. Pieces that are not rigid are passed to a Python function. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long address;
typedef Py_ssize_t size;

#define POINTER(type, a) ((type *)(uintptr_t)(a))

static const uint64_t SEED = (uint64_t)-7046029254386353131LL;
static const uint64_t MIX[2] = {(uint64_t)-4658895280553007687LL, (uint64_t)-7723592293110705685LL};

#define A_BITS 24
#define B_BITS 14
#define KEY_BITS 40

/* What is reported about the graphs of a batch, as bits: */
#define TIED 1       /* refinement leaves ties in one of them */
#define PIECES 2     /* and one has pieces, that is, not all permutations of each cell are automorphisms */
#define UNFINISHED 4 /* orbits lack the automorphisms of some piece, as no function for generators was given; the first
                        node of each graph that lacks them has the orbit -1 */
#define SYMMETRIC 8  /* an orbit that was found has several nodes */

static uint64_t scramble(uint64_t x)
{
    x *= SEED;
    x = (x ^ (x >> 30)) * MIX[0];
    x = (x ^ (x >> 27)) * MIX[1];
    return x ^ (x >> 31);
}

static uint64_t bits(uint64_t x, int start, int count) { return x >> start & (((uint64_t)1 << count) - 1); }

static uint64_t edge_weight(int64_t forth, int64_t back)
{
    return bits(scramble(scramble((uint64_t)forth) + (uint64_t)back), 40, A_BITS) | 1;
}

/* An arc from a node to `target`; see arcs.py. After renaming, `forth` is the code. */
typedef struct {
    int64_t source, target, forth, back;
} Arc;

typedef struct {
    int64_t key, second;
    size item;
} Keyed;

static int by_key(const void *a, const void *b)
{
    const Keyed *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->second != y->second)
        return x->second < y->second ? -1 : 1;
    return (x->item > y->item) - (x->item < y->item);
}

/* Sorted by key, second key and item, which makes it stable. */
static void sort_keyed(Keyed *x, size n)
{
    if (n > 48) {
        qsort(x, n, sizeof *x, by_key);
        return;
    }
    for (size i = 1; i < n; i++) {
        Keyed one = x[i];
        size j = i;
        for (; j && by_key(&one, &x[j - 1]) < 0; j--)
            x[j] = x[j - 1];
        x[j] = one;
    }
}

/* Working memory for one graph; all arrays are as large as the largest graph. */
typedef struct {
    size n, arcs;
    int64_t *colour, *loop, *cell, *cell_size;
    size *start;         /* of the arcs of each node, n + 1 */
    Arc *arc;            /* node by node */
    uint64_t *weight;    /* of each arc */
    Keyed *keyed;        /* of nodes or arcs */
    Arc *left;           /* renamed arcs */
    size left_count;
    size *parent;        /* of nodes: components, then orbits */
    size *piece;         /* of nodes in pieces: the number of the piece, or -1 */
    size *member;        /* nodes of pieces, piece by piece */
    size *piece_start;   /* P + 1 */
    size *arc_start;     /* of the renamed arcs of each piece, P + 1 */
    size *place;         /* of nodes: within their piece */
    int64_t *local;      /* colours of the nodes of pieces */
    int64_t *form;       /* renamed arcs of pieces as numbers, canonical */
    size *ranked, *rank; /* pieces in order; place of each */
    size *item, *spare;  /* numbers of arcs to sort, and room for it */
    size pieces;
} Graph;

static void refine(Graph *g, int64_t rounds)
{
    size n = g->n;
    for (size i = 0; i < n; i++)
        g->keyed[i] = (Keyed){g->colour[i], g->loop[i], i};
    sort_keyed(g->keyed, n);
    size classes = 0;
    for (size k = 0, first = 0; k < n; k++) {
        Keyed *x = g->keyed;
        if (!k || x[k].key != x[k - 1].key || x[k].second != x[k - 1].second) {
            first = k;
            classes++;
        }
        g->cell[x[k].item] = first;
    }
    for (size a = 0; classes < n && a < g->arcs; a++)
        g->weight[a] = edge_weight(g->arc[a].forth, g->arc[a].back);
    for (int64_t done = 0; classes < n && (rounds < 0 || done < rounds); done++) {
        size tied = 0;
        for (size i = 0; i < n; i++)
            g->cell_size[i] = 0;
        for (size i = 0; i < n; i++)
            g->cell_size[g->cell[i]]++;
        for (size i = 0; i < n; i++) {
            if (g->cell_size[g->cell[i]] == 1)
                continue;
            uint64_t first = 0, second = 0;
            for (size a = g->start[i]; a < g->start[i + 1]; a++) {
                uint64_t code = scramble((uint64_t)g->cell[g->arc[a].target] + 1);
                first += g->weight[a] * (bits(code, 48, B_BITS) | 1);
                second += g->weight[a] * (bits(code, 32, B_BITS) | 1);
            }
            int64_t seen = (int64_t)bits(first * MIX[0] + second * MIX[1], 23, KEY_BITS);
            g->keyed[tied++] = (Keyed){g->cell[i], seen, i};
        }
        sort_keyed(g->keyed, tied);
        size before = classes;
        for (size k = 0; k < tied;) {
            int64_t old = g->keyed[k].key;
            size begin = k, first = k;
            for (; k < tied && g->keyed[k].key == old; k++) {
                if (k > begin && g->keyed[k].second != g->keyed[k - 1].second) {
                    first = k;
                    classes++;
                }
                g->cell[g->keyed[k].item] = old + (int64_t)(first - begin);
            }
        }
        if (classes == before)
            break;
    }
    for (size i = 0; i < n; i++)
        g->cell_size[i] = 0;
    for (size i = 0; i < n; i++)
        g->cell_size[g->cell[i]]++;
}

/* How two items compare, by their numbers: arcs of `left`, or pieces. */
typedef int (*Comparison)(const Graph *g, size a, size b);

/* Items in stable order, by merging; `spare` has as much room. */
static void sort_items(size *items, size *spare, size n, Comparison compare, const Graph *g)
{
    if (n < 12) {
        for (size i = 1; i < n; i++) {
            size one = items[i], j = i;
            for (; j && compare(g, items[j - 1], one) > 0; j--)
                items[j] = items[j - 1];
            items[j] = one;
        }
        return;
    }
    size half = n / 2, i = 0, j = half, k = 0;
    sort_items(items, spare, half, compare, g);
    sort_items(items + half, spare, n - half, compare, g);
    memcpy(spare, items, half * sizeof(size));
    while (i < half && j < n)
        items[k++] = compare(g, spare[i], items[j]) <= 0 ? spare[i++] : items[j++];
    while (i < half)
        items[k++] = spare[i++];
}

static int compare_blocks(const Graph *g, size a, size b)
{
    const Arc *x = &g->arc[a], *y = &g->arc[b];
    int64_t p = g->cell[x->source], q = g->cell[y->source];
    if (p != q)
        return p < q ? -1 : 1;
    p = g->cell[x->target], q = g->cell[y->target];
    if (p != q)
        return p < q ? -1 : 1;
    if (x->forth != y->forth)
        return x->forth < y->forth ? -1 : 1;
    return (x->back > y->back) - (x->back < y->back);
}

static int same_colour(const Arc *x, const Arc *y) { return x->forth == y->forth && x->back == y->back; }

/* The renamed graph: `left` are its arcs, in both directions, with the code in place of `forth`. */
static void rename_arcs(Graph *g)
{
    size count = 0;
    g->left_count = 0;
    for (size a = 0; a < g->arcs; a++) {
        int64_t p = g->cell[g->arc[a].source], q = g->cell[g->arc[a].target];
        if (p == q || (p < q && (g->cell_size[p] > 1 || g->cell_size[q] > 1))) /* else the block has a single pair */
            g->item[count++] = a;
    }
    sort_items(g->item, g->spare, count, compare_blocks, g);
    for (size first = 0, next; first < count; first = next) {
        const Arc *one = &g->arc[g->item[first]];
        int64_t p = g->cell[one->source], q = g->cell[one->target];
        int64_t capacity = g->cell_size[p] * (g->cell_size[q] - (p == q));
        size colours = 0;
        for (next = first; next < count; next++) {
            const Arc *x = &g->arc[g->item[next]];
            if (g->cell[x->source] != p || g->cell[x->target] != q)
                break;
            if (next == first || !same_colour(x, &g->arc[g->item[next - 1]]))
                g->keyed[colours++] = (Keyed){0, 0, next};
            g->keyed[colours - 1].key--; /* minus how often it occurs: frequent colours come first, then small ones */
        }
        int64_t code = (int64_t)(next - first) < capacity; /* the absence of an edge is 0, if some pair has none */
        sort_keyed(g->keyed, colours);
        for (size k = 0; k < colours; k++, code++)
            for (size a = g->keyed[k].item, end = a - (size)g->keyed[k].key; code && a < end; a++) {
                const Arc *x = &g->arc[g->item[a]];
                g->left[g->left_count++] = (Arc){x->source, x->target, code, 0};
                if (p != q)
                    g->left[g->left_count++] = (Arc){x->target, x->source, code, 0};
            }
    }
}

static size root(size *parent, size i)
{
    while (parent[i] != i)
        i = parent[i] = parent[parent[i]];
    return i;
}

/* The smaller one becomes the root. */
static void join(size *parent, size i, size j)
{
    i = root(parent, i);
    j = root(parent, j);
    if (i < j)
        parent[j] = i;
    else
        parent[i] = j;
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Divide the renamed graph into pieces, whose nodes are in the order of their cells and whose arcs are numbers. */
static int64_t cut(Graph *g)
{
    size n = g->n, members = 0;
    int64_t base = 1;
    for (size i = 0; i < n; i++) {
        g->parent[i] = i;
        g->piece[i] = -1;
        g->local[i] = 0; /* here: whether a cell is touched */
    }
    for (size a = 0; a < g->left_count; a++) {
        g->local[g->cell[g->left[a].source]] = 1;
        join(g->parent, (size)g->left[a].source, (size)g->left[a].target);
        base = g->left[a].forth >= base ? g->left[a].forth + 1 : base;
    }
    g->pieces = 0;
    for (size i = 0; i < n; i++)
        if (g->local[g->cell[i]]) {
            size first = root(g->parent, i);
            if (first == i)
                g->piece[i] = g->pieces++;
            g->keyed[members++] = (Keyed){(int64_t)g->piece[first], g->cell[i], i};
        }
    sort_keyed(g->keyed, members);
    for (size k = 0; k < members; k++) {
        size i = g->keyed[k].item, p = (size)g->keyed[k].key;
        g->member[k] = i;
        g->piece[i] = p;
        if (!k || g->keyed[k - 1].key != g->keyed[k].key) {
            g->piece_start[p] = k;
            g->local[k] = 0;
        } else
            g->local[k] = g->local[k - 1] + (g->keyed[k - 1].second != g->keyed[k].second);
        g->place[i] = k - g->piece_start[p];
    }
    g->piece_start[g->pieces] = members;
    for (size p = 0; p <= g->pieces; p++)
        g->arc_start[p] = 0;
    for (size a = 0; a < g->left_count; a++)
        g->arc_start[g->piece[g->left[a].source] + 1]++;
    for (size p = 0; p < g->pieces; p++)
        g->arc_start[p + 1] += g->arc_start[p];
    for (size p = 0; p < g->pieces; p++)
        g->rank[p] = g->arc_start[p];
    for (size a = 0; a < g->left_count; a++) {
        Arc *x = &g->left[a];
        size p = g->piece[x->source];
        int64_t m = (int64_t)(g->piece_start[p + 1] - g->piece_start[p]);
        g->form[g->rank[p]++] = ((int64_t)g->place[x->source] * m + (int64_t)g->place[x->target]) * base + x->forth;
    }
    for (size p = 0; p < g->pieces; p++)
        qsort(g->form + g->arc_start[p], g->arc_start[p + 1] - g->arc_start[p], sizeof(int64_t), by_number);
    return base;
}

/* Call Python for a piece that is not rigid; returns a new reference. */
static PyObject *asked(PyObject *ask, Graph *g, size p, int64_t base)
{
    size m = g->piece_start[p + 1] - g->piece_start[p], arcs = g->arc_start[p + 1] - g->arc_start[p];
    return PyObject_CallFunction(ask, "y#y#L", (char *)(g->local + g->piece_start[p]), (size)(m * sizeof(int64_t)),
                                 (char *)(g->form + g->arc_start[p]), (size)(arcs * sizeof(int64_t)), (long long)base);
}

static int is_rigid(Graph *g, size p)
{
    size end = g->piece_start[p + 1];
    return g->local[end - 1] == (int64_t)(end - g->piece_start[p] - 1);
}

/* One number of a list of integers below n, or -1 with an error set. */
static size entry(PyObject *list, size k, size n)
{
    PyObject *item = PySequence_GetItem(list, k);
    size value = item ? PyLong_AsSsize_t(item) : -1;
    Py_XDECREF(item);
    if (value >= n || (value < 0 && !PyErr_Occurred()))
        PyErr_SetString(PyExc_RuntimeError, "a labelling library answered with a node that does not exist");
    return value < n ? value : -1;
}

/* Bring a piece into the canonical order that Python returns. */
static int settle(PyObject *ask, Graph *g, size p, int64_t base)
{
    size first = g->piece_start[p], m = g->piece_start[p + 1] - first;
    PyObject *order = asked(ask, g, p, base);
    if (!order)
        return -1;
    for (size k = 0; k < m; k++) {
        size at = entry(order, k, m);
        if (at < 0) {
            Py_DECREF(order);
            return -1;
        }
        g->keyed[k] = (Keyed){0, 0, g->member[first + at]};
        g->ranked[at] = k; /* here: the canonical position of a node */
    }
    Py_DECREF(order);
    for (size k = 0; k < m; k++)
        g->member[first + k] = g->keyed[k].item;
    for (size a = g->arc_start[p]; a < g->arc_start[p + 1]; a++) {
        int64_t pair = g->form[a] / base, code = g->form[a] % base;
        int64_t i = (int64_t)g->ranked[pair / (int64_t)m], j = (int64_t)g->ranked[pair % (int64_t)m];
        g->form[a] = (i * (int64_t)m + j) * base + code;
    }
    qsort(g->form + g->arc_start[p], g->arc_start[p + 1] - g->arc_start[p], sizeof(int64_t), by_number);
    return 0;
}

/* Pieces by the cells of their nodes, then by their form. */
static int compare_pieces(const Graph *g, size p, size q)
{
    size i = g->piece_start[p], j = g->piece_start[q], i_end = g->piece_start[p + 1], j_end = g->piece_start[q + 1];
    for (; i < i_end && j < j_end; i++, j++) {
        int64_t c = g->cell[g->member[i]], d = g->cell[g->member[j]];
        if (c != d)
            return c < d ? -1 : 1;
    }
    if (i < i_end || j < j_end)
        return i < i_end ? 1 : -1;
    for (i = g->arc_start[p], j = g->arc_start[q]; i < g->arc_start[p + 1] && j < g->arc_start[q + 1]; i++, j++)
        if (g->form[i] != g->form[j])
            return g->form[i] < g->form[j] ? -1 : 1;
    return (i < g->arc_start[p + 1]) - (j < g->arc_start[q + 1]);
}

/* The pieces in canonical order, as `ranked`. */
static void rank_pieces(Graph *g)
{
    for (size p = 0; p < g->pieces; p++)
        g->ranked[p] = p;
    sort_items(g->ranked, g->spare, g->pieces, compare_pieces, g);
}

/* Orbits, as `parent`: loose cells, equal pieces, and the generators from Python of pieces that are not rigid.

   `generators` answers with pairs of lists: the nodes of the piece that move, as numbered in it, and where to. By now
   `member` has the canonical order; the numbering of the piece is by cell, then by node. If it is None, such pieces are
   left out and reported. Returns -1 with an error set. */
static int find_orbits(PyObject *generators, Graph *g, int64_t base, int *report)
{
    size n = g->n;
    for (size i = 0; i < n; i++) {
        g->parent[i] = i;
        g->ranked[g->cell[i]] = i; /* here: a node of each cell */
    }
    for (size i = 0; i < n; i++)
        if (g->piece[i] < 0)
            join(g->parent, i, g->ranked[g->cell[i]]);
    rank_pieces(g);
    for (size k = 1; k < g->pieces; k++) {
        size p = g->ranked[k - 1], q = g->ranked[k];
        if (!compare_pieces(g, p, q))
            for (size i = 0; i < g->piece_start[p + 1] - g->piece_start[p]; i++)
                join(g->parent, g->member[g->piece_start[p] + i], g->member[g->piece_start[q] + i]);
    }
    for (size p = 0; p < g->pieces; p++) {
        if (is_rigid(g, p))
            continue;
        if (generators == Py_None) {
            *report |= UNFINISHED;
            continue;
        }
        /* The form is that of the canonical order, in which colours are those of cells too: a piece like any other. */
        PyObject *found = asked(generators, g, p, base);
        size count = found ? PySequence_Size(found) : -1;
        int failed = count < 0;
        for (size k = 0; k < count && !failed; k++) {
            PyObject *move = PySequence_GetItem(found, k), *points = NULL, *images = NULL;
            if (!move || !(points = PySequence_GetItem(move, 0)) || !(images = PySequence_GetItem(move, 1)))
                failed = 1;
            size moved = failed ? 0 : PySequence_Size(points), m = g->piece_start[p + 1] - g->piece_start[p];
            for (size i = 0; i < moved && !failed; i++) {
                size from = entry(points, i, m), to = from < 0 ? -1 : entry(images, i, m);
                failed = to < 0;
                if (!failed)
                    join(g->parent, g->member[g->piece_start[p] + from], g->member[g->piece_start[p] + to]);
            }
            Py_XDECREF(move);
            Py_XDECREF(points);
            Py_XDECREF(images);
        }
        Py_XDECREF(found);
        if (failed)
            return -1;
    }
    return 0;
}

/* Label one graph, whose `colour`, `loop`, `start` and `arc` are given: its order as `result`, `cell`, and orbits as
   `parent`. Returns -1 with an error set. */
static int label_graph(Graph *g, int64_t rounds, PyObject *order, PyObject *generators, size *result, int *report)
{
    refine(g, rounds);
    size n = g->n;
    int discrete = 1;
    for (size i = 0; i < n && discrete; i++)
        discrete = g->cell_size[i] == 1;
    if (discrete) {
        for (size i = 0; i < n; i++) {
            result[g->cell[i]] = i;
            g->parent[i] = i;
        }
        return 0;
    }
    rename_arcs(g);
    int64_t base = cut(g);
    *report |= g->pieces ? TIED | PIECES : TIED;
    for (size p = 0; p < g->pieces; p++)
        if (!is_rigid(g, p) && settle(order, g, p, base))
            return -1;
    rank_pieces(g);
    for (size k = 0; k < g->pieces; k++)
        g->rank[g->ranked[k]] = k;
    for (size p = 0; p < g->pieces; p++)
        for (size k = g->piece_start[p]; k < g->piece_start[p + 1]; k++)
            g->place[g->member[k]] = k - g->piece_start[p];
    for (size i = 0; i < n; i++) {
        int64_t within = g->piece[i] < 0 ? 0 : (int64_t)(g->rank[g->piece[i]] * n + g->place[i]);
        g->keyed[i] = (Keyed){g->cell[i], within, i};
    }
    sort_keyed(g->keyed, n);
    for (size k = 0; k < n; k++)
        result[k] = g->keyed[k].item;
    if (find_orbits(generators, g, base, report))
        return -1;
    for (size i = 0; i < n; i++)
        *report |= root(g->parent, i) != i ? SYMMETRIC : 0;
    return 0;
}

/* Allocate for graphs with up to n nodes and this many arcs; 0 if memory runs out. */
static int reserve(Graph *g, size n, size arcs)
{
    size most = n > arcs ? n : arcs;
    size numbers = 5 * n + arcs, places = 9 * (n + 1) + 2 * (most + 1);
    char *memory = PyMem_Malloc(numbers * sizeof(int64_t) + places * sizeof(size) + arcs * sizeof(uint64_t) +
                                2 * arcs * sizeof(Arc) + (most + 1) * sizeof(Keyed));
    if (!memory)
        return 0;
    g->keyed = (Keyed *)memory;
    g->arc = (Arc *)(g->keyed + most + 1);
    g->left = g->arc + arcs;
    g->colour = (int64_t *)(g->left + arcs);
    g->loop = g->colour + n;
    g->cell = g->loop + n;
    g->cell_size = g->cell + n;
    g->local = g->cell_size + n;
    g->form = g->local + n;
    g->weight = (uint64_t *)(g->form + arcs);
    g->start = (size *)(g->weight + arcs);
    size **parts[] = {&g->parent, &g->piece, &g->member, &g->piece_start, &g->arc_start, &g->place, &g->rank,
                      &g->ranked};
    size *next = g->start + n + 1;
    for (int k = 0; k < 8; k++, next += n + 1)
        *parts[k] = next;
    g->item = next;
    g->spare = g->item + most + 1;
    return 1;
}

/* Dense graphs: colours (B, n), edges (B, n, n), a mask (B, n) of bytes or 0. Results are (4, B, n): orders, their
   inverses, cells and orbits. `again`: they are those of an earlier call, and graphs that it finished are left as they
   are. Returns the report. */
static PyObject *label_dense(PyObject *self, PyObject *args)
{
    address a_colours, a_edges, a_mask, a_results;
    size count, n;
    int report = 0, again;
    PyObject *order, *generators;
    if (!PyArg_ParseTuple(args, "nnKKKOOKp", &count, &n, &a_colours, &a_edges, &a_mask, &order, &generators, &a_results,
                          &again))
        return NULL;
    Graph g;
    size most = 0;
    for (size b = 0; b < count; b++) {
        const int64_t *e = POINTER(int64_t, a_edges) + b * n * n;
        size entries = 0;
        for (size k = 0; k < n * n; k++)
            entries += e[k] != 0;
        most = 2 * entries > most ? 2 * entries : most; /* each entry is part of at most two arcs */
    }
    size *real = PyMem_Malloc(2 * (n + 1) * sizeof(size));
    if (!real || !reserve(&g, n, most)) {
        PyMem_Free(real);
        return PyErr_NoMemory();
    }
    size *result = real + n + 1;
    for (size b = 0; b < count; b++) {
        const int64_t *e = POINTER(int64_t, a_edges) + b * n * n, *colour = POINTER(int64_t, a_colours) + b * n;
        const uint8_t *mask = a_mask ? POINTER(uint8_t, a_mask) + b * n : NULL;
        int64_t *to = POINTER(int64_t, a_results) + b * n, *back = to + count * n, *cell = back + count * n;
        int64_t *orbit = cell + count * n;
        size m = 0, last;
        for (size i = 0; i < n; i++)
            if (!mask || mask[i])
                real[m++] = i;
        if (again && !(m && orbit[real[0]] < 0))
            continue;
        g.n = m;
        g.arcs = 0;
        for (size i = 0; i < m; i++) {
            g.colour[i] = colour[real[i]];
            g.loop[i] = e[real[i] * n + real[i]];
            g.start[i] = g.arcs;
            for (size j = 0; j < m; j++) {
                int64_t forth = e[real[i] * n + real[j]], back = e[real[j] * n + real[i]];
                if (i != j && (forth || back))
                    g.arc[g.arcs++] = (Arc){(int64_t)i, (int64_t)j, forth, back};
            }
        }
        g.start[m] = g.arcs;
        int found = 0;
        if (label_graph(&g, -1, order, generators, result, &found)) {
            PyMem_Free(real);
            PyMem_Free(g.keyed);
            return NULL;
        }
        last = m;
        for (size i = 0; i < n && mask; i++)
            if (!mask[i]) {
                to[last++] = (int64_t)i;
                cell[i] = (int64_t)m;
                orbit[i] = (int64_t)i;
            }
        for (size k = 0; k < m; k++) {
            to[k] = (int64_t)real[result[k]];
            cell[real[k]] = g.cell[k];
            orbit[real[k]] = (int64_t)real[root(g.parent, k)];
        }
        for (size k = 0; k < n; k++)
            back[to[k]] = (int64_t)k;
        report |= found;
        if (found & UNFINISHED)
            orbit[real[0]] = -1;
    }
    PyMem_Free(real);
    PyMem_Free(g.keyed);
    return PyLong_FromLong(report);
}

/* Numbers 0, ..., count - 1 in the order of their keys, stable: `first` has room for `keys` + 1 numbers, and is left with
   where each key begins. `before`: their order so far; NULL: ascending. */
static void bucket(const int64_t *key, size count, size keys, const size *before, size *first, size *sorted)
{
    memset(first, 0, (keys + 1) * sizeof(size));
    for (size k = 0; k < count; k++)
        first[key[k] + 1]++;
    for (size k = 0; k < keys; k++)
        first[k + 1] += first[k];
    for (size k = 0; k < count; k++) {
        size at = before ? before[k] : k;
        sorted[first[key[at]]++] = at;
    }
    memmove(first + 1, first, keys * sizeof(size));
    first[0] = 0;
}

/* Listed graphs; see `label_sparse` in label.py. Results are (4, n): all nodes in canonical order, its inverse, cells and
   orbits; and (3, e): the edges between canonical numbers, by source and target, and which edge each of them was.
   `again`: see `label_dense`; the edges are left as they are. Returns the report, or -1 if an edge is listed twice. */
static PyObject *label_sparse(PyObject *self, PyObject *args)
{
    address a_colours, a_index, a_edges, a_batch, a_nodes, a_listed;
    size count, n, e;
    long long rounds;
    int report = 0, again;
    PyObject *order, *generators;
    if (!PyArg_ParseTuple(args, "nnnKKKKLOOKKp", &count, &n, &e, &a_colours, &a_index, &a_edges, &a_batch, &rounds,
                          &order, &generators, &a_nodes, &a_listed, &again))
        return NULL;
    const int64_t *source = POINTER(int64_t, a_index), *target = source + e;
    int64_t *to_node = POINTER(int64_t, a_nodes), *position = to_node + n, *cells = position + n, *orbits = cells + n;
    int64_t *listed = POINTER(int64_t, a_listed);
    const int64_t *colours = POINTER(int64_t, a_colours), *edges = POINTER(int64_t, a_edges);
    const int64_t *batch = POINTER(int64_t, a_batch);
    size most = n > e ? n : e, largest = 0, most_arcs = 0, done = 0;
    /* nodes graph by graph; edges by source and target, and by target and source; a spare order; starts of each */
    size *memory = PyMem_Malloc((2 * (n + 1) + 2 * (e + 1) + (most + 1) + 2 * (n + 1) + (count + 1)) * sizeof(size));
    if (!memory)
        return PyErr_NoMemory();
    size *nodes = memory, *local = nodes + n + 1, *out = local + n + 1, *in = out + e + 1, *spare = in + e + 1;
    size *out_start = spare + most + 1, *in_start = out_start + n + 1, *first = in_start + n + 1;
    bucket(target, e, n, NULL, in_start, spare);
    bucket(source, e, n, spare, out_start, out);
    bucket(source, e, n, NULL, in_start, spare);
    bucket(target, e, n, spare, in_start, in);
    if (batch)
        bucket(batch, n, count, NULL, first, nodes);
    else {
        first[0] = 0;
        first[1] = n;
        for (size i = 0; i < n; i++)
            nodes[i] = i;
    }
    int once = 1;
    for (size k = 1; k < e; k++)
        once &= source[out[k]] != source[out[k - 1]] || target[out[k]] != target[out[k - 1]];
    for (size b = 0; b < count; b++) {
        size arcs = 0;
        for (size k = first[b]; k < first[b + 1]; k++) {
            local[nodes[k]] = k - first[b];
            arcs += out_start[nodes[k] + 1] - out_start[nodes[k]] + in_start[nodes[k] + 1] - in_start[nodes[k]];
        }
        largest = first[b + 1] - first[b] > largest ? first[b + 1] - first[b] : largest;
        most_arcs = arcs > most_arcs ? arcs : most_arcs;
    }
    Graph g;
    if (!once || !reserve(&g, largest, most_arcs)) {
        PyMem_Free(memory);
        return once ? PyErr_NoMemory() : PyLong_FromLong(-1);
    }
    for (size b = 0; b < count; b++) {
        const size *mine = nodes + first[b];
        g.n = first[b + 1] - first[b];
        if (again && !(g.n && orbits[mine[0]] < 0)) {
            done += g.n;
            continue;
        }
        g.arcs = 0;
        for (size i = 0; i < g.n; i++) {
            size u = mine[i], forth = out_start[u], back = in_start[u];
            g.colour[i] = colours[u];
            g.loop[i] = 0;
            g.start[i] = g.arcs;
            while (forth < out_start[u + 1] || back < in_start[u + 1]) { /* both are ascending in the other node */
                int64_t to = forth < out_start[u + 1] ? target[out[forth]] : INT64_MAX;
                int64_t from = back < in_start[u + 1] ? source[in[back]] : INT64_MAX, v = to < from ? to : from;
                int64_t there = 0, here = 0;
                if (to == v)
                    there = edges ? edges[out[forth]] : 1, forth++;
                if (from == v)
                    here = edges ? edges[in[back]] : 1, back++;
                if (v == (int64_t)u)
                    g.loop[i] = there;
                else if (there || here)
                    g.arc[g.arcs++] = (Arc){(int64_t)i, (int64_t)local[v], there, here};
            }
        }
        g.start[g.n] = g.arcs;
        int found = 0;
        if (label_graph(&g, rounds, order, generators, spare, &found)) {
            PyMem_Free(memory);
            PyMem_Free(g.keyed);
            return NULL;
        }
        for (size k = 0; k < g.n; k++) {
            position[mine[spare[k]]] = (int64_t)done;
            to_node[done++] = (int64_t)mine[spare[k]];
            cells[mine[k]] = g.cell[k];
            orbits[mine[k]] = (int64_t)mine[root(g.parent, k)];
        }
        report |= found;
        if (found & UNFINISHED)
            orbits[mine[0]] = -1;
    }
    if (again)
        e = 0;
    for (size k = 0; k < e; k++) {
        listed[k] = position[source[k]];
        listed[e + k] = position[target[k]];
    }
    bucket(listed + e, e, n, NULL, in_start, spare);
    bucket(listed, e, n, spare, out_start, out);
    for (size k = 0; k < e; k++) {
        listed[k] = position[source[out[k]]];
        listed[e + k] = position[target[out[k]]];
        listed[2 * e + k] = (int64_t)out[k];
    }
    PyMem_Free(memory);
    PyMem_Free(g.keyed);
    return PyLong_FromLong(report);
}

static PyMethodDef methods[] = {
    {"label_dense", label_dense, METH_VARARGS, "Label graphs given by matrices."},
    {"label_sparse", label_sparse, METH_VARARGS, "Label graphs given by lists of edges."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_graphs", "Canonical orders of graphs, compiled.", -1, methods,
};

PyMODINIT_FUNC PyInit__graphs(void) { return PyModule_Create(&module); }
