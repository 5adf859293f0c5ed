#include <gd/pq.hpp>

#include <gd/sql.hpp>

#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>

namespace gd::pq {

namespace {

// -- the binary format of parameters and results ------------------------------

constexpr std::int32_t oid_bool = 16;
constexpr std::int32_t oid_int2 = 21;
constexpr std::int32_t oid_int4 = 23;
constexpr std::int32_t oid_int8 = 20;
constexpr std::int32_t oid_text = 25;
constexpr std::int32_t oid_bytea = 17;
constexpr std::int32_t oid_int8_array = 1016;
constexpr std::int32_t oid_text_array = 1009;

template <class T>
void append_big_endian(std::string& out, T x) {
  auto bits = static_cast<std::make_unsigned_t<T>>(x);
  std::array<char, sizeof(T)> bytes;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    bytes[i] = static_cast<char>(bits >> (sizeof(T) - 1 - i) * 8);
  out.append(bytes.data(), bytes.size());
}

template <class T>
T read_big_endian(const char* in) {
  std::make_unsigned_t<T> bits = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    bits = static_cast<std::make_unsigned_t<T>>(
      (static_cast<std::uint64_t>(bits) << 8)
      | static_cast<unsigned char>(in[i]));
  return static_cast<T>(bits);
}

void append_element(std::string& out, std::string_view x) {
  append_big_endian(out, static_cast<std::int32_t>(x.size()));
  out += x;
}

template <class T>
  requires std::is_integral_v<T>
void append_element(std::string& out, T x) {
  append_big_endian(out, static_cast<std::int32_t>(sizeof(T)));
  append_big_endian(out, x);
}

template <class T>
void append_element(std::string& out, const std::optional<T>& x) {
  if (x)
    append_element(out, *x);
  else
    append_big_endian(out, std::int32_t{-1});
}

/// In bytes, with its length in front.
template <class T>
std::size_t size_of_element(const T& x) {
  if constexpr (std::is_integral_v<T>)
    return sizeof(std::int32_t) + sizeof(T);
  else
    return sizeof(std::int32_t) + x.size();
}

template <class T>
std::size_t size_of_element(const std::optional<T>& x) {
  return x ? size_of_element(*x) : sizeof(std::int32_t);
}

template <class T>
bool is_absent(const T&) {
  return false;
}

template <class T>
bool is_absent(const std::optional<T>& x) {
  return !x;
}

template <class T>
std::string encode_array(std::int32_t element_oid, const std::vector<T>& xs) {
  std::string out;
  if (xs.empty()) {
    append_big_endian(out, std::int32_t{0}); // dimensions
    append_big_endian(out, std::int32_t{0});
    append_big_endian(out, element_oid);
    return out;
  }
  auto has_null = std::any_of(xs.begin(), xs.end(),
                              [](const T& x) { return is_absent(x); });
  out.reserve(std::accumulate(xs.begin(), xs.end(), std::size_t{20},
                              [](std::size_t n, const T& x) {
    return n + size_of_element(x);
  }));
  append_big_endian(out, std::int32_t{1});
  append_big_endian(out, std::int32_t{has_null});
  append_big_endian(out, element_oid);
  append_big_endian(out, static_cast<std::int32_t>(xs.size()));
  append_big_endian(out, std::int32_t{1}); // lower bound
  for (const auto& x : xs)
    append_element(out, x);
  return out;
}

/// Calls `f` with each element of an array of one dimension; null is empty.
/// False: its counts and lengths are not those of its bytes.
template <class F>
bool each_element(std::string_view array, F f) {
  constexpr std::size_t before_dimensions = 12;
  constexpr std::size_t before_elements = 20;
  constexpr std::size_t before_bytes = 4;
  if (array.size() < before_dimensions)
    return false;
  auto dimensions = read_big_endian<std::int32_t>(array.data());
  if (dimensions == 0)
    return array.size() == before_dimensions;
  if (dimensions != 1 || array.size() < before_elements)
    return false;
  auto count = read_big_endian<std::int32_t>(array.data() + before_dimensions);
  array.remove_prefix(before_elements);
  for (std::int32_t i = 0; i < count; ++i) {
    if (array.size() < before_bytes)
      return false;
    auto length = read_big_endian<std::int32_t>(array.data());
    auto size = static_cast<std::size_t>(std::max(length, std::int32_t{0}));
    array.remove_prefix(before_bytes);
    if (length < -1 || size > array.size())
      return false;
    f(array.substr(0, size));
    array.remove_prefix(size);
  }
  return count >= 0 && array.empty();
}

/// Whether a value has the form of its type, as far as we read such values.
bool well_formed(std::int32_t type, std::string_view value) {
  switch (type) {
    case oid_bool:
      return value.size() == 1;
    case oid_int2:
      return value.size() == sizeof(std::int16_t);
    case oid_int4:
      return value.size() == sizeof(std::int32_t);
    case oid_int8:
      return value.size() == sizeof(std::int64_t);
    case oid_int8_array: {
      bool all = true;
      return each_element(
               value,
               [&all](std::string_view x) {
        all = all && x.size() == sizeof(std::int64_t);
               })
        && all;
    }
    case oid_text_array:
      return each_element(value, [](std::string_view) {});
    default:
      return true;
  }
}

std::string milliseconds_text(std::chrono::milliseconds x) {
  return fmt::format("{}ms", x.count());
}

std::string quoted(std::string_view name, char quote) {
  std::string out(1, quote);
  for (char c : name) {
    if (c == quote)
      out += c;
    out += c;
  }
  out += quote;
  return out;
}

/// libpq ends its messages with line breaks, and may send several lines.
std::string one_line(const char* message) {
  std::string out = message != nullptr ? message : "";
  while (!out.empty() && (out.back() == '\n' || out.back() == ' '))
    out.pop_back();
  std::replace(out.begin(), out.end(), '\n', ' ');
  return out;
}

error error_of(const PGresult* raw) {
  auto field = [raw](int code) {
    const char* text = PQresultErrorField(raw, code);
    return std::string{text != nullptr ? text : ""};
  };
  auto state = field(PG_DIAG_SQLSTATE);
  auto message = field(PG_DIAG_MESSAGE_PRIMARY);
  if (message.empty())
    message = one_line(PQresultErrorMessage(raw));
  return {code_of_sqlstate(state), std::move(message), std::move(state)};
}

/// Parameters as libpq takes them.
struct bound_params {
  explicit bound_params(const params& args) : formats(args.values().size(), 1) {
    for (const auto& value : args.values()) {
      data.push_back(value.data());
      lengths.push_back(static_cast<int>(value.size()));
    }
  }

