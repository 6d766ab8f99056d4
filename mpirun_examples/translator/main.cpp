// Trains a translator from one sequence to another: every rank is a worker, variables are spread
// over all ranks. Sentences have many lengths, so what moves of them has no fixed shape.
//   mpirun -n 4 translator
//   mpirun -n 4 translator --way slots --report     tells how each tensor moves, and its cost
#include "translator/lesson.hpp"

int main(int argc, char** argv) {
  return lessons::run(translator::translator_program(), translator::translator_defaults(), argc,
                      argv);
}
