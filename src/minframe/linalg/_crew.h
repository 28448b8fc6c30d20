/* Threads that share loops.

   A loop has portions, which do not depend on the number of threads, and neither do results: portions are computed each
   by itself, and combined in their order. On a busy machine a helper may start late; then whoever called has done its
   work, and does not wait for it.

   What one core writes and another reads or writes too takes some tenths of a microsecond to go from one to the other,
   as long as a small sample takes. So whatever a thread writes, here and in the loops, lies LINE bytes apart from what
   others write. */

#ifndef MINFRAME_CREW_H
#define MINFRAME_CREW_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32) || defined(__STDC_NO_ATOMICS__)
#define MAX_THREADS 1
#else
#define MAX_THREADS 64
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#endif

#define LINE 128 /* bytes that go from core to core together, at most */

/* The least multiple of LINE bytes, in numbers, that n numbers fit in. */
static int64_t apart(int64_t n)
{
    const int64_t line = LINE / sizeof(double);
    return (n + line - 1) / line * line;
}

/* The first multiple of LINE in memory, less than LINE bytes away. */
static double *aligned(void *memory)
{
    return (double *)(((uintptr_t)memory + LINE - 1) / LINE * LINE);
}

/* Portion k of a loop, computed by thread number `member`. */
typedef void Portion(void *job, int64_t k, int member);

#if MAX_THREADS > 1

/* Looks for others to finish before giving way to other threads: some 0.1 ms, several times what a portion takes. Helpers
   look for the next loop ten times as long. Who gives way earlier may find the core taken by another program for
   milliseconds, even on a machine with little to do: large samples, whose loops are many, gained 1.3 by a second thread
   instead of 1.75. */
#define SPINS 4000

/* A look that leaves the core's units to others, and takes some hundredths of a microsecond. */
#if defined(__x86_64__) || defined(__i386__)
#define RELAX() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define RELAX() __asm__ volatile("yield")
#else
#define RELAX() (void)0
#endif

/* The portions of a loop that a member takes first, so that it finds in its cache what it wrote in the loop before.
   `state` has the number of the loop in its upper half and the portions that nobody has taken in its lower half: who
   takes one changes it in one step, and so takes none of a loop that is over. `done` counts what the member has done, of
   its lot and of others. */
typedef struct {
    _Alignas(LINE) _Atomic uint64_t state;
    _Atomic int64_t done;
} Lot;

/* A loop is over when all of its portions are done; what describes it changes between loops only. */
typedef struct {
    Portion *portion;
    void *job;
    int64_t portions;
    int backwards; /* whether portions are taken from the last to the first */
    int threads;
    atomic_int closed, users;
    Lot lots[];
} Crew;

/* A helper that has done its work looks for more for a while, in a seat that others can see, as starting a thread may
   take as long as a small loop; it does not give way, for the same reason. After a fork seats are taken by nobody: whoever
   is offered work there never comes. */
enum { FREE, WAITING, BUSY, CALLED };
#define LINGER_NANOSECONDS 500000

typedef struct {
    _Alignas(LINE) atomic_int state;
    Crew *crew;
    int member;
} Seat;

static Seat seats[MAX_THREADS];

typedef struct {
    Crew *crew;
    int member;
} Helper;

/* The first portion of a member's lot. */
static int64_t first_of(const Crew *crew, int member)
{
    return crew->portions * member / crew->threads;
}

/* Take a portion and compute it, if there is one: of one's own lot, or else of another's. */
static int help(Crew *crew, int member)
{
    for (int i = 0; i < crew->threads; i++) {
        int whose = (member + i) % crew->threads;
        _Atomic uint64_t *lot = &crew->lots[whose].state;
        uint64_t state = atomic_load(lot);
        while (state & UINT32_MAX)
            if (atomic_compare_exchange_weak(lot, &state, state - 1)) {
                int64_t left = (int64_t)(state & UINT32_MAX);
                int64_t k = crew->backwards ? first_of(crew, whose) + left - 1 : first_of(crew, whose + 1) - left;
                crew->portion(crew->job, k, member);
                atomic_fetch_add(&crew->lots[member].done, 1);
                return 1;
            }
    }
    return 0;
}