  int count() const noexcept {
    return static_cast<int>(data.size());
  }

  std::vector<const char*> data;
  std::vector<int> lengths;
  std::vector<int> formats;
};

/// Whether a URI has an '@' that does not end its user and password: libpq then
/// takes a piece of the password for a host, port or database, and would tell
/// it in its message.
bool has_stray_password(std::string_view database) {
  auto begin = database.find("://");
  if (begin == std::string_view::npos
      || (!database.starts_with("postgresql://")
          && !database.starts_with("postgres://")))
    return false;
  auto rest = database.substr(begin + 3);
  rest = rest.substr(0, rest.find('?'));
  auto first = rest.find('@');
  return first != std::string_view::npos
         && (rest.find('/') < first || rest.find('@', first + 1) != rest.npos);
}

} // namespace

// -- parameters ---------------------------------------------------------------

params& params::add(bool x) {
  values_.emplace_back(1, x ? '\1' : '\0');
  return *this;
}

params& params::add(std::int32_t x) {
  append_big_endian(values_.emplace_back(), x);
  return *this;
}

params& params::add(std::int64_t x) {
  append_big_endian(values_.emplace_back(), x);
  return *this;
}

params& params::add(std::string_view x) {
  values_.emplace_back(x);
  return *this;
}

params& params::add(const std::vector<std::int16_t>& xs) {
  values_.push_back(encode_array(oid_int2, xs));
  return *this;
}

params& params::add(const std::vector<std::int32_t>& xs) {
  values_.push_back(encode_array(oid_int4, xs));
  return *this;
}

params& params::add(const std::vector<std::int64_t>& xs) {
  values_.push_back(encode_array(oid_int8, xs));
  return *this;
}

params& params::add(const std::vector<std::string>& xs) {
  values_.push_back(encode_array(oid_text, xs));
  return *this;
}

params& params::add(const std::vector<std::string_view>& xs) {
  values_.push_back(encode_array(oid_text, xs));
  return *this;
}

params& params::add(const std::vector<std::optional<std::int64_t>>& xs) {
  values_.push_back(encode_array(oid_int8, xs));
  return *this;
}

params& params::add(const std::vector<std::optional<std::string_view>>& xs) {
  values_.push_back(encode_array(oid_text, xs));
  return *this;
}

params&
params::add_bytes(const std::vector<std::optional<std::string_view>>& xs) {
  values_.push_back(encode_array(oid_bytea, xs));
  return *this;
}

// -- results ------------------------------------------------------------------

rows::rows(pg_result* owned) : result_(owned, PQclear) {
  // nop
}

std::size_t rows::size() const noexcept {
  return result_ ? static_cast<std::size_t>(PQntuples(result_.get())) : 0;
}

bool rows::is_null(std::size_t row, int column) const {
  return PQgetisnull(result_.get(), static_cast<int>(row), column) != 0;
}

std::int64_t rows::integer(std::size_t row, int column) const {
  const char* in = PQgetvalue(result_.get(), static_cast<int>(row), column);
  switch (PQgetlength(result_.get(), static_cast<int>(row), column)) {
    case 2:
      return read_big_endian<std::int16_t>(in);
    case 4:
      return read_big_endian<std::int32_t>(in);
    case 8:
      return read_big_endian<std::int64_t>(in);
    default:
      return 0;
  }
}

bool rows::boolean(std::size_t row, int column) const {
  auto value = text(row, column);
  return !value.empty() && value.front() != '\0';
}

std::string_view rows::text(std::size_t row, int column) const {
  auto r = static_cast<int>(row);
  return {PQgetvalue(result_.get(), r, column),
          static_cast<std::size_t>(PQgetlength(result_.get(), r, column))};
}

std::optional<std::int64_t> rows::maybe_integer(std::size_t row,
                                                int column) const {
  if (is_null(row, column))
    return std::nullopt;
  return integer(row, column);
}

std::optional<std::string> rows::maybe_text(std::size_t row, int column) const {
  if (is_null(row, column))
    return std::nullopt;
  return std::string{text(row, column)};
}

std::vector<std::int64_t> rows::integers(std::size_t row, int column) const {
  std::vector<std::int64_t> xs;
  bool whole = each_element(text(row, column), [&xs](std::string_view x) {
    if (x.size() == sizeof(std::int64_t))
      xs.push_back(read_big_endian<std::int64_t>(x.data()));
  });
  return whole ? xs : std::vector<std::int64_t>{};
}

std::vector<std::string> rows::texts(std::size_t row, int column) const {
  std::vector<std::string> xs;
  bool whole = each_element(text(row, column),
                            [&xs](std::string_view x) { xs.emplace_back(x); });
  return whole ? xs : std::vector<std::string>{};
}

result<void> rows::check() const {
  auto columns = result_ ? PQnfields(result_.get()) : 0;
  for (int column = 0; column < columns; ++column) {
    auto type = static_cast<std::int32_t>(PQftype(result_.get(), column));
    for (std::size_t row = 0; row < size(); ++row)
      if (!is_null(row, column) && !well_formed(type, text(row, column)))
        return error{errc::unavailable,
                     fmt::format("the server's answer is malformed: column {} "
                                 "of row {}",
                                 column + 1, row + 1),
                     {}};
  }
  return {};
}

// -- connection strings and schema names --------------------------------------

result<void> check_conninfo(const std::string& database) {
  char* message = nullptr;
  auto* parsed = PQconninfoParse(database.c_str(), &message);
  if (parsed != nullptr) {
    PQconninfoFree(parsed);
    if (!has_stray_password(database))
      return {};
    return error{errc::invalid_argument,
                 "the connection string is malformed: a URI's user, password "
                 "and database write '@' as %40 and '/' as %2F",
                 {}};
  }
  // libpq's message repeats pieces of the string, maybe of a password.
  PQfreemem(message);
  return error{errc::invalid_argument,
               "the connection string is malformed: expected "
               "\"keyword=value ...\" with keywords that libpq knows, or a "
               "postgresql:// URI",
               {}};
}

/// Whatever the session makes of backslashes in plain literals.
static std::string literal(std::string_view text) {
  auto out = quoted(text, '\'');
  if (out.find('\\') == std::string::npos)
    return out;
  for (std::size_t i = 0; (i = out.find('\\', i)) != std::string::npos; i += 2)
    out.insert(i, 1, '\\');
  return " E" + out;
}

std::string substitute_schema(std::string_view text, std::string_view schema) {
  constexpr std::string_view as_name = ":\"schema\"";
  constexpr std::string_view as_literal = ":'schema'";
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    if (text.starts_with(as_name)) {
      out += quoted(schema, '"');
      text.remove_prefix(as_name.size());
    } else if (text.starts_with(as_literal)) {
      out += literal(schema);
      text.remove_prefix(as_literal.size());
    } else {
      out += text.front();
      text.remove_prefix(1);
    }
  }
  return out;
}

