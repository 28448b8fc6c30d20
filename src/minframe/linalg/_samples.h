/* Loops over the samples of rows, shared by threads. */

#ifndef MINFRAME_SAMPLES_H
#define MINFRAME_SAMPLES_H

#include "_crew.h"
#include "_rows.h"

#define TILE 64            /* rows that are read before they are worked on */
#define PORTION 4096       /* rows of a large sample that a thread takes at a time */
#define LARGE_SAMPLE 16384 /* rows from which on threads share a sample */

/* Sample b of a job, by thread number `member`; `crew` shares its rows, if not NULL. */
typedef void Serve(void *job, Crew *crew, int64_t b, int member);

typedef struct {
    const Rows *x;
    Serve *serve;
    void *job;
    int64_t at_a_time;
} Samples;

static int is_large(const Rows *x, int64_t b)
{
    return size_of(x, b) >= LARGE_SAMPLE;
}

static void some_samples(void *argument, int64_t k, int member)
{
    Samples *all = argument;
    int64_t end = (k + 1) * all->at_a_time;
    for (int64_t b = k * all->at_a_time; b < end && b < all->x->samples; b++)
        if (!is_large(all->x, b))
            all->serve(all->job, NULL, b, member);
}

/* Samples side by side, then large ones one after the other, each shared and served by thread number 0. */
static void for_samples(const Rows *x, Serve *serve, void *job, int threads)
{
    if (!x->samples)
        return;
    Crew *crew = hire(threads);
    Samples all = {x, serve, job, 1 + x->samples / (16 * threads)};
    if (x->samples > 1 || !is_large(x, 0))
        share(crew, some_samples, &all, (x->samples - 1) / all.at_a_time + 1, 0);
    for (int64_t b = 0; b < x->samples && x->n >= LARGE_SAMPLE; b++)
        if (is_large(x, b))
            serve(job, crew, b, 0);
    dismiss(crew);
}

/* Number of portions of n rows. */
static int64_t portions_of(int64_t n)
{
    return (n + PORTION - 1) / PORTION;
}

/* The end of portion k of n rows. */
static int64_t end_of(int64_t k, int64_t n)
{
    return (k + 1) * PORTION < n ? (k + 1) * PORTION : n;
}

/* A number of threads that there is room for. */
static int possible_threads(int threads)
{
    return threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
}

#endif
