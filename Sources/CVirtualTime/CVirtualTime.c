#define _GNU_SOURCE
#include "CVirtualTime.h"

#include <dlfcn.h>
#include <errno.h>
#include <openssl/rand.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

static int is_virtual;
static int64_t now_ns;
static int64_t wall_offset_ns;
static uint64_t random_state;
static pid_t process_id;

// A system call without libc, whose functions of that name these take the place of.
static long system_call(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

// SplitMix64.
static uint64_t next_random(void) {
    uint64_t z = (random_state += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

static void fill(unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (unsigned char)next_random();
    }
}

static int rand_bytes(unsigned char *bytes, int count) {
    fill(bytes, (size_t)count);
    return 1;
}

static int rand_status(void) { return 1; }

static const RAND_METHOD virtual_rand = {.bytes = rand_bytes, .pseudorand = rand_bytes, .status = rand_status};

void virtual_start(int64_t nanoseconds, uint64_t seed) {
    now_ns = nanoseconds;
    random_state = seed;
    is_virtual = 1;
    RAND_set_rand_method(&virtual_rand);
}

void virtual_set_time(int64_t nanoseconds) { now_ns = nanoseconds; }

void virtual_set_wall_offset(int64_t nanoseconds) { wall_offset_ns = nanoseconds; }

void virtual_set_process(pid_t pid) { process_id = pid; }

int64_t virtual_real_time(void) {
    struct timespec time;
    system_call(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&time, 0, 0, 0, 0);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int64_t time_of(clockid_t clock) {
    int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    return now_ns + (is_wall ? wall_offset_ns : 0);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (!is_virtual) {
        return (int)system_call(SYS_clock_gettime, clock, (long)time, 0, 0, 0, 0);
    }
    int64_t value = time_of(clock);
    time->tv_sec = value / 1000000000;
    time->tv_nsec = value % 1000000000;
    return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec value;
    clock_gettime(CLOCK_REALTIME, &value);
    time->tv_sec = value.tv_sec;
    time->tv_usec = value.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec value;
    clock_gettime(CLOCK_REALTIME, &value);
    if (result) {
        *result = value.tv_sec;
    }
    return value.tv_sec;
}

ssize_t getrandom(void *bytes, size_t count, unsigned int flags) {
    if (!is_virtual) {
        return system_call(SYS_getrandom, (long)bytes, (long)count, flags, 0, 0, 0);
    }
    fill(bytes, count);
    return (ssize_t)count;
}

pid_t getpid(void) { return process_id ? process_id : (pid_t)system_call(SYS_getpid, 0, 0, 0, 0, 0, 0); }

// Swift's standard library asks for random bytes so.
long syscall(long number, ...) {
    va_list list;
    va_start(list, number);
    long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long);
    long d = va_arg(list, long), e = va_arg(list, long), f = va_arg(list, long);
    va_end(list);
    if (number == SYS_getrandom) {
        return getrandom((void *)a, (size_t)b, (unsigned int)c);
    }
    return system_call(number, a, b, c, d, e, f);
}
