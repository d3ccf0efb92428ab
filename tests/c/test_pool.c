/* test_pool.c - memory of batches: used again, bounded, lent, out of bounds, after fork, and from many threads at once. */
#define _GNU_SOURCE
#include "batch/pool.h"
#include "expect.h"
#include "unirecord_internal.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static ur_pool *new_pool(int32_t spare) {
  ur_pool *pool = NULL;
  ur_error error = {0};
  EXPECT_EQUAL(ur_pool_new(spare, &pool, &error), UR_OK);
  return pool;
}

static void a_piece_that_came_back_is_used_again(void) {
  ur_pool *pool = new_pool(2);
  ur_piece *first = ur_pool_take(pool, 100000);
  memset((uint8_t *)first + sizeof *first, 1, 100000 - sizeof *first);
  ur_pool_give(first);
  for (int i = 0; i < 100; i++) {
    ur_piece *piece = ur_pool_take(pool, (size_t)(100000 - i));
    EXPECT(piece == first);
    ur_pool_give(piece);
  }
  EXPECT_EQUAL(ur_pool_allocations(pool), 1);
  ur_pool_release(pool);
}

static void the_smallest_piece_that_fits_is_taken_and_the_smallest_is_given_up(void) {
  ur_pool *pool = new_pool(2);
  size_t sizes[] = {5000, 3 << 20, 100000, 9 << 20};
  ur_piece *pieces[4];
  for (int i = 0; i < 4; i++) pieces[i] = ur_pool_take(pool, sizes[i]);
  for (int i = 0; i < 4; i++) ur_pool_give(pieces[i]);
  EXPECT_EQUAL(ur_pool_allocations(pool), 4); /* kept: 3 MB and 9 MB */
  ur_piece *small = ur_pool_take(pool, 64), *large = ur_pool_take(pool, 64), *fresh = ur_pool_take(pool, 64);
  EXPECT(small->bytes >= 3u << 20 && small->bytes < 9u << 20);
  EXPECT(large->bytes >= 9u << 20);
  EXPECT_EQUAL((uintptr_t)large % (2 << 20), 0);
  EXPECT_EQUAL(ur_pool_allocations(pool), 5);
  ur_pool_give(fresh);
  ur_pool_give(large);
  ur_pool_give(small);
  ur_pool_release(pool);
}

static void more_pieces_are_kept_when_asked(void) {
  ur_pool *pool = new_pool(1);
  ur_pool_keep(pool, 3);
  ur_pool_keep(pool, 2);
  ur_piece *pieces[4];
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 4; i++) pieces[i] = ur_pool_take(pool, 5000);
    for (int i = 0; i < 4; i++) ur_pool_give(pieces[i]);
    EXPECT_EQUAL(ur_pool_allocations(pool), 4 + round); /* three were kept */
  }
  ur_pool_release(pool);
}

static void a_piece_outlives_its_pool(void) {
  ur_pool *pool = new_pool(0);
  ur_piece *piece = ur_pool_take(pool, 8192);
  ur_pool_release(pool);
  memset((uint8_t *)piece + sizeof *piece, 7, 8192 - sizeof *piece);
  ur_pool_give(piece);
  ur_pool_release(NULL);
}

static void what_cannot_be_is_refused(void) {
  ur_pool *pool = new_pool(1);
  ur_error error = {0};
  ur_pool *refused = NULL;
  EXPECT_EQUAL(ur_pool_new(-1, &refused, &error), UR_ARGUMENT);
  EXPECT(refused == NULL);
  EXPECT(ur_pool_take(pool, SIZE_MAX) == NULL);
  EXPECT(ur_pool_take(pool, SIZE_MAX / 2) == NULL);
  EXPECT(ur_pool_take(pool, SIZE_MAX / 4) == NULL); /* more than any address space has */
  EXPECT_EQUAL(ur_pool_allocations(pool), 0);
  static _Alignas(64) uint8_t memory[8192];
  EXPECT_EQUAL(ur_pool_lend(pool, memory + 8, 4096, &error), UR_ARGUMENT);
  EXPECT_EQUAL(ur_pool_lend(pool, memory, 4096 - 64, &error), UR_ARGUMENT);
  EXPECT_EQUAL(ur_pool_lend(pool, memory, 4097, &error), UR_ARGUMENT);
  ur_pool_release(pool);
}

