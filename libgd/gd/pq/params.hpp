#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gd::pq {

/// What goes as bytea, which may be any bytes.
struct bytes : std::string_view {
  explicit bytes(std::string_view x) : std::string_view{x} {
    // nop
  }
};

/// The parameters of one statement, in the protocol's binary form. Batches
/// travel as arrays, so that no statement ever has more than a dozen.
class params {
public:
  params& add(bool x);
  params& add(std::int32_t x);
  params& add(std::int64_t x);
  params& add(std::chrono::microseconds x) {
    return add(std::int64_t{x.count()});
  }
  params& add(std::string_view x);
  params& add(const char* x) {
    return add(std::string_view{x});
  }

  /// An array of integers or of texts. An absent optional is null; only those of
  /// std::int64_t, std::string_view and `bytes` are known.
  template <class T>
  params& add(const std::vector<T>& xs);

  /// A value as text; null: there is none. Not beside others.
  params& add_text(const std::string* x);

  const std::vector<std::string>& values() const noexcept {
    return values_;
  }

  /// Whether all of them are texts.
  bool texts() const noexcept {
    return !nulls_.empty();
  }

  /// Of texts.
  bool is_null(std::size_t i) const {
    return texts() && nulls_[i];
  }

private:
  std::vector<std::string> values_;
  std::vector<bool> nulls_; ///< of texts, for each value
};

/// Parameters as libpq takes them; they point into those they are made of.
struct bound_params {
  explicit bound_params(const params& args);

  int count() const noexcept {
    return static_cast<int>(data.size());
  }

  std::vector<const char*> data;
  std::vector<int> lengths;
  std::vector<int> formats;
};

} // namespace gd::pq
