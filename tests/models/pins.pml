/* A published slot's buffer: its owner fills it again only while no reader pins it (Publisher::take, publish); a
   reader views only what it has pinned before the owner took it (VersionReader::pin, unpin).
   No view is torn, or of another version than its word says. */
#define THREADS 2
#define PLACES 5
#include "memory.pml"

#define NEWEST 0
#define VERSION 1
#define PIN 2
#define FIRST 3 /* of the tensor, and its last element */
#define LAST 4
#define OWNER 0
#define READER 1

proctype Owner() {
  byte tries;
again:
  atomic { LOAD_ACQUIRE(OWNER, PIN); if :: found != 0 -> goto retry :: else fi }
  STORE(OWNER, VERSION, 0);
#ifndef NO_OWNER_BARRIER
  BARRIER(OWNER);
#endif
  atomic { LOAD_ACQUIRE(OWNER, PIN); if :: found != 0 -> goto give_back :: else fi }
  STORE(OWNER, FIRST, 2);
  STORE(OWNER, LAST, 2);
#ifdef NO_RELEASE
  STORE(OWNER, VERSION, 2);
  STORE(OWNER, NEWEST, 2);
#else
  STORE_RELEASE(OWNER, VERSION, 2);
  STORE_RELEASE(OWNER, NEWEST, 2);
#endif
  goto done;
give_back:
  STORE_RELEASE(OWNER, VERSION, 1);
retry:
  tries++;
  if
  :: tries < 2 -> goto again
  :: else
  fi;
done:
  skip
}

proctype Reader() {
  byte version, first, last, times;
  do
  :: times < 2 ->
    times++;
    atomic { LOAD_ACQUIRE(READER, NEWEST); version = found }
    STORE(READER, PIN, 1);
#ifndef NO_READER_BARRIER
    BARRIER(READER);
#endif
    atomic { LOAD_ACQUIRE(READER, VERSION); if :: found != version -> goto release :: else fi }
#ifdef LET_GO_EARLY
    STORE_RELEASE(READER, PIN, 0);
#endif
    atomic { LOAD(READER, FIRST); first = found }
    atomic { LOAD(READER, LAST); last = found }
    assert(first == version && last == version);
release:
    STORE_RELEASE(READER, PIN, 0);
    first = 0;
    last = 0
  :: else -> break
  od
}

init {
  atomic {
    memory[NEWEST] = 1;
    memory[VERSION] = 1;
    memory[FIRST] = 1;
    memory[LAST] = 1;
    d_step { LOOK_ANEW(OWNER); LOOK_ANEW(READER); i_ = 0 }
    RUN_MEMORY(OWNER);
    RUN_MEMORY(READER);
    run Owner();
    run Reader()
  }
}
