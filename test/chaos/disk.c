// A disk that fails when it is told to: preloaded into a process, it stands before the calls that write and sync files whose
// path contains $SLUICE_DISK_PATH. The file $SLUICE_DISK_CONTROL says what to do, as 32-bit integers in the order of the
// enumeration below; disk.ts writes them. With $SLUICE_DISK_PLATTER, a folder, it also keeps what a loss of power would
// leave of those files: pages get there when a sync of their file succeeds, or at once by chance, as the kernel may write a
// page at any time. A sync that fails has written some pages and takes all for clean, as the kernel does: the next one succeeds
// without the others. Names of files are durable at once, and a page is written whole or not at all.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { WRITE_ERROR, SYNC_ERROR, ONE_IN, TIMES, WRITE_DELAY, SYNC_DELAY, KILL_AT, SEED, WRITES, SYNCS, FAILED, FIELDS };
enum { PAGE = 4096, FILES = 512 };

struct run { off_t from, to; struct run *next; };
struct file { char path[512]; int platter; struct run *dirty; };

static volatile int32_t *control;
static const char *needle, *folder;
static struct file files[FILES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_pwritev)(int, const struct iovec *, int, off_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_ftruncate)(int, off_t);
static int (*real_unlink)(const char *);
static int (*real_rename)(const char *, const char *);

__attribute__((constructor)) static void begin(void) {
  real_write = dlsym(RTLD_NEXT, "write");
  real_writev = dlsym(RTLD_NEXT, "writev");
  real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
  real_pwritev = dlsym(RTLD_NEXT, "pwritev64");
  real_fsync = dlsym(RTLD_NEXT, "fsync");
  real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
  real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
  real_unlink = dlsym(RTLD_NEXT, "unlink");
  real_rename = dlsym(RTLD_NEXT, "rename");
  const char *path = getenv("SLUICE_DISK_CONTROL");
  needle = getenv("SLUICE_DISK_PATH");
  folder = getenv("SLUICE_DISK_PLATTER");
  int fd = path && needle ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void *mapped = mmap(NULL, FIELDS * sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped != MAP_FAILED) control = mapped;
  close(fd);
}

// Whether the descriptor is of a file that is looked after; its path, then.
static int ours(int fd, char *path, size_t size) {
  char link[64];
  if (!control) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, size - 1);
  if (length <= 0) return 0;
  path[length] = 0;
  // What SQLite shares between processes is memory, and no disk's.
  if (length > 4 && strcmp(path + length - 4, "-shm") == 0) return 0;
  // The history of configurations lies beside the books, and is no part of them.
  if (strstr(path, ".config/")) return 0;
  return path[0] == '/' && strstr(path, needle) != NULL;
}

