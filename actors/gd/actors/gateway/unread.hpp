#pragma once

#include <caf/node_id.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>

namespace gd::actors {

/// What has been answered to other nodes and not been read there, as far as it is known:
/// whoever does not read gets no more of what is long.
class unread_answers {
public:
  /// Asks how much has not been written to a node; `told` is called with it and `sent`.
  using question
    = std::function<void(const caf::node_id& of, std::uint64_t sent)>;

  explicit unread_answers(question ask) : ask_(std::move(ask)) {
    // nop
  }

  /// Whether an answer of that size may still be sent, where one node may leave `most`
  /// unread.
  bool may_send(const caf::node_id& to, std::size_t bytes,
                std::size_t most) const;
  void sent(const caf::node_id& to, std::size_t bytes);

  /// Of what had been sent when it was asked, so much was unread. Whose connection has to
  /// end, as all of them together leave more than twice `most`: null for nobody's.
  caf::node_id told(const caf::node_id& of, std::uint64_t sent,
                    std::size_t unread, std::size_t most);

  /// Some have something unread, and nobody is asking: to be asked again after a while.
  bool has_to_ask() const;
  void ask_all();

private:
  struct reader {
    std::uint64_t sent = 0;
    /// Of `sent`, so much when it was asked for last.
    std::uint64_t asked_at = 0;
    /// What was unread then.
    std::size_t unread = 0;
    bool asking = false;
  };

  void ask(const caf::node_id& of, reader& x);
  caf::node_id one_too_many(std::size_t most);

  question ask_;
  /// Those that have something on its way.
  std::unordered_map<caf::node_id, reader> readers_;
  /// What is unread or on its way, of all of them.
  std::size_t unread_ = 0;
};

} // namespace gd::actors
