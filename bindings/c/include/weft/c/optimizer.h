/* How a parameter server's tables are updated: rules, schedules, consistency, compression,
 * checkpoints. weft/optimizer.hpp and docs/pslib.md define the arithmetic. */
#ifndef WEFT_C_OPTIMIZER_H
#define WEFT_C_OPTIMIZER_H

#include "weft/c/base.h"

WEFT_C_BEGIN

/* The rule by which a shard turns the mean gradient of the workers into new parameters. */
typedef enum weft_optimizer_kind WEFT_C_ENUM {
  WEFT_OPTIMIZER_SGD = 0,
  WEFT_OPTIMIZER_MOMENTUM = 1,
  WEFT_OPTIMIZER_NESTEROV = 2,
  WEFT_OPTIMIZER_ADAGRAD = 3,
  WEFT_OPTIMIZER_RMSPROP = 4,
  WEFT_OPTIMIZER_ADAM = 5,
  WEFT_OPTIMIZER_ADAMW = 6,
  WEFT_OPTIMIZER_FTRL = 7,
  WEFT_OPTIMIZER_LARS = 8, /* dense tables only */
  WEFT_OPTIMIZER_USER = 9  /* the rule in `rule` */
} weft_optimizer_kind;

/* The largest number of a rule's state arrays. */
#define WEFT_RULE_MAX_STATES 2

/* The constants of one update; weft sets struct_size. */
typedef struct weft_rule_step {
  size_t struct_size;
  uint64_t update;     /* number of the update, from 1 */
  float learning_rate; /* the optimizer's, multiplied by the schedule's factor */
  float weight_decay;  /* the optimizer's; not yet added to the gradient */
} weft_rule_step;

/* Updates `count` parameters and their states in place. `gradient` is the mean of the contributors'
 * gradients. States beyond the rule's are NULL. weft calls it for short runs of elements, in any
 * order, so an element's result may depend only on that element's values; for one table, one thread
 * at a time. It must not call weft. */
typedef void (*weft_rule_function)(void* context, const weft_rule_step* step, float* parameters,
                                   const float* gradient, float* const* states, size_t count);

/* A rule of the caller's. */
typedef struct weft_rule {
  size_t struct_size;
  /* The rule and its constants, for people. Ranks compare it: rules with equal texts must be
   * equal. */
  const char* text;
  size_t states; /* number of state arrays; each has one float per parameter and starts as zeros */
  weft_rule_function apply;
  void* context;
  /* Called once for each table that was given the rule, when that needs it no more, also if the
   * table's creation fails, on any thread. May be NULL. */
  void (*unused)(void* context);
} weft_rule;

/* Begin with weft_optimizer_defaults: a field that is 0 is 0, not the default. */
typedef struct weft_optimizer {
  size_t struct_size;
  weft_optimizer_kind kind;
  float learning_rate;
  float weight_decay;
  float momentum; /* momentum, nesterov, lars */
  float rho;      /* rmsprop */
  float beta1;    /* adam, adamw */
  float beta2;    /* adam, adamw */
  float epsilon;  /* adagrad, rmsprop, adam, adamw */
  float ftrl_beta;
  float l1;    /* ftrl */
  float l2;    /* ftrl */
  float trust; /* lars */
  const weft_rule* rule;
} weft_optimizer;

/* Writes the defaults of a kind; `optimizer->struct_size` must be set. */
weft_code weft_optimizer_defaults(weft_optimizer_kind kind, weft_optimizer* optimizer);

typedef enum weft_schedule_kind WEFT_C_ENUM {
  WEFT_SCHEDULE_CONSTANT = 0,
  WEFT_SCHEDULE_STEP = 1,        /* multiplied by `gamma` after every `period` updates */
  WEFT_SCHEDULE_EXPONENTIAL = 2, /* multiplied by gamma^(1 / period) after every update */
  WEFT_SCHEDULE_LINEAR = 3,      /* falls from 1 to `floor` within `period` updates */
  WEFT_SCHEDULE_COSINE = 4       /* the same along half a cosine */
} weft_schedule_kind;

/* A factor on the learning rate as a function of the update: a warm-up, then a shape. */
typedef struct weft_schedule {
  size_t struct_size;
  uint64_t warmup; /* number w of updates in which the factor rises: 1/w, 2/w, ... 1 */
  uint64_t period; /* updates, counted from the end of the warm-up; 0: 1 */
  weft_schedule_kind kind;
  float gamma; /* step, exponential; 0: 0.1 */
  float floor; /* linear, cosine: the final factor */
  int reserved;
} weft_schedule;

/* The factor on the learning rate in update number `update`, from 1. */
weft_code weft_schedule_factor(const weft_schedule* schedule, uint64_t update, double* factor);

typedef enum weft_consistency_kind WEFT_C_ENUM {
  WEFT_CONSISTENCY_BSP = 0,   /* all workers' gradients of one step */
  WEFT_CONSISTENCY_SSP = 1,   /* one gradient, as they arrive; a pull waits while its worker is more
                               * than `staleness` clocks ahead of the slowest */
  WEFT_CONSISTENCY_ASYNC = 2, /* one gradient, as they arrive */
  WEFT_CONSISTENCY_K_OF_N = 3 /* the first `k` gradients of a step; dense tables, one server */
} weft_consistency_kind;

/* What happens to a gradient that arrives after its step's update. */
typedef enum weft_late WEFT_C_ENUM { WEFT_LATE_DROPPED = 0, WEFT_LATE_FOLDED = 1 } weft_late;

/* How far workers may be out of step, and which gradients an update takes. */
typedef struct weft_consistency {
  size_t struct_size;
  weft_consistency_kind kind;
  weft_late late;     /* k_of_n */
  uint32_t staleness; /* ssp: clocks */
  uint32_t k;         /* k_of_n: gradients per update; 0: 1 */
} weft_consistency;

typedef enum weft_compression_kind WEFT_C_ENUM {
  WEFT_COMPRESSION_NONE = 0,
  WEFT_COMPRESSION_INT8 = 1, /* all elements, as 8-bit codes in blocks of 256 */
  WEFT_COMPRESSION_TOP_K = 2 /* the largest elements of each tensor, with their indices */
} weft_compression_kind;

/* The part of the gradients that a push carries; the rest is added to the next push's. */
typedef struct weft_compression {
  size_t struct_size;
  weft_compression_kind kind;
  float ratio; /* top_k: share of each tensor's elements, in (0, 1); 0: 0.01 */
} weft_compression;

/* As `keep`: all checkpoints stay. */
#define WEFT_KEEP_ALL UINT64_MAX

/* How a table is saved and restored. */
typedef struct weft_checkpoint_options {
  size_t struct_size;
  const char* folder; /* that all servers can reach, and all ranks if they restore; NULL: nothing is
                       * saved */
  uint64_t every;     /* save every `every`-th version, from a background thread; 0: never */
  uint64_t keep;      /* after each checkpoint, remove all but the newest; 0: 3 */
  int no_restore;     /* 1: start as a new table, not from the newest complete checkpoint */
  int reserved;
} weft_checkpoint_options;

WEFT_C_END

#endif /* WEFT_C_OPTIMIZER_H */