// -- connections --------------------------------------------------------------

connection::connection(options opts) : opts_(std::move(opts)) {
  establish();
}

connection::~connection() {
  PQfinish(handle_);
}

void connection::establish() {
  connect_by_ = std::chrono::steady_clock::now() + opts_.connect_timeout;
  if (auto ok = check_conninfo(opts_.database); !ok)
    return die(ok.error());
  // What comes before the user's string yields to it, what comes after wins.
  std::array keys{"keepalives_idle",  "keepalives_interval",
                  "keepalives_count", "tcp_user_timeout",
                  "application_name", "dbname",
                  "client_encoding",  static_cast<const char*>(nullptr)};
  std::array values{"10",
                    "5",
                    "3",
                    "30000",
                    opts_.application_name.c_str(),
                    opts_.database.c_str(),
                    "UTF8",
                    static_cast<const char*>(nullptr)};
  handle_ = PQconnectStartParams(keys.data(), values.data(), 1);
  if (handle_ == nullptr || PQstatus(handle_) == CONNECTION_BAD)
    return die(last_error(errc::unavailable));
  PQsetNoticeReceiver(
    handle_, [](void*, const PGresult*) {}, nullptr);
  events_ = POLLOUT;
}

error connection::last_error(errc code) const {
  auto text = one_line(handle_ != nullptr ? PQerrorMessage(handle_) : "");
  if (text.empty())
    text = "the connection is lost";
  return {code, std::move(text), {}};
}

