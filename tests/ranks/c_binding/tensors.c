/* Tensors from C: parts and strides, DLPack both ways, and the queue of unused memory. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "c_ranks.h"
#include "dlpack_structs.h"

static weft_tensor_info info_of(const weft_tensor* tensor) {
  weft_tensor_info info = {.struct_size = sizeof info};
  require(weft_tensor_get_info(tensor, &info), "info");
  return info;
}

static void check_parts(weft_world* world) {
  const int64_t dims[2] = {3, 4}, part_dims[1] = {5}, flat_dims[2] = {6, 2};
  weft_tensor *whole = NULL, *part = NULL, *columns = NULL, *same = NULL;
  weft_tensor_info info;
  char* text = NULL;
  require(weft_tensor_allocate(world, WEFT_DTYPE_F32, dims, 2, &whole), "allocate");
  for (int i = 0; i < 12; ++i) floats_of(whole)[i] = (float)i;
  require(weft_tensor_part(whole, 6, part_dims, 1, &part), "part");
  expect_floats(floats_of(part), 5, 6, "a part has its elements");
  expect_error(weft_tensor_part(whole, 8, part_dims, 1, &same), WEFT_CODE_BAD_ARGUMENT, "",
               "a part beyond the end is refused");
  require(weft_tensor_reshape(whole, flat_dims, 2, &same), "reshape");
  info = info_of(same);
  expect(info.ndims == 2 && info.dims[0] == 6 && info.data == floats_of(whole) && info.dense,
         "a reshaped tensor shares the memory");
  require(weft_tensor_free(same), "free");
  expect_error(weft_tensor_reshape(whole, part_dims, 1, &same), WEFT_CODE_BAD_ARGUMENT, "12",
               "a shape of other elements is refused");
  require(weft_tensor_slice(whole, 1, 1, 2, &columns), "slice");
  info = info_of(columns);
  expect(info.ndims == 2 && info.dims[0] == 3 && info.dims[1] == 2 && info.strides[0] == 4 &&
             info.strides[1] == 1 && !info.dense && info.bytes == 24 && info.extent == 40 &&
             info.memory == WEFT_MEMORY_ARENA && info.data == floats_of(whole) + 1,
         "columns have strides");
  require(weft_tensor_share(columns, &same), "share");
  require(weft_tensor_free(whole), "free");
  require(weft_tensor_free(columns), "free");
  expect(floats_of(same)[4] == 5, "the last handle keeps the memory");
  require(weft_tensor_text(same, &text), "text");
  expect(strcmp(text, "f32[3, 2]") == 0, "a tensor's text has its type and shape");
  weft_text_free(text);
  require(weft_tensor_free(same), "free");
  require(weft_tensor_free(part), "free");
}

static void check_strides(void) {
  float memory[6] = {0, 1, 2, 3, 4, 5};
  const int64_t dims[2] = {2, 3}, strides[2] = {1, 2}, wrong[2] = {1, -2};
  const int64_t far[2] = {INT64_MAX / 2, INT64_MAX / 2};
  weft_tensor* tensor = NULL;
  weft_tensor_info info;
  require(weft_tensor_wrap_strided(memory, WEFT_DTYPE_F32, dims, strides, 2, &tensor), "wrap");
  info = info_of(tensor);
  expect(!info.dense && info.strides[1] == 2 && info.memory == WEFT_MEMORY_WRAPPED,
         "a transposed matrix is described");
  require(weft_tensor_free(tensor), "free");
  expect(weft_tensor_wrap_strided(memory, WEFT_DTYPE_F32, dims, wrong, 2, &tensor) ==
             WEFT_CODE_BAD_ARGUMENT,
         "a stride below 0 is refused");
  expect_error(weft_tensor_wrap_strided(memory, WEFT_DTYPE_F32, dims, far, 2, &tensor),
               WEFT_CODE_BAD_ARGUMENT, "further", "strides beyond all memory are refused");
}

static void* call_deleter(void* given) {
  new_tensor_of_dlpack* managed = given;
  managed->deleter(managed);
  return NULL;
}

static void check_export(weft_world* world) {
  weft_tensor* tensor = new_floats(world, 10, 3);
  new_tensor_of_dlpack* managed = NULL;
  old_tensor* old = NULL;
  pthread_t other;
  require(weft_tensor_to_dlpack(tensor, (struct DLManagedTensorVersioned**)&managed), "export");
  require(weft_tensor_to_dlpack_unversioned(tensor, (struct DLManagedTensor**)&old), "export");
  require(weft_tensor_free(tensor), "free");
  expect(managed->major == 1 && managed->flags == 0 && managed->tensor.device.type == 1 &&
             managed->tensor.dtype.code == 2 && managed->tensor.dtype.bits == 32 &&
             managed->tensor.dtype.lanes == 1 && managed->tensor.ndim == 1 &&
             managed->tensor.shape[0] == 10 && managed->tensor.strides[0] == 1,
         "DLPack has the type and shape");
  expect_floats(managed->tensor.data, 10, 3, "DLPack keeps the elements");
  pthread_create(&other, NULL, call_deleter, managed);
  pthread_join(other, NULL);
  expect_floats(old->tensor.data, 10, 3, "each export has its own hold");
  old->deleter(old);
}

/* A tensor of another library, and how often it was deleted. */
typedef struct foreign {
  new_tensor_of_dlpack managed;
  float memory[6];
  int64_t shape[2], strides[2];
  int deleted;
} foreign;

