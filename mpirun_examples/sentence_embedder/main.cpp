// Trains two recurrent networks that embed sentences: every rank is a worker, variables are spread
// over all ranks. Sentences have many lengths, so what moves of them has no fixed shape.
//   mpirun -n 4 sentence_embedder
//   mpirun -n 4 sentence_embedder --way slots --report     tells how each tensor moves, and its
//   cost
#include "sentence_embedder/lesson.hpp"

int main(int argc, char** argv) {
  return lessons::run(embedder::embedder_program(), embedder::embedder_defaults(), argc, argv);
}