int connection::fd() const {
  return phase_ == phase::dead ? -1 : PQsocket(handle_);
}

short connection::events() const noexcept {
  return events_;
}

void connection::send(const unit& work) {
  phase_ = phase::working;
  if (!send_calls(work))
    die(last_error(errc::unavailable));
  else
    flush();
}

bool connection::send_calls(const unit& work) {
  transaction_ = work.transaction;
  leaves_traces_from_ = work.leaves_traces_from;
  current_ = {};
  awaited_.clear();
  next_ = 0;
  if (transaction_ && !queue_call({&sql::begin, {}}, expected::result))
    return false;
  for (const auto& one : work.calls)
    if (!queue_call(one, expected::result))
      return false;
  if (transaction_ && !queue_call({&sql::commit, {}}, expected::commit))
    return false;
  awaited_.push_back({expected::sync, nullptr});
  return PQpipelineSync(handle_) == 1;
}

bool connection::queue_call(const call& what, expected kind) {
  // Behind a pooler, the session of the first statement may be one in which
  // another connection of ours has prepared it.
  std::string name{pinning_ ? "" : what.what->name};
  // Its preparation may be in this very pipeline.
  bool known = prepared_.contains(what.what)
               || std::any_of(awaited_.begin(), awaited_.end(),
                              [&](const auto& x) {
    return x.kind == expected::prepared && x.what == what.what;
                  });
  if (!known) {
    auto text = substitute_schema(what.what->text, opts_.schema);
    if (PQsendPrepare(handle_, name.c_str(), text.c_str(), 0, nullptr) != 1)
      return false;
    awaited_.push_back({expected::prepared, what.what});
  }
  bound_params bound{what.args};
  awaited_.push_back({kind, what.what});
  return PQsendQueryPrepared(handle_, name.c_str(), bound.count(),
                             bound.data.data(), bound.lengths.data(),
                             bound.formats.data(), 1)
         == 1;
}

