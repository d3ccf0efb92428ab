/* base/wide.h - WIDE before a function: its loops compiled for wider vectors too, chosen when the module is loaded. */
#ifndef UR_WIDE_H
#define UR_WIDE_H

/* Not under sanitizers, which run before the choice can. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__GLIBC__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

#endif
