/* folder.h - the end of the folder that a program of tests worked in. */
#ifndef UR_TEST_FOLDER_H
#define UR_TEST_FOLDER_H

#include <stdio.h>
#include <stdlib.h>

/* Removes it; returns what main is to return. */
static inline int remove_folder(const char *folder) {
  char command[96];
  (void)snprintf(command, sizeof command, "rm -r '%.80s'", folder);
  return system(command) == 0 ? 0 : 1;
}

#endif
