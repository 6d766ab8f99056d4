/* For C programs that test weft.h: checks, and a job of this process under mpirun or of threads.
 *
 *   PROGRAM              a rank of the job that mpirun has started
 *   PROGRAM --threads N  N ranks, each a thread of this process */
#ifndef WEFT_TESTS_C_RANKS_H
#define WEFT_TESTS_C_RANKS_H

#include <stdint.h>

#include "weft.h"

enum { kSeconds = 20 };

/* Reports a failure, which run_job's result then tells; the program goes on. */
void expect(int holds, const char* what);
int failures_so_far(void);
/* Ends the program unless `code` is WEFT_CODE_OK. */
void require(weft_code code, const char* what);
/* Expects that code, and a text that has `part`. */
void expect_error(weft_code code, weft_code wanted, const char* part, const char* what);

typedef void (*rank_body)(weft_world* world, int rank, int size);
/* Runs `body` as the ranks of a job. The exit code of the program. */
int run_job(int argc, char** argv, rank_body body);

weft_tensor* new_tensor(weft_world* world, weft_dtype dtype, int64_t elements);
/* The elements of a tensor, as floats or as any other type. */
float* floats_of(const weft_tensor* tensor);
void* data_of(const weft_tensor* tensor);
/* A tensor of f32 whose element i is first + i. */
weft_tensor* new_floats(weft_world* world, int64_t elements, float first);
void expect_floats(const void* data, int64_t elements, float first, const char* what);

/* Returns when all ranks have called it. */
void meet(weft_world* world);
/* Makes a folder that all ranks get the name of. */
enum { kFolderName = 32 };
void make_shared_folder(weft_world* world, int rank, char folder[kFolderName]);
void remove_folder(const char* folder);

#endif /* WEFT_TESTS_C_RANKS_H */
