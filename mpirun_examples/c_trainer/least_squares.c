/* Fits a slope for each of 1000 lines in C by pslib, data-parallel:
 *   mpirun -n 3 least_squares_c
 * python/least_squares.py is the same program, and gives the same bits. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <weft.h>

enum { kLines = 1000, kSteps = 200 };

/* Says what failed, and returns 0. */
static int ok(weft_code code) {
  if (code != WEFT_CODE_OK) fprintf(stderr, "%s\n", weft_error_text());
  return code == WEFT_CODE_OK;
}

static float truth_of(int line) { return (float)(line % 7 - 3); }

/* The gradient of line i on this rank's point of this step. */
static void write_gradient(int rank, int step, const float* slopes, float* gradient) {
  for (int i = 0; i < kLines; ++i) {
    const float x = (float)((i * 37 + rank * 11 + step * 5) % 64 - 32) / 32.0F;
    gradient[i] = (slopes[i] * x - truth_of(i) * x) * x;
  }
}

/* Trains, and writes how far the worst slope is off. */
static int train(int rank, weft_table* table, float* worst) {
  weft_tensor *slopes = NULL, *gradient = NULL;
  void *values = NULL, *pushed = NULL;
  int done = ok(weft_table_parameter(table, "slopes", &slopes)) &&
             ok(weft_table_gradient(table, "slopes", &gradient)) &&
             ok(weft_tensor_data(slopes, &values)) && ok(weft_tensor_data(gradient, &pushed));
  if (done) memset(values, 0, kLines * sizeof(float));
  done = done && ok(weft_table_initialize(table, -1));
  for (int step = 1; done && step <= kSteps; ++step) {
    write_gradient(rank, step, values, pushed);
    done = ok(weft_table_push_pull(table, -1));
  }
  uint64_t bits = 0;
  *worst = 0;
  for (int i = 0; done && i < kLines; ++i) {
    uint32_t bits_of_one = 0;
    memcpy(&bits_of_one, (const float*)values + i, sizeof bits_of_one);
    bits += bits_of_one;
    *worst = fmaxf(*worst, fabsf(((const float*)values)[i] - truth_of(i)));
  }
  if (done && rank == 0)
    printf("%d steps, worst slope off by %.4f, bits 0x%llx\n", kSteps, (double)*worst,
           (unsigned long long)bits);
  return ok(weft_tensor_free(gradient)) && ok(weft_tensor_free(slopes)) && done;
}

int main(void) {
  const int64_t lines = kLines;
  const weft_table_tensor tensor = {sizeof tensor, "slopes", &lines, 1};
  weft_optimizer adam = {.struct_size = sizeof adam};
  const weft_table_options options = {.struct_size = sizeof options, .optimizer = &adam};
  weft_world* world = NULL;
  weft_parameter_server* server = NULL;
  weft_table* table = NULL;
  int rank = 0;
  float worst = 0;
  if (!ok(weft_join(&world)) || !ok(weft_rank(world, &rank)) ||
      !ok(weft_optimizer_defaults(WEFT_OPTIMIZER_ADAM, &adam)))
    return 1;
  adam.learning_rate = 0.05F;
  if (!ok(weft_parameter_server_open(world, NULL, NULL, NULL, &server)) ||
      !ok(weft_table_open(server, "fit", &tensor, 1, &options, -1, &table)) ||
      !train(rank, table, &worst))
    return 1;
  /* Other ranks may be reading this rank's shard: leave before the table goes. */
  return ok(weft_world_leave(world, -1)) && ok(weft_table_close(table)) &&
                 ok(weft_parameter_server_close(server)) && ok(weft_leave(world, -1)) &&
                 worst < 0.2F
             ? 0
             : 1;
}