// A repeatable source of chance (xorshift), shared by all threads.
static uint32_t chance(void) {
  uint32_t state = __atomic_load_n((uint32_t *)&control[SEED], __ATOMIC_RELAXED), next;
  do {
    next = state ? state : 1;
    next ^= next << 13;
    next ^= next >> 17;
    next ^= next << 5;
  } while (!__atomic_compare_exchange_n((uint32_t *)&control[SEED], &state, next, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return next;
}

// Waits as long as the field says, which may be shortened meanwhile.
static void delay(int field) {
  struct timespec tick = {0, 2000000};
  for (int waited = 0; waited < control[field]; waited += 2) nanosleep(&tick, NULL);
}

// Takes one of the calls that are still to fail.
static int fails(int field) {
  if (!control[field] || (control[ONE_IN] > 1 && chance() % (uint32_t)control[ONE_IN] != 0)) return 0;
  int32_t left = __atomic_load_n(&control[TIMES], __ATOMIC_RELAXED);
  do {
    if (left == 0) return 0;
  } while (left > 0 && !__atomic_compare_exchange_n(&control[TIMES], &left, left - 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  __atomic_add_fetch(&control[FAILED], 1, __ATOMIC_RELAXED);
  return control[field];
}

// One more call of a kind; this process may end here.
static void count(int field) {
  __atomic_add_fetch(&control[field], 1, __ATOMIC_RELAXED);
  if (control[KILL_AT] > 0 && __atomic_sub_fetch(&control[KILL_AT], 1, __ATOMIC_RELAXED) == 0) {
    kill(getpid(), SIGKILL);
    pause();
  }
}

static struct file *known(const char *path) {
  for (int i = 0; i < FILES && files[i].path[0]; i++) if (strcmp(files[i].path, path) == 0) return &files[i];
  return NULL;
}

// The platter is one folder: a file within another one has its path from the store's folder on as a name.
static void on_platter(const char *path, char *name, size_t size) {
  const char *found = strstr(path, needle);
  size_t before = (size_t)(strrchr(needle, '/') - needle) + 1;
  int length = snprintf(name, size, "%s/", folder);
  snprintf(name + length, size - length, "%s", found + before);
  for (char *at = name + length; *at; at++) if (*at == '/') *at = '%';
}

static struct file *file_of(const char *path) {
  struct file *file = known(path);
  if (file) return file;
  for (int i = 0; i < FILES; i++) {
    if (files[i].path[0]) continue;
    char name[1024];
    on_platter(path, name, sizeof name);
    snprintf(files[i].path, sizeof files[i].path, "%s", path);
    files[i].platter = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return &files[i];
  }
  abort();
}

static void forget(struct file *file) {
  while (file->dirty) {
    struct run *next = file->dirty->next;
    free(file->dirty);
    file->dirty = next;
  }
}

// Writes the pages as they are now. Reads them by the program's own descriptor: closing another one of the file would take
// the locks that the process has on it.
static void store(int fd, struct file *file, off_t from, off_t to) {
  static char page[PAGE];
  for (off_t at = from; at < to; at += PAGE) {
    ssize_t got = pread(fd, page, PAGE, at);
    if (got < 0) {
      perror("disk.c: a file that is written has to be open for reading too");
      abort();
    }
    real_pwrite(file->platter, page, (size_t)got, at);
  }
}

// Writes some of them: what a sync that failed has done.
static void scatter(int fd, struct file *file, off_t from, off_t to) {
  for (off_t at = from; at < to; at += PAGE) if (chance() % 2) store(fd, file, at, at + PAGE);
}

enum fate { PENDING, DURABLE, BROKEN };

static void written(int fd, const char *path, off_t at, ssize_t length, enum fate fate) {
  if (!folder || length <= 0) return;
  off_t from = at / PAGE * PAGE, to = (at + length + PAGE - 1) / PAGE * PAGE;
  pthread_mutex_lock(&lock);
  struct file *file = file_of(path);
  struct run *run = fate == PENDING && chance() % 4 ? malloc(sizeof *run) : NULL;
  if (run) {
    *run = (struct run){from, to, file->dirty};
    file->dirty = run;
  } else if (fate == BROKEN) scatter(fd, file, from, to);
  else store(fd, file, from, to);
  pthread_mutex_unlock(&lock);
}

static void synced(int fd, const char *path, int failed) {
  struct stat stat;
  if (!folder) return;
  pthread_mutex_lock(&lock);
  struct file *file = file_of(path);
  for (struct run *run = file->dirty; run; run = run->next) (failed ? scatter : store)(fd, file, run->from, run->to);
  if (!failed && fstat(fd, &stat) == 0) real_ftruncate(file->platter, stat.st_size);
  forget(file);
  pthread_mutex_unlock(&lock);
}

static int durable(int fd) {
  return (fcntl(fd, F_GETFL) & O_DSYNC) != 0;
}

// What is common to all ways of writing: `partly` writes about half of it, as an error may leave a page half written.
#define WRITING(whole, partly, position) \
  char path[512]; \
  if (!ours(fd, path, sizeof path)) return whole; \
  int sync = durable(fd); \
  count(WRITES); \
  delay(WRITE_DELAY); \
  int error = fails(WRITE_ERROR); \
  if (error) { \
    if (error == EIO && chance() % 2) { \
      ssize_t done = partly; \
      written(fd, path, position, done, PENDING); \
    } \
    errno = error; \
    return -1; \
  } \
  ssize_t result = whole; \
  if (sync) { \
    int saved = errno; \
    count(SYNCS); \
    delay(SYNC_DELAY); \
    error = fails(SYNC_ERROR); \
    if (error) { \
      written(fd, path, position, result, BROKEN); \
      errno = error; \
      return -1; \
    } \
    errno = saved; \
  } \
  written(fd, path, position, result, sync ? DURABLE : PENDING); \
  return result;

ssize_t write(int fd, const void *data, size_t length) {
  if (!real_write) begin();
  off_t at = control ? lseek(fd, 0, SEEK_CUR) : 0;
  WRITING(real_write(fd, data, length), real_pwrite(fd, data, length / 2, at), at)
}

ssize_t pwrite64(int fd, const void *data, size_t length, off_t at) {
  WRITING(real_pwrite(fd, data, length, at), real_pwrite(fd, data, length / 2, at), at)
}

ssize_t writev(int fd, const struct iovec *parts, int count_of) {
  if (!real_writev) begin();
  off_t at = control ? lseek(fd, 0, SEEK_CUR) : 0;
  WRITING(real_writev(fd, parts, count_of), real_pwritev(fd, parts, count_of / 2, at), at)
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count_of, off_t at) {
  WRITING(real_pwritev(fd, parts, count_of, at), real_pwritev(fd, parts, count_of / 2, at), at)
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t at) {
  return pwrite64(fd, data, length, at);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count_of, off_t at) {
  return pwritev64(fd, parts, count_of, at);
}

// Names are durable at once, so folders have nothing to sync.
static int is_folder(int fd) {
  struct stat stat;
  return fstat(fd, &stat) == 0 && S_ISDIR(stat.st_mode);
}

static int syncing(int fd, int (*real)(int)) {
  char path[512];
  if (!ours(fd, path, sizeof path) || is_folder(fd)) return real(fd);
  count(SYNCS);
  delay(SYNC_DELAY);
  int error = fails(SYNC_ERROR);
  synced(fd, path, error);
  if (!error) return 0;
  errno = error;
  return -1;
}

int fsync(int fd) {
  return syncing(fd, real_fsync);
}

int fdatasync(int fd) {
  return syncing(fd, real_fdatasync);
}

int ftruncate64(int fd, off_t length) {
  char path[512];
  if (!ours(fd, path, sizeof path)) return real_ftruncate(fd, length);
  count(WRITES);
  delay(WRITE_DELAY);
  int error = fails(WRITE_ERROR);
  if (!error) return real_ftruncate(fd, length);
  errno = error;
  return -1;
}

int ftruncate(int fd, off_t length) {
  return ftruncate64(fd, length);
}

int unlink(const char *path) {
  int result = real_unlink(path);
  if (result == 0 && control && folder && strstr(path, needle)) {
    char name[1024];
    pthread_mutex_lock(&lock);
    struct file *file = known(path);
    if (file) {
      forget(file);
      close(file->platter);
      snprintf(file->path, sizeof file->path, "%s (gone)", path);
    }
    on_platter(path, name, sizeof name);
    real_unlink(name);
    pthread_mutex_unlock(&lock);
  }
  return result;
}

int rename(const char *from, const char *to) {
  int result = real_rename(from, to);
  if (result == 0 && control && folder && strstr(from, needle)) {
    char source[1024], target[1024];
    pthread_mutex_lock(&lock);
    struct file *old = known(to), *file = known(from);
    on_platter(from, source, sizeof source);
    on_platter(to, target, sizeof target);
    real_rename(source, target);
    if (old) {
      forget(old);
      snprintf(old->path, sizeof old->path, "%s (gone)", to);
    }
    if (file) snprintf(file->path, sizeof file->path, "%s", to);
    pthread_mutex_unlock(&lock);
  }
  return result;
}
