/* The memory that threads of the models share, weak on purpose. Every thread has a buffer of stores that the
   others don't see yet, and, for ARM, values that it goes on reading though they are old.

   TSO: stores leave a buffer in their order; a load sees memory or the own buffer. x86.
   ARM: stores to different places leave in any order, but a release leaves last of what was before it; a load
        may see an old value until the place is looked at anew, which an acquire and a barrier do for all.
   A barrier empties the own buffer. Not modelled: a load that is done after a later store.

   A model defines PLACES and THREADS before it includes this. */
#define BUFFERED 6

byte memory[PLACES];
byte seen[THREADS * PLACES]; /* ARM: what a load of a thread finds */
byte at[THREADS * BUFFERED]; /* of the buffered stores: place, value, whether it is a release */
byte value_of[THREADS * BUFFERED];
bool releases[THREADS * BUFFERED];
byte buffered[THREADS];
byte found; /* by the last LOAD: atomic with its use */
byte i_, j_;

inline LOOK_ANEW(thread) {
  i_ = 0;
  do
  :: i_ < PLACES -> seen[thread * PLACES + i_] = memory[i_]; i_++
  :: else -> break
  od
}

inline BUFFER(thread, place, value, release) {
  d_step {
    (buffered[thread] < BUFFERED);
    at[thread * BUFFERED + buffered[thread]] = place;
    value_of[thread * BUFFERED + buffered[thread]] = value;
    releases[thread * BUFFERED + buffered[thread]] = release;
    buffered[thread]++
  }
}
#define STORE(thread, place, value) BUFFER(thread, place, value, false)
#define STORE_RELEASE(thread, place, value) BUFFER(thread, place, value, true)

/* Into `found`. */
inline LOAD(thread, place) {
  d_step {
#ifdef ARM
    found = seen[thread * PLACES + place];
#else
    found = memory[place];
#endif
    i_ = 0;
    do
    :: i_ < buffered[thread] ->
      if
      :: at[thread * BUFFERED + i_] == place -> found = value_of[thread * BUFFERED + i_]
      :: else
      fi;
      i_++
    :: else -> break
    od;
    i_ = 0
  }
}
/* What comes later in the program is loaded later. */
inline LOAD_ACQUIRE(thread, place) {
  LOAD(thread, place);
  d_step { LOOK_ANEW(thread); i_ = 0 }
}

inline BARRIER(thread) {
  (buffered[thread] == 0);
  d_step { LOOK_ANEW(thread); i_ = 0 }
}

/* Whether the store may leave now, as `j_`. */
inline MAY_LEAVE(thread, index) {
  j_ = (index < buffered[thread]);
#ifdef ARM
  i_ = 0;
  do
  :: i_ < index && j_ ->
    j_ = !(releases[thread * BUFFERED + index] ||
           at[thread * BUFFERED + i_] == at[thread * BUFFERED + index]);
    i_++
  :: else -> break
  od;
  i_ = 0
#else
  j_ = j_ && (index == 0)
#endif
}

/* Lets the stores of a thread leave, one by one. */
proctype Stores(byte thread) {
  byte index;
end:
  do
  :: buffered[thread] > 0 ->
    index = 0;
    do
    :: index + 1 < buffered[thread] -> index++
    :: break
    od;
    skip;
    d_step {
      MAY_LEAVE(thread, index);
      if
      :: j_ ->
        memory[at[thread * BUFFERED + index]] = value_of[thread * BUFFERED + index];
        seen[thread * PLACES + at[thread * BUFFERED + index]] = value_of[thread * BUFFERED + index];
        i_ = index;
        do
        :: i_ + 1 < buffered[thread] ->
          at[thread * BUFFERED + i_] = at[thread * BUFFERED + i_ + 1];
          value_of[thread * BUFFERED + i_] = value_of[thread * BUFFERED + i_ + 1];
          releases[thread * BUFFERED + i_] = releases[thread * BUFFERED + i_ + 1];
          i_++
        :: else -> break
        od;
        buffered[thread]--;
        at[thread * BUFFERED + buffered[thread]] = 0;
        value_of[thread * BUFFERED + buffered[thread]] = 0;
        releases[thread * BUFFERED + buffered[thread]] = false
      :: else
      fi;
      i_ = 0;
      j_ = 0
    }
  od
}

#ifdef ARM
/* Lets a thread see what memory holds, a place at a time. At rest where there is nothing new, so that the search
   finds an end. */
#define LOOK_AT(thread, place) \
  seen[thread * PLACES + place] != memory[place] -> seen[thread * PLACES + place] = memory[place]

proctype Loads(byte thread) {
end:
  do
  :: LOOK_AT(thread, 0)
  :: LOOK_AT(thread, 1)
  :: LOOK_AT(thread, 2)
#if PLACES > 3
  :: LOOK_AT(thread, 3)
#endif
#if PLACES > 4
  :: LOOK_AT(thread, 4)
#endif
  od
}
#endif

inline RUN_MEMORY(thread) {
  run Stores(thread);
#ifdef ARM
  run Loads(thread)
#endif
}
