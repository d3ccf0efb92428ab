/* codec/zstd.c - libzstd, loaded where a compressed column is first used: who has none needs none. */
#define _GNU_SOURCE /* RTLD_DEEPBIND, RTLD_DEFAULT */
#include "codec/zstd.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/fail.h"

#define LEAST_VERSION 10400u /* the first with all of these in its stable API */

#ifdef __APPLE__
static const char *const names[] = {"libzstd.1.dylib", "/opt/homebrew/lib/libzstd.1.dylib",
                                    "/usr/local/lib/libzstd.1.dylib"};
#define INSTALL "run `brew install zstd`"
#else
static const char *const names[] = {"libzstd.so.1"};
#define INSTALL "install libzstd1 (Debian), libzstd (Fedora), zstd (conda)"
#endif

#define SYMBOL(name, member) {name, offsetof(ur_zstd, member)}

static const struct {
  const char *name;
  size_t place;
} symbols[] = {
    SYMBOL("ZSTD_versionNumber", version_number),
    SYMBOL("ZSTD_isError", is_error),
    SYMBOL("ZSTD_getErrorName", error_name),
    SYMBOL("ZSTD_createDCtx", new_decompression),
    SYMBOL("ZSTD_freeDCtx", free_decompression),
    SYMBOL("ZSTD_createDDict", new_decompression_dictionary),
    SYMBOL("ZSTD_freeDDict", free_decompression_dictionary),
    SYMBOL("ZSTD_getFrameContentSize", frame_content_size),
    SYMBOL("ZSTD_findFrameCompressedSize", frame_compressed_size),
    SYMBOL("ZSTD_decompressDCtx", decompress),
    SYMBOL("ZSTD_decompress_usingDDict", decompress_with),
    SYMBOL("ZSTD_createCCtx", new_compression),
    SYMBOL("ZSTD_freeCCtx", free_compression),
    SYMBOL("ZSTD_createCDict", new_compression_dictionary),
    SYMBOL("ZSTD_freeCDict", free_compression_dictionary),
    SYMBOL("ZSTD_CCtx_setParameter", set_parameter),
    SYMBOL("ZSTD_CCtx_refCDict", use_dictionary),
    SYMBOL("ZSTD_compress2", compress),
    SYMBOL("ZDICT_trainFromBuffer", train),
    SYMBOL("ZDICT_isError", is_train_error),
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static ur_zstd library;
static char problem[sizeof((ur_error *)0)->what]; /* empty: the library is there */

/* False, with `problem` filled, when the file is not a libzstd that is new enough. */
static bool bind(void *file, const char *path) {
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
    void *found = dlsym(file, symbols[i].name);
    if (found == NULL) {
      (void)snprintf(problem, sizeof problem, "%.80s has no %s: it is no libzstd of version 1.4 or later", path,
                     symbols[i].name);
      return false;
    }
    memcpy((uint8_t *)&library + symbols[i].place, &found, sizeof found); /* exact: a member of the library */
  }
  if (library.version_number() >= LEAST_VERSION) return true;
  (void)snprintf(problem, sizeof problem, "%.80s is of version %u, and 1.4 (%u) is needed", path,
                 library.version_number(), LEAST_VERSION);
  return false;
}

/* Bound to its own functions first: TensorFlow puts another libzstd's, under the same names, before all that is loaded after
 * it, and a mix of two versions crashes. The address sanitizer's runtime refuses that. */
static int binding(void) {
#ifdef RTLD_DEEPBIND
  if (dlsym(RTLD_DEFAULT, "__asan_init") == NULL) return RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif
  return RTLD_NOW | RTLD_LOCAL;
}

static void *open_named(const char **path) {
  const char *asked = getenv("UNIRECORD_LIBZSTD");
  if (asked != NULL) {
    *path = asked;
    return dlopen(asked, binding());
  }
  void *file = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names && file == NULL; i++) file = dlopen(*path = names[i], binding());
  return file;
}

static void load(void) {
  const char *path = "";
  void *file = open_named(&path);
  if (file == NULL)
    (void)snprintf(problem, sizeof problem, "%.60s cannot be loaded: %s", path, INSTALL);
  else if (!bind(file, path))
    (void)dlclose(file);
}

const ur_zstd *ur_zstd_library(ur_error *error) {
  (void)pthread_once(&once, load);
  if (problem[0] == '\0') return &library;
  (void)ur_fail(error, UR_COLUMN, "%s", problem);
  return NULL;
}
