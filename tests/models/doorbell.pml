/* The word that a rank's threads sleep on (Doorbell, Waiter::wait_asleep): who makes something ready rings if
   anybody sleeps; who goes to sleep has said so before it looks for the last time.
   Nobody sleeps on what is ready: the search finds such an end as one that is not valid. */
#define THREADS 2
#define PLACES 3
#include "memory.pml"

#define READY 0
#define SLEEPERS 1
#define WORD 2
#define RINGER 0
#define SLEEPER 1

/* A change of a word in memory that is a barrier too (memory_order_seq_cst). */
inline ADD(thread, place, value) {
  (buffered[thread] == 0);
  d_step { memory[place] = memory[place] + value; LOOK_ANEW(thread); i_ = 0 }
}

proctype Ringer() {
  byte times;
  do
  :: times < 2 ->
    times++;
    STORE(RINGER, READY, times);
#ifndef NO_RINGER_BARRIER
    BARRIER(RINGER);
#endif
    atomic { LOAD(RINGER, SLEEPERS); if :: found == 0 -> goto nobody :: else fi }
    ADD(RINGER, WORD, 1);
nobody:
    skip
  :: else -> break
  od
}

proctype Sleeper() {
  byte wanted = 1, heard;
  do
  :: wanted <= 2 ->
    atomic { LOAD_ACQUIRE(SLEEPER, READY); if :: found >= wanted -> goto next :: else fi }
#ifdef NO_ANNOUNCEMENT
    STORE(SLEEPER, SLEEPERS, 1);
#else
    ADD(SLEEPER, SLEEPERS, 1);
#endif
#ifndef WORD_READ_LATE
    atomic { LOAD_ACQUIRE(SLEEPER, WORD); heard = found }
#endif
#ifndef NO_LAST_LOOK
    atomic { LOAD_ACQUIRE(SLEEPER, READY); if :: found >= wanted -> goto awake :: else fi }
#endif
#ifdef WORD_READ_LATE
    atomic { LOAD_ACQUIRE(SLEEPER, WORD); heard = found }
#endif
    (memory[WORD] != heard); /* the kernel compares the word itself */
awake:
#ifdef NO_ANNOUNCEMENT
    STORE(SLEEPER, SLEEPERS, 0);
#else
    ADD(SLEEPER, SLEEPERS, -1);
#endif
    heard = 0;
    atomic { LOAD_ACQUIRE(SLEEPER, READY); if :: found >= wanted -> goto next :: else -> goto again fi }
next:
    wanted++;
again:
    skip
  :: else -> break
  od
}

init {
  atomic {
    RUN_MEMORY(RINGER);
    RUN_MEMORY(SLEEPER);
    run Ringer();
    run Sleeper()
  }
}