void connection::flush() {
  switch (PQflush(handle_)) {
    case 0:
      events_ = POLLIN;
      break;
    case 1:
      events_ = POLLIN | POLLOUT;
      break;
    default:
      die(last_error(errc::unavailable));
  }
}

void connection::pump() {
  if (phase_ == phase::dead)
    return;
  if (phase_ == phase::connecting && !pinning_) {
    switch (PQconnectPoll(handle_)) {
      case PGRES_POLLING_READING:
        events_ = POLLIN;
        break;
      case PGRES_POLLING_WRITING:
        events_ = POLLOUT;
        break;
      case PGRES_POLLING_OK:
        return pin_session();
      default:
        return die(last_error(errc::unavailable));
    }
    if (std::chrono::steady_clock::now() >= connect_by_)
      die({errc::unavailable,
           "the server does not answer the connection attempt",
           {}});
    return;
  }
  if (PQconsumeInput(handle_) != 1) {
    read_results(); // an answer may have come before the end
    if (phase_ != phase::dead)
      die(last_error(errc::unavailable));
    return;
  }
  flush();
  read_results();
}

void connection::pin_session() {
  if (PQserverVersion(handle_) < 140'000)
    return die({errc::schema_mismatch,
                fmt::format("the server is PostgreSQL {}, expected 14 or newer",
                            PQserverVersion(handle_) / 10'000),
                {}});
  PQsetnonblocking(handle_, 1);
  PQenterPipelineMode(handle_);
  pinning_ = true;
  backend_ = PQbackendPID(handle_);
  call pins{&sql::session, {}};
  pins.args.add(milliseconds_text(opts_.statement_timeout))
    .add(milliseconds_text(opts_.lock_timeout))
    .add("5s")
    .add(static_cast<std::int32_t>(backend_));
  if (!send_calls({{std::move(pins)}, false}))
    return die(last_error(errc::unavailable));
  flush();
}

void connection::finish_pinning(const reply& pinned) {
  pinning_ = false;
  if (!pinned.ok())
    return die(*pinned.failure);
  const auto& row = pinned.results.front();
  if (row.size() == 0)
    return die({errc::schema_mismatch,
                "a connection pooler stands between this program and the "
                "server: expected a direct connection, whose session is ours "
                "alone",
                {}});
  if (row.boolean(0, 0))
    return die(
      {errc::unavailable, "the server is a standby, and read-only", "25006"});
  if (row.text(0, 1) != "UTF8")
    return die({errc::schema_mismatch,
                fmt::format("the database's encoding is {}, expected UTF8",
                            row.text(0, 1)),
                {}});
  phase_ = phase::idle;
}

void connection::read_results() {
  // A null result ends each command; three in a row mean that nothing is left.
  int nulls = 0;
  while (next_ < awaited_.size() && phase_ != phase::dead
         && PQisBusy(handle_) == 0) {
    auto* raw = PQgetResult(handle_);
    if (raw == nullptr) {
      if (++nulls > 2)
        break;
      continue;
    }
    nulls = 0;
    take_result(raw);
  }
}

void connection::take_result(pg_result* raw) {
  rows owned{raw};
  auto status = PQresultStatus(raw);
  auto [kind, what] = awaited_[next_];
  if (status == PGRES_PIPELINE_SYNC) {
    if (kind != expected::sync)
      return die({errc::unavailable,
                  "the server's answer is malformed: it ends early",
                  {}});
    next_ = awaited_.size();
    return finish_pipeline();
  }
  if (kind == expected::sync) // an error of the sync itself
    return die(error_of(raw));
  ++next_;
  if (status == PGRES_PIPELINE_ABORTED)
    return;
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
    if (!current_.failure) {
      current_.failure = error_of(raw);
      current_.failed_call = current_.results.size();
      if (transaction_ && current_.failed_call > 0)
        --current_.failed_call; // begin has a result, too
    }
    return;
  }
  if (auto ok = owned.check(); !ok)
    return die(ok.error());
  if (kind == expected::prepared)
    prepared_.insert(what);
  else if (kind == expected::commit) {
    if (std::string_view{PQcmdStatus(raw)} != "COMMIT") {
      current_.failure = error{
        errc::sql, "the server rolled the transaction back", {}};
      current_.failed_call = current_.results.size();
    }
  } else
    current_.results.push_back(std::move(owned));
}

void connection::finish_pipeline() {
  if (pinning_)
    return finish_pinning(current_);
  if (in_rollback_) {
    in_rollback_ = false;
  } else if (current_.failure && transaction_) {
    if (current_.failed_call >= leaves_traces_from_) {
      in_rollback_ = true; // as the end of the session will
      return die({errc::unavailable,
                  "the session is ended with a transaction that failed",
                  {}});
    }
    // Before anything else is sent: the transaction is open, and has failed.
    auto failed = std::move(current_);
    in_rollback_ = true;
    if (!send_calls({{{&sql::rollback, {}}}, false}))
      return die(last_error(errc::unavailable));
    current_ = std::move(failed);
    return flush();
  }
  if (current_.failure)
    current_.results.clear();
  else if (transaction_ && !current_.results.empty())
    current_.results.erase(current_.results.begin()); // that of begin
  done_ = std::move(current_);
  current_ = {};
  phase_ = phase::idle;
}

std::optional<reply> connection::take_reply() {
  return std::exchange(done_, std::nullopt);
}

void connection::abandon(error why) {
  die(std::move(why));
}

void connection::die(error why) {
  if (phase_ == phase::dead)
    return;
  if (phase_ == phase::working) {
    reply lost;
    // A failure that the server has told, but for its end: known only if the
    // rollback was already on its way.
    if (in_rollback_)
      lost = std::move(current_);
    else
      lost.failure = error{errc::unknown_fate, why.message, why.sqlstate};
    lost.results.clear();
    done_ = std::move(lost);
  }
  phase_ = phase::dead;
  events_ = 0;
  why_dead_ = std::move(why);
  PQfinish(handle_);
  handle_ = nullptr;
}

// -- blocking -----------------------------------------------------------------

result<void> connection::wait_ready(int end_fd) {
  using clock = std::chrono::steady_clock;
  // A unit of several statements may take several timeouts.
  auto give_up_at = opts_.statement_timeout.count() > 0
                      ? clock::now() + 2 * opts_.statement_timeout
                      : clock::time_point::max();
  while (phase_ == phase::connecting || phase_ == phase::working) {
    std::array ready{pollfd{fd(), events(), 0}, pollfd{end_fd, POLLIN, 0}};
    int patience = -1;
    auto until = phase_ == phase::connecting ? connect_by_ : give_up_at;
    if (until != clock::time_point::max()) {
      auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - clock::now());
      patience = static_cast<int>(std::max(left.count() + 1, std::int64_t{0}));
    }
    if (poll(ready.data(), ready.size(), patience) != 0) {
      if (ready[1].revents != 0)
        die({errc::stopped, "nobody waits for the connection", {}});
      else
        pump();
    } else if (phase_ == phase::connecting) {
      die({errc::unavailable,
           "the server does not answer the connection attempt",
           {}});
    } else {
      die({errc::unavailable, "the server does not answer", {}});
    }
  }
  if (phase_ == phase::dead)
    return why_dead_;
  return {};
}

