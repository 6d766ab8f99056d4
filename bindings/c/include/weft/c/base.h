/* Shared by all parts of weft.h: codes, element types, handles, the error of a thread.
 *
 * Every function returns a weft_code and never throws or aborts. If the code is not WEFT_CODE_OK,
 * weft_last_error() says why, per thread. A NULL argument is WEFT_CODE_BAD_ARGUMENT, unless the
 * function says otherwise. Outputs are written only on success.
 *
 * Timeouts are in seconds; a negative one stands for the world's own limit (WEFT_TIMEOUT). There is
 * no infinite wait.
 *
 * Handles are opaque. The caller owns them and frees each once, by the function that its type
 * names. A handle is freed before the one that it was made from (arrivals and requests before their
 * slot, slots and all else before their world): a call that would break this order returns
 * WEFT_CODE_BAD_ARGUMENT and changes nothing. Tensors and groups may outlive their world. After
 * weft_world_leave, handles are still freed; other calls that need the job are WEFT_CODE_CLOSED.
 *
 * Structs that begin with `struct_size` may grow in later releases. The caller sets `struct_size`
 * to the struct's size. A field that an older program does not know has its default; one that an
 * older weft does not know must be 0, or the call is WEFT_CODE_BAD_ARGUMENT. A field that is 0 or
 * NULL has its default, unless it says otherwise, so this is a struct of defaults:
 * `weft_x x = {.struct_size = sizeof x};`
 *
 * Texts that a function returns by `char**` belong to the caller, who frees them by
 * weft_text_free.
 *
 * Forks: in a fork of a rank's process every call that takes a world, or a handle made from one
 * other than a tensor or group, returns WEFT_CODE_FORKED and changes nothing; handles need not be
 * freed there. The elements of arena tensors and of arrivals are not mapped there.
 *
 * Threads: several threads may use a world; one thread at a time may use any other handle, unless
 * its type says otherwise. */
#ifndef WEFT_C_BASE_H
#define WEFT_C_BASE_H

#include <stddef.h>
#include <stdint.h>

/* libweft.so exports the declarations between these two, whatever visibility the including program
 * sets. */
#ifdef __cplusplus
#define WEFT_C_BEGIN _Pragma("GCC visibility push(default)") extern "C" {
#define WEFT_C_END \
  }                \
  _Pragma("GCC visibility pop")
#else
#define WEFT_C_BEGIN _Pragma("GCC visibility push(default)")
#define WEFT_C_END _Pragma("GCC visibility pop")
#endif

/* In C any number may stand in an enumeration, and weft refuses those that it does not know; this
 * makes C++ think alike. */
#ifdef __cplusplus
#define WEFT_C_ENUM : int
#else
#define WEFT_C_ENUM
#endif

WEFT_C_BEGIN

/* The kinds of failure, with the values of weft::Code; the last is this API's own. */
typedef enum weft_code WEFT_C_ENUM {
  WEFT_CODE_OK = 0,
  WEFT_CODE_TIMEOUT = 1,
  WEFT_CODE_PEER_FAILED = 2,
  WEFT_CODE_PEER_LEFT = 3,
  WEFT_CODE_CLOSED = 4,
  WEFT_CODE_MISMATCH = 5,
  WEFT_CODE_DUPLICATE_NAME = 6,
  WEFT_CODE_WRITER_TAKEN = 7,
  WEFT_CODE_BAD_ARGUMENT = 8,
  WEFT_CODE_BAD_CONFIG = 9,
  WEFT_CODE_EXHAUSTED = 10,
  WEFT_CODE_UNREACHABLE = 11,
  WEFT_CODE_FLOW_OVERRUN = 12,
  WEFT_CODE_CANCELLED = 13,
  WEFT_CODE_BOOTSTRAP = 14,
  WEFT_CODE_SYSTEM = 15,
  WEFT_CODE_FORKED = 16,
  WEFT_CODE_PATH_FAILED = 17,
  WEFT_CODE_FENCED = 18,
  WEFT_CODE_PARTITIONED = 19,
  WEFT_CODE_UNDER_WAY = 100 /* a put goes on after its call, and its tensor stays lent to weft */
} weft_code;

/* Element types, with the values of weft::DType. */
typedef enum weft_dtype WEFT_C_ENUM {
  WEFT_DTYPE_F64 = 0,
  WEFT_DTYPE_F32 = 1,
  WEFT_DTYPE_F16 = 2,
  WEFT_DTYPE_BF16 = 3,
  WEFT_DTYPE_I64 = 4,
  WEFT_DTYPE_I32 = 5,
  WEFT_DTYPE_I8 = 6,
  WEFT_DTYPE_U8 = 7,
  WEFT_DTYPE_BOOL = 8
} weft_dtype;

/* The largest number of dimensions of a tensor. */
#define WEFT_MAX_DIMS 8

typedef struct weft_world weft_world;             /* freed by weft_leave */
typedef struct weft_tensor weft_tensor;           /* freed by weft_tensor_free */
typedef struct weft_slot weft_slot;               /* freed by weft_slot_close */
typedef struct weft_remote_slot weft_remote_slot; /* freed by weft_remote_slot_close */
typedef struct weft_arrival weft_arrival;         /* freed by weft_arrival_release */
typedef struct weft_group weft_group;             /* freed by weft_group_free */

/* All that is known about one failure. Texts that don't apply are empty, ranks are -1. No text is
 * NULL. */
typedef struct weft_error {
  size_t struct_size;
  weft_code code;
  int rank;                   /* the rank that reports the failure */
  int peer;                   /* the rank at fault or waited for */
  int reserved;               /* 0 */
  const char* operation;      /* the operation that failed: "put", "attach", "join" */
  const char* message;        /* the event, with both sides' values if two sides disagree */
  const char* hint;           /* a remedy to try */
  const char* host;           /* the peer's host */
  const char* slot;           /* the slot concerned */
  uint64_t sequence_expected; /* waits: the sequence number waited for */
  uint64_t sequence_seen;     /* waits: the last sequence number seen */
} weft_error;

/* The code and the one-line text of this thread's last failing call; WEFT_CODE_OK and "" before the
 * first. The text stays valid until this thread's next failing call and is never NULL. */
weft_code weft_error_code(void);
const char* weft_error_text(void);
/* The same failure by its parts. The texts stay valid as long as weft_error_text()'s. */
weft_code weft_last_error(weft_error* error);
/* The code's name as it is printed and documented, e.g. "peer_failed"; "unknown" for any other
 * number. Never NULL. */
const char* weft_code_name(weft_code code);
/* The type's name, e.g. "f32"; "unknown" for any other number. Never NULL. */
const char* weft_dtype_name(weft_dtype dtype);
/* Bytes of one element; 0 for any other number. */
size_t weft_dtype_bytes(weft_dtype dtype);
/* Frees a text that weft has returned; NULL is ignored. */
void weft_text_free(char* text);

WEFT_C_END

#endif /* WEFT_C_BASE_H */
