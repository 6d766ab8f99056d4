/* A slot with one buffer: its writer puts a tensor, then its tail word; the owner reads the tensor, then grants
   the buffer anew by the writer's credit word (PutWriter::put, PutOwner::wait).
   The owner finds each tensor whole, and none is overwritten before it was read. */
#define THREADS 2
#define PLACES 4
#include "memory.pml"

#define FIRST 0 /* of the tensor, and its last element */
#define LAST 1
#define TAIL 2
#define CREDIT 3
#define WRITER 0
#define OWNER 1
#define TENSORS 3

proctype Writer() {
  byte tensor = 1;
  do
  :: tensor <= TENSORS ->
#ifndef NO_CREDIT_WAIT
    do
    :: atomic { LOAD_ACQUIRE(WRITER, CREDIT); if :: found >= tensor - 1 -> break :: else fi }
    od;
#endif
    STORE(WRITER, FIRST, tensor);
    STORE(WRITER, LAST, tensor);
#ifdef NO_TAIL_RELEASE
    STORE(WRITER, TAIL, tensor);
#else
    STORE_RELEASE(WRITER, TAIL, tensor);
#endif
    tensor++
  :: else -> break
  od
}

proctype Owner() {
  byte tensor = 1, first, last;
  do
  :: tensor <= TENSORS ->
    do
#ifdef NO_TAIL_ACQUIRE
    :: atomic { LOAD(OWNER, TAIL); if :: found >= tensor -> break :: else fi }
#else
    :: atomic { LOAD_ACQUIRE(OWNER, TAIL); if :: found >= tensor -> break :: else fi }
#endif
    od;
#ifdef CREDIT_BEFORE_READ
    STORE_RELEASE(OWNER, CREDIT, tensor);
#endif
    atomic { LOAD(OWNER, FIRST); first = found }
    atomic { LOAD(OWNER, LAST); last = found }
    assert(first == tensor && last == tensor);
#ifndef CREDIT_BEFORE_READ
    STORE_RELEASE(OWNER, CREDIT, tensor);
#endif
    first = 0;
    last = 0;
    tensor++
  :: else -> break
  od
}

init {
  atomic {
    RUN_MEMORY(WRITER);
    RUN_MEMORY(OWNER);
    run Writer();
    run Owner()
  }
}