static void delete_foreign(struct DLManagedTensorVersioned* self) {
  ++((foreign*)self->context)->deleted;
}

static foreign new_foreign(void) {
  foreign made = {.memory = {0, 1, 2, 3, 4, 5}, .shape = {2, 3}, .strides = {3, 1}};
  made.managed.major = 1;
  made.managed.deleter = delete_foreign;
  made.managed.tensor.device.type = 1;
  made.managed.tensor.ndim = 2;
  made.managed.tensor.dtype.code = 2;
  made.managed.tensor.dtype.bits = 32;
  made.managed.tensor.dtype.lanes = 1;
  return made;
}

static struct DLManagedTensorVersioned* linked(foreign* from) {
  from->managed.context = from;
  from->managed.tensor.data = from->memory;
  from->managed.tensor.shape = from->shape;
  from->managed.tensor.strides = from->strides;
  return &from->managed;
}

static void check_import(weft_world* world) {
  foreign theirs = new_foreign();
  weft_tensor *tensor = NULL, *part = NULL;
  const int64_t three = 3;
  weft_tensor_info info;
  require(weft_tensor_from_dlpack(world, linked(&theirs), NULL, &tensor), "import");
  info = info_of(tensor);
  expect(info.memory == WEFT_MEMORY_ADOPTED && info.data == theirs.memory && info.ndims == 2 &&
             info.dtype == WEFT_DTYPE_F32 && !info.read_only,
         "a DLPack tensor is adopted");
  require(weft_tensor_part(tensor, 3, &three, 1, &part), "part");
  require(weft_tensor_free(tensor), "free");
  expect(theirs.deleted == 0, "a part keeps the memory");
  require(weft_tensor_free(part), "free");
  expect(theirs.deleted == 1, "the deleter is called once");

  require(weft_tensor_from_dlpack(NULL, linked(&theirs), NULL, &tensor), "import without a world");
  expect(info_of(tensor).memory == WEFT_MEMORY_WRAPPED, "without a world it is wrapped");
  require(weft_tensor_free(tensor), "free");
  expect(theirs.deleted == 2, "a wrapped tensor is deleted too");
}

static void check_read_only(weft_world* world) {
  foreign theirs = new_foreign();
  weft_tensor* tensor = NULL;
  weft_slot* slot = NULL;
  new_tensor_of_dlpack* managed = NULL;
  old_tensor* old = NULL;
  const int64_t dims[2] = {2, 3};
  const weft_slot_spec spec = {"read-only", WEFT_DTYPE_F32, dims, 2, 1};
  theirs.managed.flags = 1;
  require(weft_tensor_from_dlpack(world, linked(&theirs), NULL, &tensor), "import");
  expect(info_of(tensor).read_only, "the flag is kept");
  expect_error(weft_slot_expose_in(world, &spec, tensor, &slot), WEFT_CODE_BAD_ARGUMENT,
               "read-only", "no slot lies in read-only memory");
  require(weft_tensor_to_dlpack(tensor, (struct DLManagedTensorVersioned**)&managed), "export");
  expect(managed->flags == 1, "the flag goes on");
  managed->deleter(managed);
  expect_error(weft_tensor_to_dlpack_unversioned(tensor, (struct DLManagedTensor**)&old),
               WEFT_CODE_BAD_ARGUMENT, "read-only", "the old form can't say so");
  require(weft_tensor_free(tensor), "free");
}

