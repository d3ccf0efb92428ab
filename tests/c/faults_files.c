/* faults_files.c - files as the system has them: FIFOs, leases, other users' files, few descriptors, forks, reads that must wait. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "fault_seam.h"
#include "io/ring.h"
#include "part_contents.h"
#include "set/set.h"
#include "unirecord_internal.h"

enum { ROWS = 40, PARTS = 60, SETS = 3, LIMIT = 200 };

static char folder[] = "build/unirecord-test-XXXXXX"; /* on a disk: files in memory cannot leave it */
static char paths[PARTS][96];
static int64_t rows[ROWS];

static void store(uint64_t unit_rows) {
  fixture *part = make_part(ROWS, 0, unit_rows);
  store_part(part, paths[0]);
  free(part);
}

static ur_status open_set(int32_t io, ur_set **set, ur_error *error) {
  ur_part_ref ref = {.data_path = paths[0], .rows = -1};
  ur_set_options options = {.io = io, .verify = UR_VERIFY_ALWAYS};
  return ur_set_open(&ref, 1, &options, set, error);
}

static void expect_all(ur_set *set) {
  static contents found;
  ur_error error = {0};
  EXPECT_EQUAL(read_columns(set, rows, ROWS, 4, &found, &error), UR_OK);
  for (int64_t i = 0; i < ROWS; i++) expect_row(&found, i, i, 0);
}

/* ---- what is no regular file, or is in other hands --------------------------------------------------------------- */

static void fifos_are_refused_at_once(void) {
  char index[112];
  (void)snprintf(index, sizeof index, "%s.idx", paths[0]);
  for (int which = 0; which < 2; which++) {
    store(1);
    const char *path = which == 0 ? paths[0] : index;
    EXPECT(unlink(path) == 0 && mkfifo(path, 0600) == 0);
    ur_set *set = NULL;
    ur_error error = {0};
    EXPECT_EQUAL(open_set(UR_IO_AUTO, &set, &error), UR_FORMAT);
    EXPECT_EQUAL(error.file, which == 0 ? UR_FILE_DATA : UR_FILE_INDEX);
  }
}

static void reads_may_wait(void) {
  store(1);
  for (int32_t io = UR_IO_MAP; io <= UR_IO_URING_DIRECT; io++) {
    ur_set *set = NULL;
    ur_part *part = NULL;
    EXPECT_EQUAL(open_set(io, &set, NULL), UR_OK);
    EXPECT_EQUAL(ur_set_part(set, 0, &part, NULL), UR_OK);
    EXPECT_EQUAL(fcntl(part->file->fd, F_GETFL) & O_NONBLOCK, 0);
    ur_part_release(part);
    ur_set_release(set);
  }
}

/* Holds a lease until somebody else wants the file, and a little longer. */
static void hold_lease(int told) {
  sigset_t wanted;
  int fd = open(paths[0], O_RDWR), sent = 0;
  (void)sigemptyset(&wanted);
  (void)sigaddset(&wanted, SIGIO);
  (void)sigprocmask(SIG_BLOCK, &wanted, NULL);
  char held = fcntl(fd, F_SETLEASE, F_WRLCK) == 0;
  EXPECT(write(told, &held, 1) == 1);
  if (held) (void)sigwait(&wanted, &sent);
  (void)usleep(200000);
  (void)fcntl(fd, F_SETLEASE, F_UNLCK);
  _exit(0);
}

static void a_leased_file_is_waited_for(void) {
  store(1);
  int told[2];
  char held = 0;
  EXPECT(pipe(told) == 0);
  pid_t holder = fork();
  if (holder == 0) hold_lease(told[1]);
  EXPECT(read(told[0], &held, 1) == 1);
  ur_set *set = NULL;
  ur_error error = {0};
  EXPECT_EQUAL(open_set(UR_IO_MAP, &set, &error), UR_OK);
  expect_all(set);
  ur_set_release(set);
  EXPECT(waitpid(holder, NULL, 0) == holder);
  (void)close(told[0]);
  (void)close(told[1]);
  if (!held) puts("no leases here");
}