reply connection::wait_reply() {
  // A connection that dies leaves its own reply.
  static_cast<void>(static_cast<bool>(wait_ready()));
  return take_reply().value_or(reply{{}, why_dead_, 0});
}

reply connection::run(const unit& work) {
  if (auto ready = wait_ready(); !ready) {
    reply failed;
    failed.failure = ready.error();
    return failed;
  }
  send(work);
  return wait_reply();
}

result<void> connection::execute(std::string_view text) {
  if (auto ready = wait_ready(); !ready)
    return ready;
  auto script = substitute_schema(text, opts_.schema);
  PQexitPipelineMode(handle_);
  PQsetnonblocking(handle_, 0);
  std::unique_ptr<PGresult, decltype(&PQclear)> raw{
    PQexec(handle_, script.c_str()), PQclear};
  result<void> outcome;
  auto status = PQresultStatus(raw.get());
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
    outcome = error_of(raw.get());
  if (PQstatus(handle_) != CONNECTION_OK) {
    die(last_error(errc::unavailable));
    return error{errc::unknown_fate, why_dead_.message, {}};
  }
  PQsetnonblocking(handle_, 1);
  PQenterPipelineMode(handle_);
  return outcome;
}

// -- somebody else's connection -----------------------------------------------

borrowed::borrowed(pg_conn* handle, std::string schema)
  : handle_(handle), schema_(std::move(schema)) {
  // nop
}

