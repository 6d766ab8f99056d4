// A training step over ZeroMQ: a request with the gradient, which is sent from where it lies; the
// server adds it to its parameters, which it sends from where they lie.
#include <unistd.h>
#include <zmq.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks/peers/introduction.hpp"
#include "benchmarks/peers/training.hpp"

namespace weft::bench {
namespace {

void require(bool good, const char* call) {
  if (!good) throw std::runtime_error(std::string(call) + ": " + zmq_strerror(zmq_errno()));
}

class Message {
 public:
  Message() { zmq_msg_init(&message_); }
  /// Of memory that nobody changes before the other end has answered.
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

/// A context with its one socket.
class Socket {
 public:
  explicit Socket(int type) : context_(zmq_ctx_new()), socket_(zmq_socket(context_, type)) {
    require(socket_ != nullptr, "zmq_socket");
  }
  ~Socket() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  void* get() const noexcept { return socket_; }

 private:
  void* context_;
  void* socket_;
};

/// Adds what comes, until an empty message does. A size begins with parameters of 0.
void serve(void* socket) {
  std::vector<float> parameters;
  Message gradient;
  for (;;) {
    gradient.receive(socket);
    if (gradient.bytes() == 0) break;
    const std::size_t count = gradient.bytes() / sizeof(float);
    if (count != parameters.size()) parameters.assign(count, 0.0F);
    apply_gradient(parameters.data(), gradient.floats(), count);
    Message(parameters.data(), gradient.bytes()).send(socket);
  }
  Message().send(socket);
}

std::vector<RunRow> work(void* socket, const RunOptions& options) {
  std::vector<RunRow> rows;
  Message answer;
  for (const std::size_t size : options.sizes) {
    TrainingPeer peer(size, options);
    const auto more = peer.measure([&](std::vector<float>& gradient) {
      Message(gradient.data(), size).send(socket);
      answer.receive(socket);
      return answer.floats();
    });
    rows.insert(rows.end(), more.begin(), more.end());
  }
  Message().send(socket);
  answer.receive(socket);
  return rows;
}

int run(const RunOptions& options) {
  Introduction launcher;
  if (launcher.size() != 2) throw std::runtime_error("a run needs two ranks; start it with -n 2");
  // An abstract name: no file is left behind.
  const bool serves = launcher.rank() == 1;
  const Socket socket(serves ? ZMQ_REP : ZMQ_REQ);
  const std::string own = "ipc://@weft-bench-" + std::to_string(::getpid());
  if (serves) require(zmq_bind(socket.get(), own.c_str()) == 0, "zmq_bind");
  const std::string place = launcher.hear_from_rank_1(own);
  if (serves) {
    serve(socket.get());
  } else {
    require(zmq_connect(socket.get(), place.c_str()) == 0, "zmq_connect");
    std::puts(to_line(work(socket.get(), options)).c_str());
    std::fflush(stdout);
  }
  launcher.meet();
  return 0;
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) try {
  return weft::bench::run(weft::bench::parse_run(argc, argv));
} catch (const std::exception& error) {
  std::fprintf(stderr, "peer-zeromq: %s\n", error.what());
  return 1;
}
