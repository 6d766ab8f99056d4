#include "tests/threads/handles/call_lists.hpp"

namespace weft::tests {
namespace {

/// A codec of nothing.
class NoCodec final : public Codec {
 public:
  std::uint16_t id() const override { return 7; }
  std::size_t size() const override { return 0; }
  void encode(std::span<std::byte>) const override {}
  void decode(std::span<const std::byte>) override {}
};

}  // namespace

std::vector<HandleCall> calls_of_groups_and_messages() {
  const auto done = [](auto&&...) { return Status(); };
  return {
      {"Collectives::rank()", Answer::is_quiet,
       [](H& h) { return neutral(h.collectives.rank() == -1); }},
      {"Collectives::size()", Answer::is_quiet,
       [](H& h) { return neutral(h.collectives.size() == 0); }},
      {"Collectives::ranks()", Answer::is_quiet,
       [](H& h) { return neutral(h.collectives.ranks().empty()); }},
      {"Collectives::plan(call)", Answer::fails,
       [=](H& h) { return done(h.collectives.plan(barrier())); }},
      {"Collectives::start(call)", Answer::fails,
       [=](H& h) { return done(h.collectives.start(barrier())); }},
      {"Collectives::run(call, deadline)", Answer::fails,
       [](H& h) { return h.collectives.run(barrier(), at_once()); }},
      {"Collectives::settle(deadline)", Answer::fails,
       [](H& h) { return h.collectives.settle(at_once()); }},
      {"Collectives::bytes_copied()", Answer::is_quiet,
       [](H& h) { return neutral(h.collectives.bytes_copied() == 0); }},
      {"Collectives::staged_bytes()", Answer::is_quiet,
       [](H& h) { return neutral(h.collectives.staged_bytes() == 0); }},
      {"Plan::test()", Answer::is_quiet, [](H& h) { return neutral(h.plan.test()); }},
      {"Plan::wait(deadline)", Answer::fails, [](H& h) { return h.plan.wait(at_once()); }},
      {"Plan::start()", Answer::fails, [](H& h) { return h.plan.start(); }},
      {"Plan::start(stream, deadline)", Answer::fails,
       [](H& h) { return h.plan.start(Stream::cuda(nullptr), at_once()); }},
      {"Plan::outcome()", Answer::is_quiet,
       [](H& h) { return neutral(h.plan.outcome() == nullptr); }},
      {"Plan::run(deadline)", Answer::fails, [](H& h) { return h.plan.run(at_once()); }},
      {"Messages::send(to, tag, tensor, deadline)", Answer::fails,
       [](H& h) { return h.messages->send(0, 9, h.tensor, at_once()); }},
      {"Messages::isend(to, tag, tensor)", Answer::fails,
       [](H& h) { return h.messages->isend(0, 9, h.tensor).wait(at_once()).status(); }},
      {"Messages::recv(from, tag, into, deadline)", Answer::fails,
       [](H& h) { return h.messages->recv(0, 8, h.tensor, at_once()).status(); }},
      {"Messages::irecv(from, tag, into)", Answer::fails,
       [](H& h) { return h.messages->irecv(0, 8, h.tensor).wait(at_once()).status(); }},
      {"Messages::sendrecv(to, tag, tensor, from, from_tag, into, deadline)", Answer::fails,
       [](H& h) {
         return h.messages->sendrecv(0, 9, h.tensor, 0, 8, h.tensor, at_once()).status();
       }},
      {"Messages::probe(from, tag, deadline)", Answer::fails,
       [](H& h) { return h.messages->probe(0, 8, at_once()).status(); }},
      {"Messages::iprobe(from, tag)", Answer::is_quiet,
       [](H& h) { return neutral(!h.messages->iprobe(0, 8)); }},
      {"Messages::wait_all(requests, deadline)", Answer::fails,
       [](H& h) { return h.messages->wait_all(std::span(&h.message, 1), at_once()); }},
      {"Messages::wait_any(requests, deadline)", Answer::fails,
       [](H& h) { return h.messages->wait_any(std::span(&h.message, 1), at_once()).status(); }},
      {"MessageRequest::test()", Answer::is_quiet, [](H& h) { return neutral(h.message.test()); }},
      {"MessageRequest::wait(deadline)", Answer::has_ended,
       [](H& h) { return h.message.wait(at_once()).status(); }},
      {"MessageRequest::cancel()", Answer::has_ended, [](H& h) { return h.message.cancel(); }},
      {"Rendezvous::send(to, key, step, tensor, deadline)", Answer::fails,
       [](H& h) { return h.rendezvous.send(0, "k", 0, h.tensor, at_once()); }},
      {"Rendezvous::send_dead(to, key, step, deadline)", Answer::fails,
       [](H& h) { return h.rendezvous.send_dead(0, "k", 1, at_once()); }},
      {"Rendezvous::send_error(to, key, step, code, text, deadline)", Answer::fails,
       [](H& h) { return h.rendezvous.send_error(0, "k", 2, Code::system, "a test", at_once()); }},
      {"Rendezvous::send_encoded(to, key, step, value, deadline)", Answer::fails,
       [](H& h) { return h.rendezvous.send_encoded(0, "k", 3, NoCodec(), at_once()); }},
      {"Rendezvous::lent(to, key, step)", Answer::is_quiet,
       [](H& h) { return neutral(!h.rendezvous.lent(0, "k", 9)); }},
      {"Rendezvous::serve(deadline)", Answer::fails,
       [](H& h) { return h.rendezvous.serve(at_once()); }},
      {"Rendezvous::ready(from, key, step)", Answer::is_quiet,
       [](H& h) { return neutral(!h.rendezvous.ready(0, "no", 0)); }},
      {"Rendezvous::recv(from, key, step, deadline)", Answer::fails,
       [](H& h) { return h.rendezvous.recv(0, "no", 1, at_once()).status(); }},
      {"Rendezvous::recv(from, wanted, deadline)", Answer::fails,
       [](H& h) {
         return h.rendezvous.recv(0, std::array{KeyStep{"no", 2}}, at_once()).at(0).status();
       }},
      {"Rendezvous::cancel(from, key, step)", Answer::fails,
       [](H& h) { return h.rendezvous.cancel(0, "no", 3); }},
  };
}

}  // namespace weft::tests
