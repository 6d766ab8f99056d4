#include "tests/threads/handles/call_lists.hpp"

namespace weft::tests {

std::vector<HandleCall> calls_of_slots() {
  const auto done = [](auto&&...) { return Status(); };
  return {
      {"Slot::spec()", Answer::is_quiet, [](H& h) { return neutral(h.slot.spec().name.empty()); }},
      {"Slot::wait(deadline)", Answer::fails, [](H& h) { return h.slot.wait(at_once()).status(); }},
      {"Slot::wait_on(stream, deadline)", Answer::fails,
       [](H& h) { return h.slot.wait_on(Stream::cuda(nullptr), at_once()).status(); }},
      {"Slot::ready()", Answer::is_quiet, [](H& h) { return neutral(!h.slot.ready()); }},
      {"Slot::allocate_with(allocate)", Answer::fails,
       [](H& h) {
         h.slot.allocate_with([](DType, const Shape&) { return Tensor(); });
         return Status();
       }},
      {"Slot::also_needs(ranks, needed)", Answer::fails,
       [](H& h) {
         h.slot.also_needs({});
         return Status();
       }},
      {"RemoteSlot::spec()", Answer::is_quiet,
       [](H& h) { return neutral(h.remote.spec().name.empty()); }},
      {"RemoteSlot::owner()", Answer::is_quiet,
       [](H& h) { return neutral(h.remote.owner() == -1); }},
      {"RemoteSlot::put(tensor, until)", Answer::fails,
       [](H& h) { return h.remote.put(h.tensor).wait(at_once()); }},
      {"RemoteSlot::put(parts, until)", Answer::fails,
       [](H& h) { return h.remote.put(std::span(&h.tensor, 1)).wait(at_once()); }},
      {"RemoteSlot::put(tensor, stream, until)", Answer::fails,
       [](H& h) { return h.remote.put(h.tensor, Stream::cuda(nullptr)).wait(at_once()); }},
      {"RemoteSlot::put(parts, stream, until)", Answer::fails,
       [](H& h) {
         return h.remote.put(std::span(&h.tensor, 1), Stream::cuda(nullptr)).wait(at_once());
       }},
      {"RemoteSlot::also_needs(ranks, needed)", Answer::fails,
       [](H& h) {
         h.remote.also_needs({});
         return Status();
       }},
      {"RemoteSlot::queue_pairs()", Answer::is_quiet,
       [](H& h) { return neutral(h.remote.queue_pairs() == 0); }},
      {"RemoteSlot::use_queue_pair(index)", Answer::fails,
       [](H& h) {
         h.remote.use_queue_pair(0);
         return Status();
       }},
      {"Arrival::tensor()", Answer::is_quiet,
       [](H& h) { return neutral(h.arrival.tensor().empty() && h.viewed.tensor().empty()); }},
      {"Arrival::as()", Answer::is_local, [=](H& h) { return done(h.arrival.as<float>()); }},
      {"Arrival::sequence()", Answer::is_quiet,
       [](H& h) { return neutral(h.arrival.sequence() == 0); }},
      {"Arrival::release()", Answer::is_quiet,
       [](H& h) {
         h.arrival.release();
         h.viewed.release();
         return Status();
       }},
      {"Arrival::release(stream)", Answer::is_quiet,
       [](H& h) { return h.arrival.release(Stream()); }},
      {"Arrival::outcome()", Answer::is_quiet,
       [](H& h) { return neutral(h.arrival.outcome() == nullptr); }},
      {"Request::test()", Answer::is_quiet, [](H& h) { return neutral(h.request.test()); }},
      {"Request::wait(deadline)", Answer::has_ended,
       [](H& h) { return h.request.wait(at_once()); }},
      {"Request::wait_on(stream, deadline)", Answer::has_ended,
       [](H& h) { return h.request.wait_on(Stream::cuda(nullptr), at_once()); }},
      {"Request::cancel()", Answer::has_ended, [](H& h) { return h.request.cancel(); }},
      {"PublishedSlot::spec()", Answer::is_quiet,
       [](H& h) { return neutral(h.published.spec().name.empty()); }},
      {"PublishedSlot::next(deadline)", Answer::fails,
       [](H& h) { return h.published.next(at_once()).status(); }},
      {"PublishedSlot::publish(deadline)", Answer::fails,
       [](H& h) { return h.published.publish(at_once()); }},
      {"PublishedSlot::publish(stream, deadline)", Answer::fails,
       [](H& h) { return h.published.publish(Stream::cuda(nullptr), at_once()); }},
      {"PublishedSlot::readers()", Answer::is_quiet,
       [](H& h) { return neutral(h.published.readers() == 0); }},
      {"PublishedSlot::also_needs(ranks, needed)", Answer::fails,
       [](H& h) {
         h.published.also_needs({});
         return Status();
       }},
      {"PublishedReader::spec()", Answer::is_quiet,
       [](H& h) { return neutral(h.viewer.spec().name.empty()); }},
      {"PublishedReader::owner()", Answer::is_quiet,
       [](H& h) { return neutral(h.viewer.owner() == -1); }},
      {"PublishedReader::view(deadline)", Answer::fails,
       [](H& h) { return h.viewer.view(at_once()).status(); }},
      {"PublishedReader::view(runs, deadline)", Answer::fails,
       [](H& h) { return h.viewer.view(std::span<const SlotRun>(), at_once()).status(); }},
      {"PublishedReader::get(into, deadline)", Answer::fails,
       [](H& h) { return h.viewer.get(h.tensor, at_once()); }},
      {"PublishedReader::get(runs, deadline)", Answer::fails,
       [](H& h) { return h.viewer.get(std::span<const SlotRun>(), at_once()); }},
      {"PublishedReader::get(into, stream, deadline)", Answer::fails,
       [](H& h) { return h.viewer.get(h.tensor, Stream::cuda(nullptr), at_once()); }},
      {"PublishedReader::outcome()", Answer::is_quiet,
       [](H& h) { return neutral(h.viewer.outcome() == nullptr); }},
      {"PublishedReader::ready()", Answer::is_quiet,
       [](H& h) { return neutral(!h.viewer.ready()); }},
      {"PublishedReader::see_again()", Answer::is_quiet,
       [](H& h) {
         h.viewer.see_again();
         return Status();
       }},
      {"PublishedReader::also_needs(ranks, needed)", Answer::fails,
       [](H& h) {
         h.viewer.also_needs({});
         return Status();
       }},
      {"Signal::value()", Answer::is_quiet, [](H& h) { return neutral(h.signal.value() == 0); }},
      {"Signal::fetch_add(amount)", Answer::is_quiet,
       [](H& h) { return neutral(h.signal.fetch_add(1) == 0); }},
      {"Signal::compare_swap(expected, desired)", Answer::is_quiet,
       [](H& h) { return neutral(h.signal.compare_swap(1, 0) == 0); }},
      {"Signal::wait_at_least(least, deadline)", Answer::fails,
       [](H& h) { return h.signal.wait_at_least(9, at_once()).status(); }},
      {"Signal::also_needs(ranks)", Answer::fails,
       [](H& h) {
         h.signal.also_needs({});
         return Status();
       }},
      {"RemoteSignal::owner()", Answer::is_quiet,
       [](H& h) { return neutral(h.remote_signal.owner() == -1); }},
      {"RemoteSignal::is_direct()", Answer::is_quiet,
       [](H& h) { return neutral(!h.remote_signal.is_direct()); }},
      {"RemoteSignal::add(amount)", Answer::fails, [](H& h) { return h.remote_signal.add(1); }},
      {"RemoteSignal::fetch_add(amount, deadline)", Answer::fails,
       [](H& h) { return h.remote_signal.fetch_add(1, at_once()).status(); }},
      {"RemoteSignal::compare_swap(expected, desired, deadline)", Answer::fails,
       [](H& h) { return h.remote_signal.compare_swap(1, 0, at_once()).status(); }},
      {"RemoteSignal::put(slot, tensor, amount, deadline)", Answer::fails,
       [](H& h) { return h.remote_signal.put(h.remote, h.tensor, 1, at_once()); }},
  };
}

}  // namespace weft::tests
