#include "bindings/onednn/single_thread.hpp"

// Of OpenMP's interface; its header is a compiler's own, and not all have one.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int threads);
}

namespace weft::dataflow::onednn {

// Debian's oneDNN starts its threads by OpenMP, whose limit is the calling thread's own.
SingleThread::SingleThread() noexcept : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
SingleThread::~SingleThread() { omp_set_num_threads(before_); }

}  // namespace weft::dataflow::onednn
