// An open gRPC call that carries messages in both directions.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>

namespace weft::bench {

/// Fills a message's field, which keeps its memory. The field's own setter would make a copy more.
inline void set_bytes(std::string& field, const void* from, std::size_t bytes) {
  field.assign(static_cast<const char*>(from), bytes);
}

/// One stream for many exchanges, as gRPC's performance guide advises: a new call per exchange
/// costs more. Both messages keep their memory between exchanges. Errors are std::runtime_error.
template <typename Request, typename Answer>
class Call {
 public:
  /// `open` takes a ClientContext and returns the stream.
  template <typename Open>
  explicit Call(Open&& open) : stream_(open(&context_)) {}
  ~Call() {
    if (!ended_) context_.TryCancel();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// To be filled before send().
  Request& request() noexcept { return request_; }
  void send() { require(stream_->Write(request_)); }
  /// Valid until the next receive().
  const Answer& receive() {
    require(stream_->Read(&answer_));
    return answer_;
  }
  const Answer& exchange() {
    send();
    return receive();
  }
  void end() {
    require(stream_->WritesDone());
    require(stream_->Finish().ok());
    ended_ = true;
  }

 private:
  static void require(bool good) {
    if (!good) throw std::runtime_error("the call broke off");
  }

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<Request, Answer>> stream_;
  Request request_;
  Answer answer_;
  bool ended_ = false;
};

}  // namespace weft::bench