/* Out of memory, as its owner, to whom mincore tells the truth, sees it. */
static int is_cold(void) {
  int fd = open(paths[0], O_RDONLY);
  unsigned char pages[64] = {0};
  (void)fdatasync(fd);
  (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  void *view = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
  EXPECT(mincore(view, 4096, pages) == 0);
  (void)munmap(view, 4096);
  (void)close(fd);
  return (pages[0] & 1) == 0;
}

static void read_as_a_stranger(int opened, int cold) {
  ur_set *set = NULL;
  fault_plan count = {.calls = FAULT_HINT, .at = -1};
  char byte = 1;
  EXPECT(setuid(65534) == 0);
  EXPECT_EQUAL(open_set(UR_IO_MAP, &set, NULL), UR_OK);
  EXPECT(write(opened, &byte, 1) == 1 && read(cold, &byte, 1) == 1);
  fault_arm(&count);
  ur_set_advise(set, rows, ROWS);
  EXPECT(!byte || fault_count() >= 2); /* one page is asked about, the rest is told of */
  expect_all(set);
  fault_arm(&count);
  for (int i = 0; i < 8; i++) ur_set_advise(set, rows, ROWS);
  EXPECT(fault_count() <= 2 * ROWS); /* all of it is in memory by now: pages are asked about, and then it rests */
  _exit(0);
}

/* The kernel calls all files of others resident; they are told of ahead nevertheless. */
static void strangers_read_ahead_too(void) {
  store(1);
  int opened[2], cold[2], status = 0;
  char byte = 0;
  if (getuid() != 0) puts("only root can be somebody else");
  if (getuid() != 0) return;
  EXPECT(chmod(folder, 0755) == 0 && pipe(opened) == 0 && pipe(cold) == 0);
  pid_t child = fork();
  if (child == 0) read_as_a_stranger(opened[1], cold[0]);
  EXPECT(read(opened[0], &byte, 1) == 1);
  byte = (char)is_cold(); /* after opening, which reads the head */
  if (!byte) puts("files do not leave memory here");
  EXPECT(write(cold[1], &byte, 1) == 1);
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  for (int i = 0; i < 2; i++) EXPECT(close(opened[i]) == 0 && close(cold[i]) == 0);
}

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

static int count_descriptors(const char *kind) {
  int found = 0;
  DIR *all = opendir("/proc/self/fd");
  EXPECT(all != NULL);
  for (struct dirent *entry; (entry = readdir(all)) != NULL;) {
    char link[300], target[128] = "";
    (void)snprintf(link, sizeof link, "/proc/self/fd/%.200s", entry->d_name);
    if (readlink(link, target, sizeof target - 1) > 0 && strstr(target, kind) != NULL) found++;
  }
  (void)closedir(all);
  return found;
}

static void descriptors_are_counted_for_the_whole_process(void) {
  struct rlimit before, few;
  EXPECT(getrlimit(RLIMIT_NOFILE, &before) == 0);
  few = (struct rlimit){LIMIT, before.rlim_max};
  EXPECT(setrlimit(RLIMIT_NOFILE, &few) == 0);
  ur_part_ref refs[PARTS];
  ur_set *sets[SETS];
  static contents found;
  fixture *part = make_part(ROWS, 0, 1);
  for (int p = 0; p < PARTS; p++) {
    store_part(part, paths[p]);
    refs[p] = (ur_part_ref){.data_path = paths[p], .rows = ROWS};
  }
  free(part);
  ur_set_options options = {.io = UR_IO_URING_DIRECT, .verify = UR_VERIFY_FIRST};
  for (int s = 0; s < SETS; s++) EXPECT_EQUAL(ur_set_open(refs, PARTS, &options, &sets[s], NULL), UR_OK);
  for (int64_t p = 0; p < PARTS; p++)
    for (int s = 0; s < SETS; s++) {
      int64_t row = p * ROWS + 7;
      ur_error error = {0};
      EXPECT_EQUAL(read_columns(sets[s], &row, 1, 4, &found, &error), UR_OK);
      expect_row(&found, 0, 7, 0);
      EXPECT(count_descriptors("") < LIMIT * 3 / 4 + 12); /* of which 12 are not the core's */
    }
  int64_t held = ur_descriptors_held();
  for (int s = 0; s < SETS; s++) ur_set_release(sets[s]);
  EXPECT(held > ur_descriptors_held() && ur_descriptors_held() <= 1); /* this thread's ring */
  EXPECT(setrlimit(RLIMIT_NOFILE, &before) == 0);
}

/* ---- io_uring ---------------------------------------------------------------------------------------------------- */

static void reads_that_the_ring_refuses_are_made_plainly(void) {
  static const fault_plan plans[] = {
      {.calls = FAULT_COMPLETION, .for_ever = 1, .error = EAGAIN},
      {.calls = FAULT_COMPLETION, .for_ever = 1, .error = EINTR},
      {.calls = FAULT_RING, .for_ever = 1, .error = EAGAIN},
      {.calls = FAULT_RING, .for_ever = 1, .error = EBUSY},
  };
  store(0);
  for (int32_t io = UR_IO_URING; io <= UR_IO_URING_DIRECT; io++)
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
      ur_set *set = NULL;
      EXPECT_EQUAL(open_set(io, &set, NULL), UR_OK);
      expect_all(set);
      fault_arm(&plans[i]);
      expect_all(set);
      EXPECT(fault_disarm() < 100 * 2 * ROWS); /* tries, of two blobs a row */
      expect_all(set);
      ur_set_release(set);
    }
}

