/* dataset/layers.h - the files of a dataset, opened as few sets of parts as possible: one for columns that lie in the same
 * file of each part. Internal. */
#ifndef UR_DATASET_LAYERS_H
#define UR_DATASET_LAYERS_H

#include "dataset/manifest.h"

/* Opens the files that a manifest in `folder` (which ends with '/') names, as one set with the columns of the schema. */
ur_status ur_layers_open(const ur_manifest *manifest, const char *folder, int32_t io, int32_t verify, ur_set **set,
                         ur_error *error);

#endif
