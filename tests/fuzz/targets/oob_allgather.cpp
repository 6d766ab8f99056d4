// Fuzzes the records of the bootstrap without a launcher: their senders are authenticated, but not
// trusted.
#include "p2p/transport/auth/record_cipher.hpp"
#include "runtime/bootstrap/token/oob_records.hpp"
#include "tests/fuzz/input.hpp"

using namespace weft;
using weft::fuzz::Input;
using weft::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  switch (input.take<std::uint8_t>() % 4) {
    case 0:
      if (const auto record = bootstrap::parse_record(input.rest()); record && record->failure)
        require(!Error(*record->failure).detail().text().empty());
      break;
    case 1: {
      const int ranks = input.take<std::uint8_t>() + 1;
      if (const auto words = bootstrap::parse_table(input.rest(), ranks)) {
        require(words->size() == static_cast<std::size_t>(ranks));
        require(std::ranges::equal(bootstrap::table_of(*words), input.rest()));
      }
      break;
    }
    case 2:
      require(!p2p::open_message(p2p::MessageKey{}, input.rest()));
      break;
    default: {
      const p2p::RecordCipher::Key key{};
      p2p::RecordCipher cipher(key, key);
      cipher.begin(input.take<p2p::RecordCipher::Header>());
      std::vector<std::byte> plain(std::max(input.rest().size(), p2p::RecordCipher::kOverhead) -
                                   p2p::RecordCipher::kOverhead);
      require(!cipher.open(input.rest(), plain));
    }
  }
  return 0;
}