static void lent_memory_is_used_and_never_unmapped(void) {
  static _Alignas(64) uint8_t memory[2][16384];
  ur_pool *pool = new_pool(0);
  for (int i = 0; i < 2; i++) EXPECT_EQUAL(ur_pool_lend(pool, memory[i], sizeof memory[i], NULL), UR_OK);
  for (int round = 0; round < 3; round++) {
    ur_piece *a = ur_pool_take(pool, 16000), *b = ur_pool_take(pool, 16000), *c = ur_pool_take(pool, 16000);
    EXPECT((uint8_t *)a >= memory[0] && (uint8_t *)a < memory[2]);
    EXPECT((uint8_t *)b >= memory[0] && (uint8_t *)b < memory[2]);
    EXPECT(a != b);
    EXPECT_EQUAL(ur_pool_allocations(pool), round + 1); /* the third is the system's, and not kept */
    ur_pool_give(a);
    ur_pool_give(b);
    ur_pool_give(c);
  }
  ur_pool_release(pool);
  memset(memory, 1, sizeof memory);
}

static void a_forked_child_may_give_back_and_take(void) {
  static _Alignas(64) uint8_t lent[8192];
  ur_pool *pool = new_pool(2);
  ur_piece *own = ur_pool_take(pool, 5000);
  EXPECT_EQUAL(ur_pool_lend(pool, lent, sizeof lent, NULL), UR_OK);
  ur_piece *borrowed = ur_pool_take(pool, 5000);
  ur_piece *spare = ur_pool_take(pool, 5000);
  ur_pool_give(spare);
  pid_t child = fork();
  if (child == 0) {
    ur_pool_keep(pool, 9);
    EXPECT_EQUAL(ur_pool_lend(pool, lent, sizeof lent, NULL), UR_ARGUMENT);
    ur_pool_give(own);
    ur_pool_give(borrowed);
    ur_piece *piece = ur_pool_take(pool, 5000);
    EXPECT(piece != NULL && piece != spare);
    memset((uint8_t *)piece + sizeof *piece, 1, 5000 - sizeof *piece);
    ur_pool_give(piece);
    ur_pool_release(pool);
    _exit(0);
  }
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  ur_pool_give(own);
  ur_pool_give(borrowed);
  EXPECT_EQUAL(ur_pool_allocations(pool), 2);
  ur_pool_release(pool);
}

static void *take_and_give(void *argument) {
  ur_pool *pool = argument;
  unsigned seed = (unsigned)(uintptr_t)&seed;
  for (int i = 0; i < 3000; i++) {
    size_t bytes = 64 + (size_t)rand_r(&seed) % 60000;
    ur_piece *piece = ur_pool_take(pool, bytes);
    EXPECT(piece != NULL && piece->bytes >= bytes);
    uint8_t *memory = (uint8_t *)piece + sizeof *piece;
    memory[0] = (uint8_t)i;
    memory[bytes - sizeof *piece - 1] = (uint8_t)i;
    EXPECT_EQUAL(memory[0], (uint8_t)i);
    ur_pool_give(piece);
  }
  return NULL;
}

static void many_threads_share_a_pool(void) {
  ur_pool *pool = new_pool(3);
  pthread_t threads[8];
  for (int i = 0; i < 8; i++) EXPECT(pthread_create(&threads[i], NULL, take_and_give, pool) == 0);
  for (int i = 0; i < 8; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
  ur_pool_release(pool);
}

int main(void) {
  a_piece_that_came_back_is_used_again();
  the_smallest_piece_that_fits_is_taken_and_the_smallest_is_given_up();
  more_pieces_are_kept_when_asked();
  a_piece_outlives_its_pool();
  what_cannot_be_is_refused();
  lent_memory_is_used_and_never_unmapped();
  a_forked_child_may_give_back_and_take();
  many_threads_share_a_pool();
  return 0;
}
