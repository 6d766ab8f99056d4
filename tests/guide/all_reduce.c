/* [c] */
#include <stdio.h>
#include <weft.h>
#define TRY(call) \
  if ((call) != WEFT_CODE_OK) return fprintf(stderr, "%s\n", weft_error_text()), 1

int main(void) {
  weft_world* world;
  weft_collectives* group;
  weft_tensor* tensor;
  void* data;
  const int64_t four = 4;
  TRY(weft_join(&world));
  TRY(weft_collectives_open(world, NULL, -1, &group));
  TRY(weft_tensor_allocate(world, WEFT_DTYPE_F32, &four, 1, &tensor));
  TRY(weft_tensor_data(tensor, &data));
  for (int i = 0; i < 4; ++i) ((float*)data)[i] = 1.5F;
  const weft_call sum = {.struct_size = sizeof sum,
                         .kind = WEFT_COLLECTIVE_ALL_REDUCE,
                         .reduction = WEFT_REDUCTION_SUM,
                         .out = tensor};
  TRY(weft_collectives_run(group, &sum, -1));
  printf("the sum in C is %g\n", (double)((float*)data)[3]);
  TRY(weft_tensor_free(tensor));
  TRY(weft_collectives_close(group));
  TRY(weft_leave(world, -1));
  return 0;
}
/* [end] */
