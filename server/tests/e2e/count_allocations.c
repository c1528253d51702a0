/* Counts the allocations of the server: a test preloads it. The count is in the file $COUNT_ALLOCATIONS. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static atomic_ulong *count;

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("COUNT_ALLOCATIONS");
    /* The processes of the application inherit the environment. */
    if (!path || strcmp(program_invocation_short_name, "cabrank") != 0) return;
    int file = open(path, O_RDWR);
    void *page = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    if (page != MAP_FAILED) count = page;
}

static void another(void) {
    if (count) atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

void *malloc(size_t size) { another(); return __libc_malloc(size); }
void *calloc(size_t n, size_t size) { another(); return __libc_calloc(n, size); }
void *realloc(void *old, size_t size) { another(); return __libc_realloc(old, size); }
void *aligned_alloc(size_t align, size_t size) { another(); return __libc_memalign(align, size); }
int posix_memalign(void **out, size_t align, size_t size) {
    another();
    *out = __libc_memalign(align, size);
    return *out ? 0 : ENOMEM;
}
