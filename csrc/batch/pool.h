/* batch/pool.h - memory of batches: page-aligned pieces that are used again, so that a warm batch costs no page fault. */
#ifndef UR_POOL_H
#define UR_POOL_H

#include "unirecord.h"

/* Stands at the start of every piece; what follows belongs to whoever took the piece. */
typedef struct ur_piece {
  size_t bytes; /* of the whole piece, this header included */
  int lent;     /* the caller's memory: never unmapped, always kept */
  ur_pool *pool;
  struct ur_piece *next;
} ur_piece;

ur_pool *ur_pool_retain(ur_pool *pool);

/* A piece of at least `bytes` bytes, contents undefined; NULL when memory is out. It keeps its pool alive. */
ur_piece *ur_pool_take(ur_pool *pool, size_t bytes);
void ur_pool_give(ur_piece *piece);

#endif