static int ring_made[2], ring_done[2];

static void *hold_ring(void *argument) {
  char byte = ur_ring_here() != NULL;
  EXPECT(write(ring_made[1], &byte, 1) == 1);
  EXPECT(read(ring_done[0], &byte, 1) == 1);
  return argument;
}

static void a_child_has_no_rings_of_its_parents_threads(void) {
  enum { THREADS = 3 };
  pthread_t threads[THREADS];
  char made = 0;
  store(1);
  EXPECT(pipe(ring_made) == 0 && pipe(ring_done) == 0);
  for (int i = 0; i < THREADS; i++) EXPECT(pthread_create(&threads[i], NULL, hold_ring, NULL) == 0);
  for (int i = 0; i < THREADS; i++) EXPECT(read(ring_made[0], &made, 1) == 1);
  int before = count_descriptors("io_uring");
  EXPECT(!made || before >= THREADS);
  pid_t child = fork();
  if (child == 0) {
    ur_set *set = NULL;
    EXPECT_EQUAL(count_descriptors("io_uring"), 0);
    EXPECT_EQUAL(open_set(UR_IO_URING, &set, NULL), UR_OK);
    expect_all(set);
    EXPECT_EQUAL(count_descriptors("io_uring"), made);
    _exit(0);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  EXPECT_EQUAL(count_descriptors("io_uring"), before);
  for (int i = 0; i < THREADS; i++) EXPECT(write(ring_done[1], &made, 1) == 1);
  for (int i = 0; i < THREADS; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
  EXPECT_EQUAL(count_descriptors("io_uring"), before - THREADS * made);
}

int main(void) {
  (void)mkdir("build", 0777);
  EXPECT(mkdtemp(folder) != NULL);
  for (int p = 0; p < PARTS; p++) (void)snprintf(paths[p], sizeof paths[p], "%s/%02d.urec", folder, p);
  for (int64_t i = 0; i < ROWS; i++) rows[i] = i;
  (void)signal(SIGIO, SIG_IGN);
  fifos_are_refused_at_once();
  reads_may_wait();
  a_leased_file_is_waited_for();
  strangers_read_ahead_too();
  descriptors_are_counted_for_the_whole_process();
  reads_that_the_ring_refuses_are_made_plainly();
  a_child_has_no_rings_of_its_parents_threads();
  return remove_folder(folder);
}
