/* Publications: a rank publishes versions of tensors; processes outside the job (subscribers) join
 * by a token and take the newest. weft/publication.hpp has the contracts. */
#ifndef WEFT_C_PUBLICATION_H
#define WEFT_C_PUBLICATION_H

#include "weft/c/tensor.h"

WEFT_C_BEGIN

typedef struct weft_publisher weft_publisher;     /* freed by weft_publisher_close; any thread */
typedef struct weft_publication weft_publication; /* freed by weft_publication_close; publishes from
                                                   * one thread at a time, the rest from any */
typedef struct weft_reader weft_reader;           /* freed by weft_reader_close; needs no world */

/* One tensor of a publication. Arrays of it have `struct_size` set in each element, to the same
 * size. */
typedef struct weft_published_tensor {
  size_t struct_size;
  const char* name;
  const int64_t* dims;
  size_t ndims;
  weft_dtype dtype;
  int reserved;
} weft_published_tensor;

/* Where a publisher accepts subscribers, and by which token. */
typedef struct weft_publisher_options {
  size_t struct_size;
  const char* address;    /* NULL: WEFT_SUBSCRIBE_ADDR */
  const char* token_file; /* NULL: WEFT_SUBSCRIBE_TOKEN_FILE */
  int most_subscribers;   /* 1 to 65536; more are refused; 0: 64 */
  int reserved;
} weft_publisher_options;

/* How many versions a publication keeps. */
typedef struct weft_publication_options {
  size_t struct_size;
  int buffers;   /* each as large as all tensors, at least 2; 0: 3 */
  int history;   /* versions back from which a subscriber gets only the changed rows; 0: 64 */
  int no_deltas; /* 1: every subscriber gets everything, whatever `history` */
  int reserved;
} weft_publication_options;

/* Counters of one publication since its creation. */
typedef struct weft_publication_statistics {
  size_t struct_size;
  uint64_t version;          /* the newest version; 0: none yet */
  uint64_t full_bytes;       /* bytes of one complete version */
  uint64_t rows_changed;     /* rows that changed in the newest version */
  uint64_t bytes_copied;     /* into the publication's buffers */
  uint64_t full_sent;        /* answers with all rows */
  uint64_t deltas_sent;      /* answers with changed rows only */
  uint64_t full_bytes_sent;  /* payload of the answers with all rows */
  uint64_t delta_bytes_sent; /* payload of the answers with changed rows only */
  uint64_t revoked;          /* answers restarted because their version was overwritten */
  int subscribers;           /* that read the publication now */
  int reserved;
} weft_publication_statistics;

/* Starts to accept subscribers. `options` may be NULL. */
weft_code weft_publisher_open(weft_world* world, const weft_publisher_options* options,
                              weft_publisher** publisher);
/* Disconnects all subscribers at once. Refused while a publication of it is open. */
weft_code weft_publisher_close(weft_publisher* publisher);
/* The addresses at which subscribers connect, separated by commas. */
weft_code weft_publisher_address(const weft_publisher* publisher, char** address);
/* The number of connected subscribers. */
weft_code weft_publisher_subscribers(const weft_publisher* publisher, int* subscribers);
/* The number of connections rejected because the peer did not know the token or sent anything
 * else. */
weft_code weft_publisher_rejected_connections(const weft_publisher* publisher, uint64_t* rejected);
/* Accepts no more subscribers, gives each connected one the newest version at its next request,
 * then tells it that the publisher has left. Returns when all have gone. */
weft_code weft_publisher_leave(weft_publisher* publisher, double timeout_seconds);

/* Creates a publication of `count` tensors. `options` may be NULL. */
weft_code weft_publication_open(weft_publisher* publisher, const char* name,
                                const weft_published_tensor* tensors, size_t count,
                                const weft_publication_options* options,
                                weft_publication** publication);
/* Ends its subscribers' pulls with WEFT_CODE_CLOSED. */
weft_code weft_publication_close(weft_publication* publication);
/* Publishes the values of `count` tensors (dense, in the order of creation) as the next version.
 * They are copied before it returns. `step` is any number of the caller's. Never waits for a
 * subscriber. */
weft_code weft_publication_publish(weft_publication* publication, const weft_tensor* const* tensors,
                                   size_t count, uint64_t step);
/* The newest version, counted from 1; 0 before the first. */
weft_code weft_publication_version(const weft_publication* publication, uint64_t* version);
weft_code weft_publication_get_statistics(const weft_publication* publication,
                                          weft_publication_statistics* statistics);

/* Where a reader finds the publisher. */
typedef struct weft_reader_options {
  size_t struct_size;
  const char* address;    /* NULL: WEFT_SUBSCRIBE_ADDR */
  const char* token_file; /* NULL: WEFT_SUBSCRIBE_TOKEN_FILE */
} weft_reader_options;

/* Counters of one reader since it joined. */
typedef struct weft_reader_statistics {
  size_t struct_size;
  uint64_t full_taken;     /* versions received with all rows */
  uint64_t deltas_taken;   /* versions received as changed rows */
  uint64_t bytes_received; /* payload */
  uint64_t bytes_copied;   /* from one of its buffers to the other */
  uint64_t begun_anew;     /* versions overwritten before they had arrived completely */
} weft_reader_statistics;

/* Waits until a publisher has a publication of that name, and subscribes. Needs no world, and no
 * launcher. `options` may be NULL. After WEFT_CODE_PEER_FAILED or WEFT_CODE_PEER_LEFT of a call a
 * reader is unusable: join again. */
weft_code weft_reader_join(const char* name, const weft_reader_options* options,
                           double timeout_seconds, weft_reader** reader);
weft_code weft_reader_close(weft_reader* reader);
/* The number of the publication's tensors, and the n-th; its pointers are valid until the reader is
 * closed or this is called again. */
weft_code weft_reader_tensors(const weft_reader* reader, size_t* count);
weft_code weft_reader_tensor_at(weft_reader* reader, size_t index, weft_published_tensor* tensor);
/* Receives versions in place into `count` tensors (dense, one for each of the publication's, in
 * their order). Before the first pull. */
weft_code weft_reader_receive_into(weft_reader* reader, const weft_tensor* const* tensors,
                                   size_t count);
/* Takes the newest version if it is newer than the last pulled. Waits only while there is no
 * version at all. After a timeout the next call resumes. */
weft_code weft_reader_pull_latest(weft_reader* reader, double timeout_seconds);
/* The same, but waits until there is a newer version. */
weft_code weft_reader_pull_newer(weft_reader* reader, double timeout_seconds);
/* The version that was pulled last; 0 before the first pull. */
weft_code weft_reader_version(const weft_reader* reader, uint64_t* version);
/* The `step` that the publisher gave that version. */
weft_code weft_reader_step(const weft_reader* reader, uint64_t* step);
/* `whole` is 1 if the tensors hold one complete version. */
weft_code weft_reader_whole(const weft_reader* reader, int* whole);
/* The tensor `name` of the last version, read-only: unchanged during the next pull and until the
 * one after it begins. */
weft_code weft_reader_tensor(const weft_reader* reader, const char* name, weft_tensor** tensor);
weft_code weft_reader_get_statistics(const weft_reader* reader, weft_reader_statistics* statistics);

WEFT_C_END

#endif /* WEFT_C_PUBLICATION_H */
