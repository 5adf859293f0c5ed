#include <gd/network/workers/link_codec.hpp>

#include <gd/store/nodes.hpp>

#include <algorithm>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

namespace gd::link {

namespace {

template <class T>
struct is_list : std::false_type {};
template <class T>
struct is_list<std::vector<T>> : std::true_type {};

template <class T>
struct is_optional : std::false_type {};
template <class T>
struct is_optional<std::optional<T>> : std::true_type {};
template <class T>
struct is_optional<std::shared_ptr<T>> : std::true_type {};

template <class T>
T& emplace(std::optional<T>& x) {
  return x.emplace();
}

template <class T>
T& emplace(std::shared_ptr<T>& x) {
  return *(x = std::make_shared<T>());
}

template <class T>
constexpr bool is_number = std::is_integral_v<T> || std::is_enum_v<T>;

constexpr std::size_t number_size = 8;

// -- writing ------------------------------------------------------------------

class writer {
public:
  explicit writer(std::string& out) : out_(out) {
    // nop
  }

  template <class T>
  void fields_of(const T& x) {
    std::uint8_t tag = 0;
    std::apply([&](const auto&... fields) { (field(++tag, fields), ...); },
               x.gd_fields());
  }

private:
  template <class T>
  void field(std::uint8_t tag, const T& x) {
    if constexpr (is_optional<T>::value) {
      if (x)
        put(tag, *x);
    } else if constexpr (is_list<T>::value) {
      for (const auto& one : x)
        put(tag, one);
    } else if constexpr (is_number<T>) {
      if (x != T{})
        put(tag, x);
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!x.empty())
        put(tag, x);
    } else {
      put(tag, x);
    }
  }

  template <class T>
  void put(std::uint8_t tag, const T& x) {
    out_ += static_cast<char>(tag);
    if constexpr (is_number<T>) {
      put_length(number_size);
      auto bits = static_cast<std::uint64_t>(x);
      for (std::size_t i = 0; i < number_size; ++i, bits >>= 8)
        out_ += static_cast<char>(bits & 0xff);
    } else if constexpr (std::is_same_v<T, std::string>) {
      put_length(x.size());
      out_ += x;
    } else if constexpr (std::is_same_v<T, json>) {
      put_length(x.text().size());
      out_ += x.text();
    } else {
      std::string nested;
      writer{nested}.fields_of(x);
      put_length(nested.size());
      out_ += nested;
    }
  }

  /// Seven bits at a time, the lowest first.
  void put_length(std::size_t n) {
    for (; n >= 0x80; n >>= 7)
      out_ += static_cast<char>((n & 0x7f) | 0x80);
    out_ += static_cast<char>(n);
  }

  std::string& out_;
};

// -- reading ------------------------------------------------------------------

/// Puts one field's value where it belongs.
class field_reader {
public:
  field_reader(std::uint8_t tag, std::string_view value)
    : tag_(tag), value_(value) {
    // nop
  }

  template <class T>
  void into(T& to) {
    std::uint8_t tag = 0;
    auto visit = [&](auto& field) {
      if (++tag == tag_)
        take(field);
    };
    std::apply([&](auto&... fields) { (visit(fields), ...); }, to.gd_fields());
  }

  std::string problem;

private:
  template <class T>
  void take(T& to) {
    if constexpr (is_optional<T>::value) {
      read(emplace(to));
    } else if constexpr (is_list<T>::value) {
      if (to.size() >= most_elements)
        problem = "expected at most " + std::to_string(most_elements)
                  + " elements";
      else
        read(to.emplace_back());
    } else {
      read(to);
    }
  }

  template <class T>
  void read(T& to);

