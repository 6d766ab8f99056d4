/* Slots that their owner publishes: it fills a buffer and makes it visible as the newest version;
 * any number of ranks view or get the newest. And the wait for one of several handles. */
#ifndef WEFT_C_PUBLISHED_SLOT_H
#define WEFT_C_PUBLISHED_SLOT_H

#include "weft/c/collective.h"
#include "weft/c/message.h"
#include "weft/c/slot.h"

WEFT_C_BEGIN

typedef struct weft_published_slot weft_published_slot; /* freed by weft_published_slot_close */
typedef struct weft_published_reader
    weft_published_reader; /* freed by weft_published_reader_close */

/* A published slot's properties. Owner and readers give them, and they are compared when a reader
 * attaches. The pointers are read only during the call. */
typedef struct weft_published_spec {
  size_t struct_size;
  const char* name;    /* unique among all slots of its owner; at most 200 bytes */
  const int64_t* dims; /* may be NULL when ndims is 0 (a scalar) */
  size_t ndims;
  weft_dtype dtype;
  uint32_t depth; /* versions that may be viewed or filled at once, at most 4096; 0 stands for 1 */
  weft_flow flow; /* WEFT_FLOW_UNSAFE_SYNCHRONOUS: the owner may fill a buffer that is viewed */
  int reserved;
  const int* place; /* the owner's: where it fills versions, a GPU's number or WEFT_PLACE_*; NULL:
                     * in host memory */
} weft_published_spec;

/* Exposes a slot that this rank publishes and any rank reads. */
weft_code weft_published_slot_expose(weft_world* world, const weft_published_spec* spec,
                                     weft_published_slot** slot);
weft_code weft_published_slot_get_info(const weft_published_slot* slot, weft_slot_info* info);
/* The buffer to fill for the next version, valid until weft_published_slot_publish. Waits while
 * every buffer is viewed; the timeout's text names the reader that has viewed for longest. */
weft_code weft_published_slot_next(weft_published_slot* slot, double timeout_seconds,
                                   weft_tensor** tensor);
/* Makes the buffer that weft_published_slot_next gave visible to the readers.
 * WEFT_CODE_BAD_ARGUMENT without one. The tensor must still be freed. From a GPU the version is
 * copied to host memory first, within WEFT_TIMEOUT; after an error the buffer is still the one to
 * fill. */
weft_code weft_published_slot_publish(weft_published_slot* slot);
/* The number of ranks that are attached now. */
weft_code weft_published_slot_readers(const weft_published_slot* slot, int* readers);
/* weft_published_slot_next also ends when one of `ranks` is dead or has left. */
weft_code weft_published_slot_also_needs(weft_published_slot* slot, const int* ranks, size_t count,
                                         weft_needed needed);
/* Closes and frees the slot: the readers are told. */
weft_code weft_published_slot_close(weft_published_slot* slot);

/* Attaches to a slot that `owner` publishes, waiting for it to be exposed. */
weft_code weft_published_reader_attach(weft_world* world, int owner,
                                       const weft_published_spec* spec, double timeout_seconds,
                                       weft_published_reader** reader);
/* The same by name alone, with the properties that the owner has declared. */
weft_code weft_published_reader_attach_by_name(weft_world* world, int owner, const char* name,
                                               double timeout_seconds,
                                               weft_published_reader** reader);
weft_code weft_published_reader_get_info(const weft_published_reader* reader, weft_slot_info* info);
/* Waits for a version newer than the last one seen here, and views the newest where it lies. Where
 * the owner's memory can't be loaded from, the version is read first. */
weft_code weft_published_reader_view(weft_published_reader* reader, double timeout_seconds,
                                     weft_arrival** arrival);
/* The same for a caller that needs `runs` runs of elements only, which ascend: run i has
 * `counts[i]` elements from `firsts[i]` on. Where the owner's memory can't be loaded from, the
 * arrival has the runs' elements alone, one run behind the other; elsewhere it is the whole slot.
 */
weft_code weft_published_reader_view_runs(weft_published_reader* reader, const int64_t* firsts,
                                          const int64_t* counts, size_t runs,
                                          double timeout_seconds, weft_arrival** arrival);
/* Copies the same version into `into`, of the slot's dtype and dimensions. After a timeout `into`
 * stays lent until the next view or get of this end, or its close. */
weft_code weft_published_reader_get(weft_published_reader* reader, const weft_tensor* into,
                                    double timeout_seconds);
/* Copies runs of elements only, each to its own target, which stays lent after a timeout as
 * above. */
weft_code weft_published_reader_get_runs(weft_published_reader* reader, const int64_t* firsts,
                                         const int64_t* counts, void* const* targets, size_t runs,
                                         double timeout_seconds);
/* `ready` is 1 if weft_published_reader_view would return at once. */
weft_code weft_published_reader_ready(const weft_published_reader* reader, int* ready);
/* The next view or get takes the newest version even if it was seen here before. */
weft_code weft_published_reader_see_again(weft_published_reader* reader);
/* Views and gets also end when one of `ranks` is dead or has left. */
weft_code weft_published_reader_also_needs(weft_published_reader* reader, const int* ranks,
                                           size_t count, weft_needed needed);
/* Detaches and frees the reader. Refused while an arrival of it is held. */
weft_code weft_published_reader_close(weft_published_reader* reader);

/* Handles of several kinds that one thread waits for together. No other thread may use them
 * meanwhile. */
typedef struct weft_wait_set {
  size_t struct_size;
  weft_slot* const* slots;
  size_t slot_count;
  weft_request* const* requests;
  size_t request_count;
  weft_published_reader* const* readers;
  size_t reader_count;
  weft_plan* const* plans; /* that were started */
  size_t plan_count;
  weft_message_request* const* messages;
  size_t message_count;
} weft_wait_set;

/* Waits until a slot has an arrival, a request has ended or a reader has a version not seen yet, or
 * can't get one any more, or a plan or message has ended, and returns its index: slots have the
 * first ones, then requests, readers, plans, messages. If several are ready, successive calls
 * return each in turn. */
weft_code weft_wait_any(weft_world* world, const weft_wait_set* set, double timeout_seconds,
                        size_t* index);

WEFT_C_END

#endif /* WEFT_C_PUBLISHED_SLOT_H */
