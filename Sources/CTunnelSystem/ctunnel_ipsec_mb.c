// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if defined(__linux__)
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#endif

#include "ctunnel_ipsec_mb.h"

bool ctunnel_ipsec_mb_is_sufficient(uint64_t features) {
    // AVX-512 F, DQ, CD, BW and VL; SAFE_DATA; IFMA; a passed self-test. A library that was built without SAFE_DATA does not
    // clear keys from registers and memory at the end of a job.
    const uint64_t needed = UINT64_C(31) << 7 | UINT64_C(1) << 14 | UINT64_C(1) << 17 | UINT64_C(1) << 21;
    return (features & needed) == needed;
}

#if !defined(__linux__) || !defined(__x86_64__)

int ctunnel_ipsec_mb_load(void) { return CTUNNEL_IPSEC_MB_NO_PROCESSOR; }

bool ctunnel_ipsec_mb_seal(
    const void *key, const void *nonce, const void *source, size_t byte_count, const void *authenticated,
    size_t authenticated_byte_count, void *destination) {
    (void)key, (void)nonce, (void)source, (void)byte_count, (void)authenticated, (void)authenticated_byte_count;
    (void)destination;
    return false;
}

int ctunnel_ipsec_mb_open(
    const void *key, const void *nonce, const void *source, size_t byte_count, const void *authenticated,
    size_t authenticated_byte_count, void *destination) {
    (void)key, (void)nonce, (void)source, (void)byte_count, (void)authenticated, (void)authenticated_byte_count;
    (void)destination;
    return -1;
}

#else

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TAG_SIZE 16

// MARK: - The structures of version 1.3 (intel-ipsec-mb.h), with the members that ChaCha20-Poly1305 uses

enum { known_version = 0x10300, known_manager_size = 200744, job_count = 256 };
enum { cipher_chacha20_poly1305 = 19, hash_chacha20_poly1305 = 29 };
enum { direction_encrypt = 1, direction_decrypt = 2 };
enum { order_cipher_hash = 1, order_hash_cipher = 2 };
enum { status_completed = 3 };

// `IMB_JOB`
struct job {
    const void *encryption_key;
    const void *decryption_key;
    uint64_t key_size;
    const uint8_t *source;
    uint8_t *destination;
    uint64_t cipher_offset;
    uint64_t cipher_size;
    uint64_t hash_offset;
    uint64_t hash_size;
    const uint8_t *nonce;
    uint64_t nonce_size;
    uint8_t *tag;
    uint64_t tag_size;
    const void *authenticated;
    uint64_t authenticated_size;
    void *context;
    uint32_t status;
    uint32_t cipher;
    uint32_t direction;
    uint32_t hash;
    uint32_t order;
    uint32_t gap;
    void *other[6];
};

// `IMB_MGR`
struct manager {
    uint64_t flags;
    uint64_t features;
    uint64_t reserved[5];
    uint32_t architecture;
    int error;
    void *first_functions[2];
    struct job *(*submit_job_nocheck)(struct manager *);
    void *other_functions[116];
    int earliest_job;
    int next_job;
    struct job jobs[job_count];
    void *schedulers[37];
};

_Static_assert(offsetof(struct job, status) == 128 && sizeof(struct job) == 200, "an IMB_JOB of version 1.3");
_Static_assert(offsetof(struct manager, submit_job_nocheck) == 80, "an IMB_MGR of version 1.3");
_Static_assert(offsetof(struct manager, earliest_job) == 1016, "an IMB_MGR of version 1.3");
_Static_assert(offsetof(struct manager, jobs) == 1024 && sizeof(struct manager) == 52520, "an IMB_MGR of version 1.3");

// MARK: - The library

static const char *const paths[] = {
    "/usr/lib/x86_64-linux-gnu/libIPSec_MB.so.1", "/usr/lib64/libIPSec_MB.so.1", "/usr/lib/libIPSec_MB.so.1"};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int load_result = CTUNNEL_IPSEC_MB_NOT_READY;
// The start of a manager, up to its jobs.
static uint8_t prototype[offsetof(struct manager, jobs)];
static pthread_key_t thread_end;

// The manager of this thread: a manager may serve only one thread at a time.
static _Thread_local struct manager *own;

static void end_thread(void *memory) {
    own = NULL;
    (void)munmap(memory, sizeof(struct manager));
}

static void *open_library(int *result) {
    *result = CTUNNEL_IPSEC_MB_NOT_INSTALLED;
    for (size_t index = 0; index < sizeof(paths) / sizeof(paths[0]); index++) {
        if (access(paths[index], F_OK) != 0) continue;
        void *library = dlopen(paths[index], RTLD_NOW | RTLD_LOCAL);
        if (library) return library;
        *result = CTUNNEL_IPSEC_MB_NOT_LOADABLE;
    }
    return NULL;
}