static void check_refused_imports(weft_world* world) {
  foreign theirs = new_foreign();
  weft_tensor* tensor = NULL;
  struct DLManagedTensorVersioned* managed = linked(&theirs);
  theirs.strides[0] = 1;
  theirs.strides[1] = 2;
  expect_error(weft_tensor_from_dlpack(world, managed, NULL, &tensor), WEFT_CODE_BAD_ARGUMENT,
               "contiguous", "strides are refused");
  theirs.managed.tensor.strides = NULL;
  theirs.managed.tensor.device.type = 10;
  expect_error(weft_tensor_from_dlpack(world, managed, NULL, &tensor), WEFT_CODE_BAD_ARGUMENT,
               "device", "memory of a device that weft does not know is refused");
  theirs.managed.tensor.device.type = 2;
  expect(weft_tensor_from_dlpack(world, managed, NULL, &tensor) != WEFT_CODE_OK,
         "host memory is no GPU's, with a driver or without");
  theirs.managed.tensor.device.type = 1;
  theirs.managed.tensor.dtype.bits = 24;
  expect_error(weft_tensor_from_dlpack(world, managed, NULL, &tensor), WEFT_CODE_BAD_ARGUMENT,
               "24 bits", "an unknown type is refused");
  theirs.managed.tensor.dtype.bits = 32;
  theirs.managed.major = 2;
  expect_error(weft_tensor_from_dlpack(world, managed, NULL, &tensor), WEFT_CODE_BAD_ARGUMENT,
               "DLPack 2", "a later DLPack is refused");
  expect(theirs.deleted == 0, "a tensor that is refused stays its owner's");
}

static void check_queue(weft_world* world) {
  foreign theirs = new_foreign();
  weft_unused_queue* queue = NULL;
  weft_tensor *first = NULL, *second = NULL;
  float memory[4] = {0};
  const int64_t four = 4;
  void* token = NULL;
  int found = 1;
  require(weft_unused_queue_new(&queue), "queue");
  require(weft_tensor_adopt_queued(world, memory, WEFT_DTYPE_F32, &four, 1, queue, &memory, &first),
          "adopt");
  require(weft_tensor_from_dlpack(world, linked(&theirs), queue, &second), "import");
  require(weft_unused_queue_next(queue, &token, &found), "next");
  expect(!found && token == NULL, "memory that is used is in no queue");
  require(weft_tensor_free(first), "free");
  require(weft_unused_queue_next(queue, &token, &found), "next");
  expect(found && token == &memory, "its token comes");
  require(weft_tensor_free(second), "free");
  require(weft_unused_queue_next(queue, &token, &found), "next");
  expect(found && token == &theirs.managed && theirs.deleted == 0,
         "a DLPack tensor comes to the queue, and its deleter is the caller's to call");
  require(weft_unused_queue_next(queue, &token, &found), "next");
  expect(!found, "each token comes once");
  require(weft_tensor_adopt_queued(world, memory, WEFT_DTYPE_F32, &four, 1, queue, &memory, &first),
          "adopt");
  require(weft_unused_queue_free(queue), "free the queue");
  require(weft_tensor_free(first), "free after the queue");
}

static void check_wrapped_queue(void) {
  weft_unused_queue* queue = NULL;
  weft_tensor *first = NULL, *second = NULL;
  float memory[4] = {0, 1, 2, 3};
  const int64_t four = 4;
  void* token = NULL;
  int found = 1;
  require(weft_unused_queue_new(&queue), "queue");
  require(weft_tensor_wrap_queued(memory, WEFT_DTYPE_F32, &four, 1, 1, queue, &token, &first),
          "wrap");
  expect(info_of(first).memory == WEFT_MEMORY_WRAPPED && info_of(first).read_only &&
             floats_of(first) == memory,
         "wrapped memory with an owner is wrapped");
  require(weft_tensor_share(first, &second), "share");
  require(weft_tensor_free(first), "free");
  require(weft_unused_queue_next(queue, &token, &found), "next");
  expect(!found, "wrapped memory that is used is in no queue");
  require(weft_tensor_free(second), "free");
  require(weft_unused_queue_next(queue, &token, &found), "next");
  expect(found && token == &token, "the token of wrapped memory comes");
  require(weft_unused_queue_free(queue), "free the queue");
}

static void body(weft_world* world, int rank, int size) {
  (void)rank, (void)size;
  check_parts(world);
  check_strides();
  check_export(world);
  check_import(world);
  check_read_only(world);
  check_refused_imports(world);
  check_queue(world);
  check_wrapped_queue();
}

int main(int argc, char** argv) { return run_job(argc, argv, body); }
