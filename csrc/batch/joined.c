/* batch/joined.c - one batch of a joined set: planned once, then each layer reads its own columns of the same rows. */
#include <stdlib.h>

#include "batch/read.h"
#include "unirecord_internal.h"

struct ur_layer_read {
  ur_read read;
  ur_output *outputs; /* those of this layer, with its own ordinals; NULL until it is measured */
  int32_t *from;      /* which outputs of the batch they are */
  int32_t count;
};

static ur_status open_joined(ur_read *read, ur_error *error) {
  read->layers = calloc((size_t)read->set->layers->count, sizeof *read->layers);
  return read->layers != NULL ? UR_OK : ur_fail(error, UR_NO_MEMORY, "no memory to read joined sets");
}

static void close_layer(ur_layer_read *layer) {
  if (layer->outputs == NULL) return;
  ur_read_close(&layer->read);
  free(layer->outputs);
  free(layer->from);
  *layer = (ur_layer_read){.count = 0};
}

static void close_joined(ur_read *read) {
  for (int32_t i = 0; i < read->set->layers->count; i++) close_layer(&read->layers[i]);
  free(read->layers);
}

/* The layer's outputs among those of the batch, as they are now. */
static int32_t choose(const ur_read *read, int32_t number, const ur_output *outputs, int32_t count, ur_layer_read *layer) {
  int32_t chosen = 0;
  for (int32_t i = 0; i < count; i++) {
    const ur_joined_column *column = &read->set->layers->columns[outputs[i].column];
    if (column->layer != number) continue;
    if (layer != NULL) {
      layer->outputs[chosen] = outputs[i];
      layer->outputs[chosen].column = column->column;
      layer->from[chosen] = i;
    }
    chosen++;
  }
  return chosen;
}

/* Names the joined set's column in place of the layer's: any of that layer's where none is to blame. */
static ur_status blame(ur_error *error, ur_status status, const ur_layer_read *layer, const ur_output *outputs) {
  if (status == UR_OK || error == NULL) return status;
  int32_t i = 0;
  while (i < layer->count && layer->outputs[i].column != error->column) i++;
  error->column = outputs[layer->from[i < layer->count ? i : 0]].column;
  return status;
}

/* Opens the parts of a layer; where there is no room for them, the other layers close parts that they need not keep. */
static ur_status open_layer(const ur_read *read, int32_t number, ur_error *error) {
  const ur_layers *layers = read->set->layers;
  ur_read *own = &read->layers[number].read;
  for (;;) {
    ur_error local = {0};
    ur_status status = ur_read_open_planned(own, layers->sets[number], &read->plan, read->rows, read->timing, &local);
    if (status != UR_OK && ur_layers_make_room(layers, number, &local)) {
      ur_read_close(own);
      continue;
    }
    if (status != UR_OK && error != NULL) *error = local;
    return status;
  }
}

static ur_status measure_layer(const ur_read *read, int32_t number, ur_output *outputs, int32_t count, ur_error *error) {
  ur_layer_read *layer = &read->layers[number];
  close_layer(layer); /* of an earlier call */
  int32_t chosen = choose(read, number, outputs, count, NULL);
  if (chosen == 0) return UR_OK;
  ur_output *own = calloc((size_t)chosen, sizeof *own);
  int32_t *from = calloc((size_t)chosen, sizeof *from);
  if (own == NULL || from == NULL) {
    free(own);
    free(from);
    return ur_fail(error, UR_NO_MEMORY, "no memory to read joined sets");
  }
  *layer = (ur_layer_read){.outputs = own, .from = from, .count = chosen};
  (void)choose(read, number, outputs, count, layer);
  ur_status status = open_layer(read, number, error);
  if (status == UR_OK) status = ur_read_measure(&layer->read, own, chosen, error);
  for (int32_t i = 0; i < chosen; i++) outputs[from[i]].used = own[i].used;
  return blame(error, status, layer, outputs);
}

static ur_status measure_joined(const ur_read *read, ur_output *outputs, int32_t output_count, ur_error *error) {
  ur_status status = UR_OK;
  for (int32_t i = 0; i < read->set->layers->count && status == UR_OK; i++)
    status = measure_layer(read, i, outputs, output_count, error);
  return status;
}

static ur_status gather_joined(const ur_read *read, const ur_output *outputs, int32_t output_count, ur_error *error) {
  ur_status status = UR_OK;
  for (int32_t i = 0; i < read->set->layers->count && status == UR_OK; i++) {
    ur_layer_read *layer = &read->layers[i];
    if (layer->count == 0) continue;
    (void)choose(read, i, outputs, output_count, layer); /* exact: the outputs that were measured */
    status = blame(error, ur_read_gather(&layer->read, layer->outputs, layer->count, error), layer, outputs);
  }
  return status;
}

const ur_joined_reads ur_joined = {
    .open = open_joined, .measure = measure_joined, .gather = gather_joined, .close = close_joined};
