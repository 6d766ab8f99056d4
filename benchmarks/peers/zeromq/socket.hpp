// RAII wrappers of ZeroMQ's context, socket and message. Errors are std::runtime_error.
#pragma once

#include <zmq.h>

#include <stdexcept>
#include <string>

namespace weft::bench {

inline void require(bool good, const char* call) {
  if (!good) throw std::runtime_error(std::string(call) + ": " + zmq_strerror(zmq_errno()));
}

class Message {
 public:
  Message() { zmq_msg_init(&message_); }
  /// Wraps memory that must not change before the other end has answered.
  Message(float* data, std::size_t bytes) {
    require(zmq_msg_init_data(
                &message_, data, bytes, [](void*, void*) {}, nullptr) == 0,
            "zmq_msg_init_data");
  }
  ~Message() { zmq_msg_close(&message_); }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  void send(void* socket) { require(zmq_msg_send(&message_, socket, 0) >= 0, "zmq_msg_send"); }
  void receive(void* socket) { require(zmq_msg_recv(&message_, socket, 0) >= 0, "zmq_msg_recv"); }
  const float* floats() { return static_cast<const float*>(zmq_msg_data(&message_)); }
  std::size_t bytes() { return zmq_msg_size(&message_); }

 private:
  zmq_msg_t message_;
};

class Context {
 public:
  Context() : context_(zmq_ctx_new()) { require(context_ != nullptr, "zmq_ctx_new"); }
  ~Context() { zmq_ctx_term(context_); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  void* get() const noexcept { return context_; }

 private:
  void* context_;
};

/// Must be destroyed before its context.
class Socket {
 public:
  Socket(const Context& context, int type) : socket_(zmq_socket(context.get(), type)) {
    require(socket_ != nullptr, "zmq_socket");
  }
  ~Socket() { zmq_close(socket_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  void* get() const noexcept { return socket_; }

  void bind(const std::string& place) {
    require(zmq_bind(socket_, place.c_str()) == 0, "zmq_bind");
  }
  /// The endpoint it was bound to, with the port chosen by the system.
  std::string place() const {
    char words[256] = {};
    std::size_t size = sizeof words;
    require(zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, words, &size) == 0, "zmq_getsockopt");
    return words;
  }
  void connect(const std::string& place) {
    require(zmq_connect(socket_, place.c_str()) == 0, "zmq_connect");
  }

 private:
  void* socket_;
};

}  // namespace weft::bench
