/* Messages: tensors sent to a rank, which receives them by source and tag. weft/message.hpp has the
 * order of messages, and when they are copied. One thread of a world at a time. */
#ifndef WEFT_C_MESSAGE_H
#define WEFT_C_MESSAGE_H

#include "weft/c/tensor.h"

WEFT_C_BEGIN

/* As the source of a receive: any rank. */
#define WEFT_ANY_SOURCE (-1)
/* As the mask of a receive: the tag itself, and any tag. */
#define WEFT_EXACT_TAG UINT64_MAX
#define WEFT_ANY_TAG ((uint64_t)0)

typedef struct weft_message_request weft_message_request; /* freed by weft_message_request_free */

/* A message as its receive reports it. */
typedef struct weft_message_info {
  size_t struct_size;
  uint64_t tag;
  size_t bytes;     /* size of the message; the receive's tensor may be larger */
  int source;       /* the sender's rank */
  weft_dtype dtype; /* element type of the tensor that was sent */
} weft_message_info;

/* The tensor and tag of a send, and the source, tags and tensor of a receive: a receive takes the
 * tags that equal `tag` in every bit of `mask`. In all functions below `info` may be NULL. */

/* Sends the bytes of a dense tensor to rank `to`, and returns when it may be written again. After
 * WEFT_CODE_TIMEOUT a tensor that was offered stays lent; any other was not sent. */
weft_code weft_message_send(weft_world* world, int to, uint64_t tag, const weft_tensor* tensor,
                            double timeout_seconds);
/* The same without waiting: the tensor is lent until the request has ended. */
weft_code weft_message_isend(weft_world* world, int to, uint64_t tag, const weft_tensor* tensor,
                             weft_message_request** request);
/* Receives a message into the first bytes of `into`, which has its element type or is of u8.
 * WEFT_CODE_MISMATCH: it is larger than `into`, or of another type, and was dropped. */
weft_code weft_message_recv(weft_world* world, int from, uint64_t tag, uint64_t mask,
                            const weft_tensor* into, double timeout_seconds,
                            weft_message_info* info);
/* The same without waiting: `into` is lent until the request has ended. */
weft_code weft_message_irecv(weft_world* world, int from, uint64_t tag, uint64_t mask,
                             const weft_tensor* into, weft_message_request** request);
/* Sends and receives at once, so that ranks which exchange don't wait for each other's receive. */
weft_code weft_message_sendrecv(weft_world* world, int to, uint64_t tag, const weft_tensor* tensor,
                                int from, uint64_t from_tag, uint64_t from_mask,
                                const weft_tensor* into, double timeout_seconds,
                                weft_message_info* info);
/* Waits for a message that a receive would take, and leaves it in place. */
weft_code weft_message_probe(weft_world* world, int from, uint64_t tag, uint64_t mask,
                             double timeout_seconds, weft_message_info* info);
/* `found` is 1 if weft_message_probe would return at once. Makes progress. */
weft_code weft_message_iprobe(weft_world* world, int from, uint64_t tag, uint64_t mask,
                              weft_message_info* info, int* found);

/* `ended` is 1 if the operation has ended, well or not. Never blocks; makes progress. */
weft_code weft_message_request_test(weft_message_request* request, int* ended);
/* Waits for the operation's end and returns its code. A timeout leaves it under way, and its tensor
 * lent. */
weft_code weft_message_request_wait(weft_message_request* request, double timeout_seconds,
                                    weft_message_info* info);
/* Cancels a receive that no message has matched, or a send that has not left this rank:
 * WEFT_CODE_CANCELLED, also from then on. WEFT_CODE_BAD_ARGUMENT: wait for it instead. */
weft_code weft_message_request_cancel(weft_message_request* request);
/* Frees the handle. A receive that no message has matched is cancelled; any other operation goes on
 * and keeps its tensor's memory. */
weft_code weft_message_request_free(weft_message_request* request);
/* Waits for all requests to end and returns the first failure in their order; each can then be
 * asked by its own wait. */
weft_code weft_message_wait_all(weft_world* world, weft_message_request* const* requests,
                                size_t count, double timeout_seconds);
/* Waits for one of the requests to end and returns its index. If several have ended, successive
 * calls return each in turn. */
weft_code weft_message_wait_any(weft_world* world, weft_message_request* const* requests,
                                size_t count, double timeout_seconds, size_t* index);

WEFT_C_END

#endif /* WEFT_C_MESSAGE_H */
