// A subscriber, as the publisher sees it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "p2p/progress/watched_fd.hpp"
#include "p2p/transport/auth/exact_read.hpp"
#include "pslib/publication/answer.hpp"
#include "pslib/publication/publication_state.hpp"
#include "pslib/publication/wire.hpp"

namespace weft::pslib {

/// Reads what a subscriber asks and answers it, one thing after the other; what the subscriber does
/// not take waits here, and holds nobody up. The publisher's thread only. Its events may not
/// destroy it.
class Session {
 public:
  struct Events {
    /// The publication of that name, or null.
    std::function<std::shared_ptr<detail::PublicationState>(const std::string& name)> find;
    /// What there is, for people.
    std::function<std::string()> names;
    /// Once: it is to be destroyed. `why` is empty where the subscriber has gone in order.
    std::function<void(const std::string& why)> ended;
  };

  /// `events` must outlive it. Throws Error(system).
  Session(p2p::ProgressThread& thread, os::Fd socket, const Events& events);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// There is a new version, or no more will come.
  void look();
  /// The publisher leaves: the subscriber is told so once it has the newest version.
  void leave();
  /// Tells the subscriber so now, if nothing is under way.
  void say_left() noexcept;

 private:
  using Kind = wire::Ask::Kind;

  template <typename Act>
  void guarded(const Act& act) noexcept;
  void look_again();
  void on_ready(std::uint32_t happened);
  void read_asks();
  void on_ask(const wire::Ask& ask);
  void on_attach(const wire::Ask& ask);
  void answer_values();
  void begin(Answer answer);
  void go_on();
  void on_sent();
  void say_end(wire::Head::End how);
  void set_waiting(bool waits);
  void end(const std::string& why);

  const Events& events_;
  p2p::Watched socket_;
  p2p::ExactRead in_;
  std::shared_ptr<detail::PublicationState> publication_;
  std::optional<Answer> answer_;
  /// What is not answered yet: pull or wait; attach stands for nothing.
  Kind asked_ = Kind::attach;
  std::uint64_t have_ = 0;
  std::uint64_t sent_ = 0;  ///< the version that the subscriber was given last
  bool may_hurry_ = false;
  bool is_leaving_ = false;
  bool is_waiting_ = false;  ///< and counted so
  bool is_last_ = false;     ///< the answer under way is an end
  bool has_ended_ = false;
};

}  // namespace weft::pslib
