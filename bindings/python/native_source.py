"""Writes the C source of weft's compiled module, weft._native, from the headers of the C ABI.

Usage: native_source.py INCLUDE_FOLDER OUTPUT.c

The prototypes are the headers' own, so that there is no second list of them. The module uses Python's stable ABI: one
compiled file serves CPython 3.9 and later."""

import pathlib
import re
import sys

import cffi

# The module has more than the C ABI: the destructor of DLPack capsules, which needs no interpreter's state beyond
# the capsule itself; and callbacks.
OWN_DECLARATIONS = """
uintptr_t weft_python_capsule_destructor(int versioned);
void weft_python_delete_managed(void* managed, int versioned);
int weft_python_take(int* flag);
int weft_python_put(int* flag, weft_remote_slot* remote, const weft_tensor* tensor, double timeout_seconds);
int weft_python_send(int* flag, weft_world* world, int to, uint64_t tag, const weft_tensor* tensor,
                     weft_message_request** request);
typedef struct { int* flag; weft_message_info known; weft_message_info came; } weft_python_mailbox;
int weft_python_recv(weft_python_mailbox* box, weft_world* world, int source, uint64_t tag, const weft_tensor* tensor,
                     double timeout_seconds);
extern "Python" void weft_python_reduce(void* context, void* into, const void* from, int64_t count, weft_dtype dtype);
extern "Python" weft_code weft_python_allocate(void* context, weft_dtype dtype, const int64_t* dims, size_t ndims,
                                               weft_tensor** tensor);
extern "Python" void weft_python_rule(void* context, const weft_rule_step* step, float* parameters,
                                      const float* gradient, float* const* states, size_t count);
extern "Python" void weft_python_observe(void* context, const weft_rendezvous_event* event);
"""

OWN_SOURCE = """
#include "weft.h"

/* The first members of DLPack's two structs, up to their deleters. */
struct python_versioned {
  uint32_t version[2];
  void* context;
  void (*deleter)(struct python_versioned*);
};
struct python_unversioned {
  void* data;
  int32_t device[2];
  int32_t ndim;
  uint32_t dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
  void* context;
  void (*deleter)(struct python_unversioned*);
};

static void weft_python_delete_managed(void* managed, int versioned) {
  if (versioned) {
    struct python_versioned* self = (struct python_versioned*)managed;
    if (self->deleter != NULL) self->deleter(self);
  } else {
    struct python_unversioned* self = (struct python_unversioned*)managed;
    if (self->deleter != NULL) self->deleter(self);
  }
}

/* Whether a flag was free, which is taken then. */
static int weft_python_take(int* flag) {
  return __atomic_exchange_n(flag, 1, __ATOMIC_ACQUIRE) == 0;
}
/* weft_put while the flag is taken; -1 if another thread has it. One call of C in place of three, since puts and
 * messages of small tensors are what a loop has most. */
static int weft_python_put(int* flag, weft_remote_slot* remote, const weft_tensor* tensor, double timeout_seconds) {
  int code;
  if (!weft_python_take(flag)) return -1;
  code = (int)weft_put(remote, tensor, timeout_seconds);
  __atomic_store_n(flag, 0, __ATOMIC_RELEASE);
  return code;
}

/* Sends a message. -2: it is under way as `request`, which the caller waits for; the flag stays taken. */
static int weft_python_send(int* flag, weft_world* world, int to, uint64_t tag, const weft_tensor* tensor,
                            weft_message_request** request) {
  int code;
  if (!weft_python_take(flag)) return -1;
  code = (int)weft_message_isend(world, to, tag, tensor, request);
  if (code == 0) {
    code = (int)weft_message_request_wait(*request, 0.0, NULL);
    if (code == WEFT_CODE_TIMEOUT) return -2;
    (void)weft_message_request_free(*request);
  }
  __atomic_store_n(flag, 0, __ATOMIC_RELEASE);
  return code;
}
/* Messages that are alike have one report in Python, `known`, which never changes. `came`: that of another message. */
typedef struct {
  int* flag;
  weft_message_info known;
  weft_message_info came;
} weft_python_mailbox;
/* -1: another thread has the flag. -2: a message came whose report is another; the flag stays taken until the caller
 * has read it. */
static int weft_python_recv(weft_python_mailbox* box, weft_world* world, int source, uint64_t tag,
                            const weft_tensor* tensor, double timeout_seconds) {
  weft_message_info came = {0};
  int code;
  if (!weft_python_take(box->flag)) return -1;
  came.struct_size = sizeof came;
  code = (int)weft_message_recv(world, source, tag, WEFT_EXACT_TAG, tensor, timeout_seconds, &came);
  if (code > 0) return code;
  if (came.source != box->known.source || came.tag != box->known.tag || came.bytes != box->known.bytes ||
      came.dtype != box->known.dtype) {
    box->came = came;
    return -2;
  }
  __atomic_store_n(box->flag, 0, __ATOMIC_RELEASE);
  return 0;
}

/* A capsule that a consumer has taken has another name. */
static void destroy_versioned(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
    weft_python_delete_managed(PyCapsule_GetPointer(capsule, "dltensor_versioned"), 1);
}
static void destroy_unversioned(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor"))
    weft_python_delete_managed(PyCapsule_GetPointer(capsule, "dltensor"), 0);
}
static uintptr_t weft_python_capsule_destructor(int versioned) {
  return (uintptr_t)(versioned ? destroy_versioned : destroy_unversioned);
}
"""


def declarations(folder: pathlib.Path) -> str:
    """The headers' declarations as cffi reads them, each header behind those that it includes."""
    seen: set[str] = set()
    parts: list[str] = []

    def read(name: str) -> None:
        if name in seen:
            return
        seen.add(name)
        text = re.sub(r"/\*.*?\*/", "", (folder / name).read_text(), flags=re.S)
        for included in re.findall(r'#include "([^"]+)"', text):
            read(included)
        text = re.sub(r"#ifdef __cplusplus\n.*?#else\n(.*?)#endif", r"\1", text, flags=re.S)
        lines = []
        for line in text.splitlines():
            constant = re.match(r"#define (WEFT_[A-Z_]+) (\S.*)$", line)
            if constant and constant[1] not in ("WEFT_C_BEGIN", "WEFT_C_END"):
                # Numbers are written out, since arrays have their length; the rest is the compiler's to know.
                value = constant[2]
                lines.append(f"#define {constant[1]} {value if value.isdigit() else '...'}")
            elif not line.startswith("#") and line not in ("WEFT_C_BEGIN", "WEFT_C_END"):
                lines.append(line.replace(" WEFT_C_ENUM", ""))
        parts.append("\n".join(lines))

    read("weft.h")
    return "\n".join(parts)


def main() -> None:
    folder, output = pathlib.Path(sys.argv[1]), sys.argv[2]
    ffi = cffi.FFI()
    ffi.cdef(declarations(folder) + OWN_DECLARATIONS)
    ffi.set_source("weft._native", OWN_SOURCE)
    ffi.emit_c_code(output)


if __name__ == "__main__":
    main()
