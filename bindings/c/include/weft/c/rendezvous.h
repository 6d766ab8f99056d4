/* Rendezvous: tensors exchanged by key and step; the receiver asks, and the sender writes into the
 * result. weft/rendezvous.hpp has the protocol. */
#ifndef WEFT_C_RENDEZVOUS_H
#define WEFT_C_RENDEZVOUS_H

#include "weft/c/tensor.h"

WEFT_C_BEGIN

typedef struct weft_rendezvous weft_rendezvous; /* freed by weft_rendezvous_close; any thread may
                                                 * use it, except to close it */

/* A message between two ranks about a tensor. */
typedef enum weft_rendezvous_message WEFT_C_ENUM {
  WEFT_RENDEZVOUS_HELLO = 0,
  WEFT_RENDEZVOUS_TENSOR_REQUEST = 1,
  WEFT_RENDEZVOUS_META_DATA_RESPONSE = 2,
  WEFT_RENDEZVOUS_TENSOR_RE_REQUEST = 3,
  WEFT_RENDEZVOUS_TENSOR = 4,
  WEFT_RENDEZVOUS_ERROR_STATUS = 5,
  WEFT_RENDEZVOUS_CANCEL = 6
} weft_rendezvous_message;

/* One message, as an observer sees it; weft sets struct_size. */
typedef struct weft_rendezvous_event {
  size_t struct_size;
  const char* key; /* `key_bytes` bytes without a NUL, valid during the observer's call */
  size_t key_bytes;
  uint64_t step;
  weft_rendezvous_message message;
  int peer;
  int sent;          /* 0: received */
  int by_name;       /* 1: a request that carried the key's name, not only its index */
  int with_metadata; /* 1: a request that carried the result's place */
  int reserved;
} weft_rendezvous_event;

/* Called for every message of this rank, in order for each peer, from any thread and under a lock:
 * it must be quick and must not call the rendezvous. */
typedef void (*weft_rendezvous_observer)(void* context, const weft_rendezvous_event* event);

/* The properties of a rendezvous. `name` and `message_bytes` must be equal on every rank; the
 * limits are this rank's own. */
typedef struct weft_rendezvous_spec {
  size_t struct_size;
  const char* name; /* 1 to 100 bytes; NULL: "default" */
  /* Limits on the tensors offered to one receiver and not fetched yet; above either, sends wait. */
  size_t max_parked_bytes; /* 0: 256 MiB */
  uint32_t max_parked;     /* 0: 1024 */
  /* Limit, at the sender, on one receiver's requests for tensors that are not offered yet. The
   * sender reads requests when it next offers a tensor, or waits in a call: the receive of one
   * beyond the limit fails then with WEFT_CODE_EXHAUSTED, and its key and step is not received any
   * more. */
  uint32_t max_parked_requests; /* 0: 2048 */
  uint32_t message_bytes;       /* 256 to 1536; 0: 512 */
  /* Turn the protocol's optimizations off, to measure their effect. */
  int no_metadata_cache;             /* 1: every exchange takes the extra round trip */
  int no_key_index;                  /* 1: every request carries its key's name */
  int no_request_batch;              /* 1: every request is a message of its own */
  weft_rendezvous_observer observer; /* may be NULL */
  void* observer_context;
  const int* place; /* where this rank's tensors are received: a GPU's number or WEFT_PLACE_*; NULL:
                     * in host memory */
} weft_rendezvous_spec;

/* The result of a receive. */
typedef struct weft_received {
  size_t struct_size;
  weft_tensor* tensor; /* the caller's, in this rank's arena or on its GPU; NULL if is_dead */
  int is_dead;         /* 1: no content, since the sender called weft_rendezvous_send_dead */
  int codec;           /* not 0: the tensor has the bytes of a value encoded by this codec */
  weft_code code;      /* of weft_rendezvous_recv_many: how this receive ended */
  int reserved;
} weft_received;

/* Opens the exchange between all ranks of the world, or between the members of `group` unless that
 * is NULL; each of them must call it with the same name and message_bytes. `spec` may be NULL. */
weft_code weft_rendezvous_open(weft_world* world, const weft_group* group,
                               const weft_rendezvous_spec* spec, double timeout_seconds,
                               weft_rendezvous** rendezvous);
/* Closes and frees the exchange at once. Offers that were not fetched are dropped: their receivers
 * get WEFT_CODE_CLOSED. */
weft_code weft_rendezvous_close(weft_rendezvous* rendezvous);

/* A tensor's name is a key of 1 to 128 bytes and a step; each name is exchanged once between two
 * ranks.
 *
 * Offers `tensor` to rank `to`. Returns when the tensor is parked or sent: it is lent until
 * weft_rendezvous_lent says otherwise, unless its memory is wrapped or on a GPU, which is copied at
 * once. */
weft_code weft_rendezvous_send(weft_rendezvous* rendezvous, int to, const char* key, uint64_t step,
                               const weft_tensor* tensor, double timeout_seconds);
/* Offers a tensor without content: the receiver's is_dead is 1. */
weft_code weft_rendezvous_send_dead(weft_rendezvous* rendezvous, int to, const char* key,
                                    uint64_t step, double timeout_seconds);
/* Offers an error: the receive fails with `code` and `text`. */
weft_code weft_rendezvous_send_error(weft_rendezvous* rendezvous, int to, const char* key,
                                     uint64_t step, weft_code code, const char* text,
                                     double timeout_seconds);
/* Offers a value that the caller has encoded: `bytes` bytes, which are copied, and the number of
 * their encoding, 1 to 65535. */
weft_code weft_rendezvous_send_encoded(weft_rendezvous* rendezvous, int to, const char* key,
                                       uint64_t step, int codec, const void* data, size_t bytes,
                                       double timeout_seconds);
/* `lent` is 1 while the offered tensor is still read from the caller's memory. */
weft_code weft_rendezvous_lent(const weft_rendezvous* rendezvous, int to, const char* key,
                               uint64_t step, int* lent);
/* Answers requests until everything that this rank has offered was fetched. */
weft_code weft_rendezvous_serve(weft_rendezvous* rendezvous, double timeout_seconds);

/* Asks for the tensor, unless this rank has asked; `ready` is 1 if weft_rendezvous_recv would
 * return at once. Never blocks. */
weft_code weft_rendezvous_ready(weft_rendezvous* rendezvous, int from, const char* key,
                                uint64_t step, int* ready);
/* Receives the tensor that rank `from` offers to this rank. A timeout leaves the request alive:
 * another call resumes it, weft_rendezvous_cancel ends it. */
weft_code weft_rendezvous_recv(weft_rendezvous* rendezvous, int from, const char* key,
                               uint64_t step, double timeout_seconds, weft_received* received);
/* Receives several tensors at once, in as few messages as possible. `received` has `count` structs,
 * each with its struct_size set to the first one's; all are written. Returns the first code that is
 * not WEFT_CODE_OK, in their order. */
weft_code weft_rendezvous_recv_many(weft_rendezvous* rendezvous, int from, const char* const* keys,
                                    const uint64_t* steps, size_t count, double timeout_seconds,
                                    weft_received* received);
/* Ends a request that a timeout left alive. */
weft_code weft_rendezvous_cancel(weft_rendezvous* rendezvous, int from, const char* key,
                                 uint64_t step);

WEFT_C_END

#endif /* WEFT_C_RENDEZVOUS_H */
