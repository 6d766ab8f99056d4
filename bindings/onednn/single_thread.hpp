// oneDNN with one thread.
#pragma once

namespace weft::dataflow::onednn {

/// Keeps oneDNN from starting threads, for calls of this thread, until the end of the scope. The
/// executor's threads run nodes side by side already, and oneDNN splits sums among its threads, so
/// that their number would change the result.
class SingleThread {
 public:
  SingleThread() noexcept;
  ~SingleThread();
  SingleThread(const SingleThread&) = delete;
  SingleThread& operator=(const SingleThread&) = delete;

 private:
  int before_;
};

}  // namespace weft::dataflow::onednn