static void leave(Crew *crew)
{
    if (atomic_fetch_sub(&crew->users, 1) == 1)
        free(crew);
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Between two looks: let other threads have the core, or keep it. */
static void give_way(int yields)
{
    if (yields)
        sched_yield();
    else
        RELAX();
}

/* Wait for work in a seat; 0 if there was none for so long. */
static int linger(Helper *helper)
{
    Seat *seat = seats;
    int state = FREE;
    while (!atomic_compare_exchange_strong(&seat->state, &state, WAITING)) {
        state = FREE;
        if (++seat == seats + MAX_THREADS)
            return 0;
    }
    for (int64_t end = now() + LINGER_NANOSECONDS; atomic_load(&seat->state) == WAITING && now() < end;)
        RELAX();
    state = WAITING;
    if (atomic_compare_exchange_strong(&seat->state, &state, FREE))
        return 0;
    while (atomic_load(&seat->state) != CALLED) /* who calls is about to */
        ;
    *helper = (Helper){seat->crew, seat->member};
    atomic_store(&seat->state, FREE);
    return 1;
}

/* Let a helper that waits for work join; 0 if there is none. */
static int call(Crew *crew, int member)
{
    for (Seat *seat = seats; seat < seats + MAX_THREADS; seat++) {
        int state = WAITING;
        if (atomic_compare_exchange_strong(&seat->state, &state, BUSY)) {
            seat->crew = crew;
            seat->member = member;
            atomic_store(&seat->state, CALLED);
            return 1;
        }
    }
    return 0;
}

/* Take part in the loops of a crew until it is dismissed. While there is nothing to take, look at one's own lot alone:
   looking at those of others would slow them down. */
static void work(Crew *crew, int member)
{
    uint64_t over = 0;
    for (int spins = 0; !atomic_load(&crew->closed); spins++) {
        uint64_t state = atomic_load(&crew->lots[member].state);
        if (state != over) {
            over = help(crew, member) ? over : state;
            spins = 0;
        } else
            give_way(spins > 10 * SPINS);
    }
}

static void *begin(void *argument)
{
    Helper helper = *(Helper *)argument;
    free(argument);
    do {
        work(helper.crew, helper.member);
        leave(helper.crew);
    } while (linger(&helper));
    return NULL;
}

/* Start a thread that joins; 0 if there can be none. */
static int start(Crew *crew, int member)
{
    pthread_t thread;
    Helper *helper = malloc(sizeof(Helper));
    if (!helper)
        return 0;
    *helper = (Helper){crew, member};
    if (pthread_create(&thread, NULL, begin, helper)) {
        free(helper);
        return 0;
    }
    pthread_detach(thread);
    return 1;
}

/* So many threads, the caller among them; fewer if no more can be had, and NULL if there is only the caller. */
static Crew *hire(int threads)
{
    size_t size = sizeof(Crew) + threads * sizeof(Lot);
    Crew *crew = threads > 1 ? aligned_alloc(LINE, size) : NULL;
    if (!crew)
        return NULL;
    memset(crew, 0, size);
    crew->threads = threads;
    atomic_store(&crew->users, threads);
    for (int member = 1; member < threads; member++)
        if (!call(crew, member) && !start(crew, member))
            leave(crew);
    return crew;
}

static void dismiss(Crew *crew)
{
    if (!crew)
        return;
    atomic_store(&crew->closed, 1);
    leave(crew);
}

static int64_t done_by_all(Crew *crew)
{
    int64_t done = 0;
    for (int i = 0; i < crew->threads; i++)
        done += atomic_load(&crew->lots[i].done);
    return done;
}

/* Compute all portions of a loop. One that goes over the same rows as the loop before goes the other way: it begins with
   what that has left in the cache. */
static void share(Crew *crew, Portion *portion, void *job, int64_t portions, int backwards)
{
    if (!crew) {
        for (int64_t k = 0; k < portions; k++)
            portion(job, backwards ? portions - 1 - k : k, 0);
        return;
    }
    crew->backwards = backwards;
    crew->portion = portion;
    crew->job = job;
    crew->portions = portions;
    for (int i = 0; i < crew->threads; i++)
        atomic_store(&crew->lots[i].done, 0);
    for (int i = 0; i < crew->threads; i++) {
        uint64_t number = (atomic_load(&crew->lots[i].state) >> 32) + 1;
        atomic_store(&crew->lots[i].state, number << 32 | (uint64_t)(first_of(crew, i + 1) - first_of(crew, i)));
    }
    while (help(crew, 0))
        ;
    for (int spins = 0; done_by_all(crew) < portions; spins++)
        give_way(spins > SPINS);
}

#else

typedef struct {
    int nobody;
} Crew;

static Crew *hire(int threads)
{
    (void)threads;
    return NULL;
}

static void dismiss(Crew *crew)
{
    (void)crew;
}

static void share(Crew *crew, Portion *portion, void *job, int64_t portions, int backwards)
{
    (void)crew;
    for (int64_t k = 0; k < portions; k++)
        portion(job, backwards ? portions - 1 - k : k, 0);
}

#endif

#endif