  std::uint8_t tag_;
  std::string_view value_;
};

/// What is wrong with it; empty: nothing.
template <class T>
std::string read_fields(T& to, std::string_view bytes) {
  // What is left out was empty or zero, whatever a struct begins with.
  std::apply(
    [](auto&... fields) {
    ((fields = std::remove_reference_t<decltype(fields)>{}), ...);
    },
    to.gd_fields());
  while (!bytes.empty()) {
    auto tag = static_cast<std::uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    auto in_field = [tag](const std::string& what) {
      return "field " + std::to_string(tag) + ": " + what;
    };
    std::size_t length = 0;
    bool more = true;
    for (unsigned shift = 0; more; shift += 7) {
      if (bytes.empty() || shift > 28)
        return in_field("its length cannot be read");
      auto part = static_cast<std::uint8_t>(bytes.front());
      bytes.remove_prefix(1);
      length |= static_cast<std::size_t>(part & 0x7f) << shift;
      more = (part & 0x80) != 0;
    }
    if (length > bytes.size())
      return in_field("expected " + std::to_string(length) + " bytes, got "
                      + std::to_string(bytes.size()));
    field_reader one{tag, bytes.substr(0, length)};
    bytes.remove_prefix(length);
    one.into(to);
    if (!one.problem.empty())
      return in_field(one.problem);
  }
  return {};
}

template <class T>
void field_reader::read(T& to) {
  if constexpr (is_number<T>) {
    if (value_.size() != number_size) {
      problem = "expected a number of 8 bytes, got "
                + std::to_string(value_.size());
      return;
    }
    std::uint64_t bits = 0;
    for (auto i = number_size; i-- > 0;)
      bits = bits << 8 | static_cast<std::uint8_t>(value_[i]);
    to = static_cast<T>(bits);
    if (static_cast<std::uint64_t>(to) != bits) {
      problem = "the number is too large";
      to = T{};
    }
  } else if constexpr (std::is_same_v<T, std::string>) {
    to = value_;
  } else if constexpr (std::is_same_v<T, json>) {
    to = json::raw(std::string{value_});
  } else {
    problem = read_fields(to, value_);
  }
}

} // namespace

template <class T>
packet pack(const T& x) {
  packet out{.type = static_cast<std::int32_t>(T::type)};
  writer{out.bytes}.fields_of(x);
  return out;
}

template <class T>
result<T> unpack(const packet& x) {
  T out;
  if (x.type != static_cast<std::int32_t>(T::type))
    return error{errc::codec,
                 "link message: expected type "
                   + std::to_string(static_cast<int>(T::type)) + ", got "
                   + std::to_string(x.type),
                 {}};
  if (auto problem = read_fields(out, x.bytes); !problem.empty())
    return error{errc::codec,
                 "link message of type " + std::to_string(x.type) + ", "
                   + problem,
                 {}};
  return out;
}

#define GD_LINK_MESSAGE(type)        \
  template packet pack(const type&); \
  template result<type> unpack(const packet&);
GD_LINK_MESSAGE(join)
GD_LINK_MESSAGE(joined)
GD_LINK_MESSAGE(denied)
GD_LINK_MESSAGE(credit)
GD_LINK_MESSAGE(heard)
GD_LINK_MESSAGE(work)
GD_LINK_MESSAGE(outcome)
GD_LINK_MESSAGE(crashed)
GD_LINK_MESSAGE(released)
GD_LINK_MESSAGE(over)
GD_LINK_MESSAGE(lost)
GD_LINK_MESSAGE(leaving)
GD_LINK_MESSAGE(closing)
GD_LINK_MESSAGE(completed)
#undef GD_LINK_MESSAGE

std::chrono::microseconds duration_of(std::int64_t us) {
  constexpr std::chrono::microseconds most = std::chrono::years{1};
  return std::clamp(std::chrono::microseconds{us}, -most, most);
}

std::vector<offered_machine> offered(const std::vector<machine>& machines) {
  std::vector<offered_machine> out;
  for (const auto& x : store::known(machines))
    out.push_back({x.fsm, x.version, store::definition(x)});
  return out;
}

result<store::outcome_row> outcome_of(const held_id& which,
                                      store::outcome_row row) {
  switch (row.what) {
    case store::write_kind::next:
    case store::write_kind::replay:
    case store::write_kind::await:
    case store::write_kind::done:
    case store::write_kind::stop:
    case store::write_kind::park:
    case store::write_kind::finish:
    case store::write_kind::later:
      break;
    default: // the rest is the engine's alone
      return error{errc::codec,
                   "link message: no outcome has the number "
                     + std::to_string(static_cast<int>(row.what)),
                   {}};
  }
  row.id = which.id;
  row.token = which.token;
  return row;
}

} // namespace gd::link