result<void> borrowed::check() const {
  auto refuse = [](std::string text) {
    return error{errc::invalid_argument, std::move(text), {}};
  };
  if (handle_ == nullptr)
    return refuse("connection: expected an open one, got none");
  if (PQstatus(handle_) != CONNECTION_OK)
    return error{errc::unavailable, "connection: it is lost", {}};
  if (PQpipelineStatus(handle_) != PQ_PIPELINE_OFF)
    return refuse("connection: expected one that is not in pipeline mode");
  switch (PQtransactionStatus(handle_)) {
    case PQTRANS_INTRANS:
      break;
    case PQTRANS_IDLE:
      return refuse("transaction: expected an open one, got none: begin first");
    case PQTRANS_INERROR:
      return refuse("transaction: expected an open one, got one that has "
                    "failed and can only be rolled back");
    default:
      return refuse("connection: expected one with nothing under way, got one "
                    "with a command that has not ended");
  }
  const char* encoding = PQparameterStatus(handle_, "client_encoding");
  if (encoding == nullptr || std::string_view{encoding} != "UTF8")
    return refuse(fmt::format("connection: expected client_encoding UTF8, got "
                              "{}",
                              encoding != nullptr ? encoding : "none"));
  return {};
}

result<rows> borrowed::run(const call& what) {
  auto text = substitute_schema(what.what->text, schema_);
  bound_params bound{what.args};
  auto* raw = PQexecParams(handle_, text.c_str(), bound.count(), nullptr,
                           bound.data.data(), bound.lengths.data(),
                           bound.formats.data(), 1);
  rows owned{raw};
  if (raw == nullptr || PQstatus(handle_) != CONNECTION_OK)
    return error{errc::unavailable, one_line(PQerrorMessage(handle_)), {}};
  auto status = PQresultStatus(raw);
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
    return error_of(raw);
  if (auto ok = owned.check(); !ok)
    return ok.error();
  return owned;
}

} // namespace gd::pq
