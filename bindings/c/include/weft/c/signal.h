/* Signals: 64-bit words of one rank that all ranks can add to and wait for. */
#ifndef WEFT_C_SIGNAL_H
#define WEFT_C_SIGNAL_H

#include "weft/c/slot.h"

WEFT_C_BEGIN

typedef struct weft_signal weft_signal;               /* freed by weft_signal_close; any thread may
                                                       * use it, except to close it */
typedef struct weft_remote_signal weft_remote_signal; /* freed by weft_remote_signal_close */

/* Exposes a signal with initial value `value`. A name has 1 to 200 bytes. */
weft_code weft_signal_expose(weft_world* world, const char* name, uint64_t value,
                             weft_signal** signal);
weft_code weft_signal_value(const weft_signal* signal, uint64_t* value);
/* Adds `amount`, modulo 2^64. `previous` may be NULL, here and below. */
weft_code weft_signal_fetch_add(weft_signal* signal, uint64_t amount, uint64_t* previous);
/* Stores `desired` if the value is `expected`. */
weft_code weft_signal_compare_swap(weft_signal* signal, uint64_t expected, uint64_t desired,
                                   uint64_t* previous);
/* Waits until the value is at least `least`. `value` may be NULL. */
weft_code weft_signal_wait_at_least(weft_signal* signal, uint64_t least, double timeout_seconds,
                                    uint64_t* value);
/* Makes later waits also end when one of `ranks` is dead or has left. Replaces the ranks of an
 * earlier call. */
weft_code weft_signal_also_needs(weft_signal* signal, const int* ranks, size_t count);
/* Closes and frees the signal; its remote ends' operations end with WEFT_CODE_CLOSED. */
weft_code weft_signal_close(weft_signal* signal);

/* Attaches to the signal `name` of rank `owner`, waiting for it to be exposed. */
weft_code weft_remote_signal_attach(weft_world* world, int owner, const char* name,
                                    double timeout_seconds, weft_remote_signal** remote);
weft_code weft_remote_signal_owner(const weft_remote_signal* remote, int* owner);
/* `direct` is 1 if operations are this rank's own loads and stores, 0 if they are messages. */
weft_code weft_remote_signal_is_direct(const weft_remote_signal* remote, int* direct);
/* Adds `amount` and returns at once. The owner sees the sum after every put and message to it that
 * had ended before. */
weft_code weft_remote_signal_add(weft_remote_signal* remote, uint64_t amount);
/* After a timeout the operation may still take effect. */
weft_code weft_remote_signal_fetch_add(weft_remote_signal* remote, uint64_t amount,
                                       double timeout_seconds, uint64_t* previous);
weft_code weft_remote_signal_compare_swap(weft_remote_signal* remote, uint64_t expected,
                                          uint64_t desired, double timeout_seconds,
                                          uint64_t* previous);
/* Puts `tensor` into `slot`, waits until it is delivered, then adds `amount`: a rank that sees the
 * new value also sees the tensor. Nothing is added if the put fails. `slot` must be the same
 * owner's. */
weft_code weft_remote_signal_put(weft_remote_signal* remote, weft_remote_slot* slot,
                                 const weft_tensor* tensor, uint64_t amount,
                                 double timeout_seconds);
weft_code weft_remote_signal_close(weft_remote_signal* remote);

WEFT_C_END

#endif /* WEFT_C_SIGNAL_H */