// Lets the library make a manager, and keeps the start of it. A complete manager has 150 KiB of schedulers for other ciphers.
// Jobs of ChaCha20-Poly1305 do not use them, so the managers of threads do without them.
static int prepare(void *library) {
    unsigned (*get_version)(void) = (unsigned (*)(void))dlsym(library, "imb_get_version");
    size_t (*get_size)(void) = (size_t (*)(void))dlsym(library, "imb_get_mb_mgr_size");
    struct manager *(*allocate)(uint64_t) = (struct manager * (*)(uint64_t)) dlsym(library, "alloc_mb_mgr");
    void (*start)(struct manager *) = (void (*)(struct manager *))dlsym(library, "init_mb_mgr_avx512");
    void (*release)(struct manager *) = (void (*)(struct manager *))dlsym(library, "free_mb_mgr");
    if (!get_version || !get_size || !allocate || !start || !release) return CTUNNEL_IPSEC_MB_NOT_LOADABLE;
    if (get_version() != known_version || get_size() != known_manager_size) return CTUNNEL_IPSEC_MB_OTHER_VERSION;
    struct manager *first = allocate(0);
    if (!first) return CTUNNEL_IPSEC_MB_NOT_READY;
    start(first);
    bool is_ready = first->error == 0 && ctunnel_ipsec_mb_is_sufficient(first->features) && first->submit_job_nocheck;
    memcpy(prototype, first, sizeof(prototype));
    release(first);
    if (!is_ready || pthread_key_create(&thread_end, end_thread) != 0) return CTUNNEL_IPSEC_MB_NOT_READY;
    return CTUNNEL_IPSEC_MB_LOADED;
}

static void load(void) {
    __builtin_cpu_init();
    // The compiler's function also asks whether the system saves these registers.
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512cd") ||
        !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512ifma")) {
        load_result = CTUNNEL_IPSEC_MB_NO_PROCESSOR;
        return;
    }
    void *library = open_library(&load_result);
    if (!library) return;
    load_result = prepare(library);
    if (load_result != CTUNNEL_IPSEC_MB_LOADED) (void)dlclose(library);
}

int ctunnel_ipsec_mb_load(void) {
    if (pthread_once(&once, load) != 0) return CTUNNEL_IPSEC_MB_NOT_READY;
    return load_result;
}

// MARK: - Jobs

// Only the first page of the manager is written, with the prototype and the first job. The other pages take no memory.
__attribute__((noinline)) static struct manager *make_own(void) {
    if (ctunnel_ipsec_mb_load() != CTUNNEL_IPSEC_MB_LOADED) return NULL;
    struct manager *made = mmap(NULL, sizeof(struct manager), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) return NULL;
    if (pthread_setspecific(thread_end, made) != 0) {
        (void)munmap(made, sizeof(struct manager));
        return NULL;
    }
    memcpy(made, prototype, sizeof(prototype));
    made->earliest_job = -1;
    struct job *job = &made->jobs[0];
    job->key_size = 32;
    job->nonce_size = 12;
    job->tag_size = TAG_SIZE;
    job->cipher = cipher_chacha20_poly1305;
    job->hash = hash_chacha20_poly1305;
    own = made;
    return made;
}

// Fills in the only job of a manager that is used. The job has pointers to the key and the nonce, and no copies of them.
static inline struct job *next_job(
    struct manager *manager, const void *key, const void *nonce, const void *source, size_t byte_count, const void *authenticated,
    size_t authenticated_byte_count, void *destination) {
    // Each job is complete when its call returns, so that no other one is ever in progress.
    manager->next_job = 0;
    struct job *job = &manager->jobs[0];
    job->encryption_key = job->decryption_key = key;
    job->source = source;
    job->destination = destination;
    job->cipher_size = job->hash_size = byte_count;
    job->nonce = nonce;
    job->authenticated = authenticated;
    job->authenticated_size = authenticated_byte_count;
    return job;
}

static inline bool is_done(struct manager *manager, struct job *job) {
    bool is_done = manager->submit_job_nocheck(manager) == job && job->status == status_completed;
    job->encryption_key = job->decryption_key = NULL;
    return is_done;
}

bool ctunnel_ipsec_mb_seal(
    const void *key, const void *nonce, const void *source, size_t byte_count, const void *authenticated,
    size_t authenticated_byte_count, void *destination) {
    struct manager *manager = own ? own : make_own();
    if (!manager) return false;
    struct job *job =
        next_job(manager, key, nonce, source, byte_count, authenticated, authenticated_byte_count, destination);
    job->tag = (uint8_t *)destination + byte_count;
    job->direction = direction_encrypt;
    job->order = order_cipher_hash;
    // Continuing would send plaintext.
    if (!is_done(manager, job)) __builtin_trap();
    return true;
}

int ctunnel_ipsec_mb_open(
    const void *key, const void *nonce, const void *source, size_t byte_count, const void *authenticated,
    size_t authenticated_byte_count, void *destination) {
    struct manager *manager = own ? own : make_own();
    if (!manager) return -1;
    uint64_t tag[2] = {0, 0};
    uint64_t sent[2];
    memcpy(sent, (const uint8_t *)source + byte_count, TAG_SIZE);
    struct job *job =
        next_job(manager, key, nonce, source, byte_count, authenticated, authenticated_byte_count, destination);
    job->tag = (uint8_t *)tag;
    job->direction = direction_decrypt;
    job->order = order_hash_cipher;
    bool is_complete = is_done(manager, job);
    // In constant time.
    uint64_t difference = (tag[0] ^ sent[0]) | (tag[1] ^ sent[1]);
    if (is_complete && difference == 0) return 1;
    memset(destination, 0, byte_count);
    return 0;
}

#endif
