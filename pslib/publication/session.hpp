// A subscriber's connection on the publisher's side.
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

/// Reads a subscriber's requests and answers them one after another. Data that the subscriber does
/// not take stays queued here and delays no other subscriber. Publisher's thread only. The
/// callbacks in Events must not destroy the session.
class Session {
 public:
  struct Events {
    /// Returns the publication of that name, or null.
    std::function<std::shared_ptr<detail::PublicationState>(const std::string& name)> find;
    /// Returns the names of all publications, for error messages.
    std::function<std::string()> names;
    /// Called once, when the session should be destroyed. `why` is empty if the subscriber
    /// disconnected in order.
    std::function<void(const std::string& why)> ended;
  };

  /// `events` must outlive the session. Throws Error(system).
  Session(p2p::ProgressThread& thread, os::Fd socket, const Events& events);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Call when there is a new version, or when no more will come.
  void look();
  /// Called when the publisher leaves: the subscriber is told once it has the newest version.
  void leave();
  /// Tells the subscriber now that the publisher left, unless an answer is under way.
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
  /// The unanswered request: pull or wait; attach stands for none.
  Kind asked_ = Kind::attach;
  std::uint64_t have_ = 0;
  std::uint64_t sent_ = 0;  ///< version last sent to the subscriber
  bool may_hurry_ = false;
  bool is_leaving_ = false;
  bool is_waiting_ = false;  ///< a wait is open, and counted in the publication
  bool is_last_ = false;     ///< the answer under way ends the session
  bool has_ended_ = false;
};

}  // namespace weft::pslib
