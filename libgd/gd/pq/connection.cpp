#include <gd/pq/connection.hpp>

#include <gd/pq/ensure.hpp>
#include <gd/pq/text.hpp>
#include <gd/sql.hpp>
#include <gd/time.hpp>

#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace gd::pq {

/// Zero, where it is allowed, is without a limit.
static result<void> check_timeouts(const options& x) {
  for (auto [name, value] :
       {std::pair{"statement_timeout", x.statement_timeout},
        {"lock_timeout", x.lock_timeout},
        {"connect_timeout", x.connect_timeout}})
    if (auto ok = check_time(name, value, {}, longest_statement); !ok)
      return ok;
  return {};
}

connection::connection(options opts, predecessor before)
  : opts_(std::move(opts)), host_(before.host), left_behind_(before.backend) {
  if (auto ok = check_timeouts(opts_); !ok) {
    die(ok.error());
  } else if (auto hosts = read_conninfo(opts_.database)) {
    hosts_ = std::move(*hosts);
    host_ %= hosts_.size();
    tried_ = 1;
    establish();
  } else {
    die(hosts.error());
  }
}

connection::~connection() {
  PQfinish(handle_);
}

void connection::establish() {
  connect_by_ = std::chrono::steady_clock::now() + opts_.connect_timeout;
  // What comes before the user's values yields to them, what comes after wins.
  std::vector<const char*> keys{"keepalives_idle", "keepalives_interval",
                                "keepalives_count", "tcp_user_timeout",
                                "application_name"};
  std::vector<const char*> values{"10", "5", "3", "30000",
                                  opts_.application_name.c_str()};
  for (const auto& [keyword, value] : hosts_[host_]) {
    keys.push_back(keyword.c_str());
    values.push_back(value.c_str());
  }
  auto pins = start_options();
  keys.insert(keys.end(), {"client_encoding", "options", nullptr});
  values.insert(values.end(), {"UTF8", pins.c_str(), nullptr});
  handle_ = PQconnectStartParams(keys.data(), values.data(), 0);
  if (handle_ == nullptr || PQstatus(handle_) == CONNECTION_BAD)
    return die(last_error());
  listen_to_notices();
  events_ = POLLOUT;
}

void connection::listen_to_notices() {
  PQsetNoticeReceiver(
    handle_,
    [](void* to, const PGresult* told) {
    static_cast<connection*>(to)->take_notice(told);
    },
    this);
}

/// What the statement that pins the rest must find: whatever the role or the database
/// has set, it has its time, and its names are PostgreSQL's. What comes last wins.
std::string connection::start_options() const {
  std::string out;
  for (const auto& [keyword, value] : hosts_[host_])
    if (keyword == "options")
      out = value + " ";
  out += fmt::format("-c statement_timeout={} -c idle_session_timeout=0 "
                     "-c default_transaction_deferrable=off "
                     "-c search_path=pg_catalog",
                     opts_.statement_timeout.count());
  if (ended_by_transaction_timeout_)
    out += " -c transaction_timeout=0";
  return out;
}

/// True: it is connecting to the same one again, as the session has ended before it could
/// pin anything. Servers before 17 do not know that setting, and refuse who names it.
bool connection::try_without_timeout() {
  if (!pinning_ || !has_transaction_timeout_ || ended_by_transaction_timeout_
      || PQstatus(handle_) != CONNECTION_BAD)
    return false;
  ended_by_transaction_timeout_ = true;
  establish_again();
  return true;
}

/// True: it is connecting to another one, or has died of the last.
bool connection::try_next_host(const error& why) {
  if (phase_ != phase::connecting || why.code != errc::unavailable
      || hosts_.size() < 2)
    return false;
  refusals_ += fmt::format("{}{}: {}", refusals_.empty() ? "" : "; ",
                           host_of(hosts_[host_]), why.message);
  if (tried_ == hosts_.size())
    return false;
  host_ = (host_ + 1) % hosts_.size();
  ++tried_;
  establish_again();
  return true;
}

void connection::establish_again() {
  PQfinish(std::exchange(handle_, nullptr));
  pinning_ = false;
  prepared_.clear();
  own_.clear();
  awaited_.clear();
  next_ = 0;
  current_ = {};
  establish();
}

void connection::take_notice(const pg_result* told) {
  auto field = [told](int code) {
    const char* text = PQresultErrorField(told, code);
    return std::string{text != nullptr ? text : ""};
  };
  // Messages are in the server's language, and functions of users warn under the
  // same SQLSTATE.
  if (field(PG_DIAG_SOURCE_FUNCTION) == "SyncRepWaitForLSN")
    unreplicated_ = error{errc::unknown_fate,
                          fmt::format("{}: {}", field(PG_DIAG_MESSAGE_PRIMARY),
                                      field(PG_DIAG_MESSAGE_DETAIL)),
                          field(PG_DIAG_SQLSTATE)};
}

error connection::last_error() const {
  auto text = one_line(handle_ != nullptr ? PQerrorMessage(handle_) : "");
  if (text.empty())
    text = "the connection is lost";
  return {errc::unavailable, std::move(text), {}};
}

static error why_no_pooler() {
  return {errc::schema_mismatch,
          "a connection pooler stands between this program and the server: "
          "expected a direct connection, whose session is ours alone",
          {}};
}

/// PgBouncer hands on no options that it does not know itself.
error connection::why_refused() const {
  auto why = last_error();
  return why.message.find("unsupported startup parameter") != std::string::npos
           ? why_no_pooler()
           : why;
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
    die(last_error());
  else
    flush();
}

bool connection::send_calls(const unit& work) {
  transaction_ = work.transaction;
  leaves_traces_from_ = work.leaves_traces_from;
  current_ = {};
  accept_ = work.accept;
  if (!in_rollback_)
    keeps_answers_ = accept_ != nullptr;
  unreplicated_.reset();
  awaited_.clear();
  next_ = 0;
  if (!in_rollback_ && !own_.closing().empty() && !close_own())
    return false;
  if (transaction_ && !queue_call({&sql::begin, {}}, expected::result))
    return false;
  for (const auto& one : work.calls)
    if (!(one.text ? queue_own(one) : queue_call(one, expected::result)))
      return false;
  if (transaction_ && !accept_
      && !queue_call({&sql::commit, {}}, expected::commit))
    return false;
  return queue_sync();
}

bool connection::queue_sync() {
  awaited_.push_back({expected::sync, nullptr});
  return PQpipelineSync(handle_) == 1;
}

/// A text of the user's, prepared by itself: its types are what the server makes of it.
bool connection::queue_own(const call& what) {
  auto name = own_.find(*what.text);
  if (name.empty()) {
    name = own_.draw_name();
    if (PQsendPrepare(handle_, name.c_str(), what.text->c_str(), 0, nullptr)
        != 1)
      return false;
    awaited_.push_back({expected::prepared, what.what, what.text, name});
  }
  bound_params bound{what.args};
  awaited_.push_back({expected::result, what.what, what.text, {}});
  return PQsendQueryPrepared(handle_, name.c_str(), bound.count(),
                             bound.data.data(), bound.lengths.data(),
                             bound.formats.data(), 0)
         == 1;
}

bool connection::close_own() {
  for (const auto& name : own_.closing()) {
    auto text = "deallocate " + name;
    awaited_.push_back({expected::closed, nullptr, nullptr, name});
    if (PQsendQueryParams(handle_, text.c_str(), 0, nullptr, nullptr, nullptr,
                          nullptr, 1)
        != 1)
      return false;
  }
  return true;
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
      die(last_error());
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
        return die(why_refused());
    }
    if (std::chrono::steady_clock::now() >= connect_by_)
      die({errc::unavailable,
           "the server does not answer the connection attempt",
           {}});
    return;
  }
  if (PQconsumeInput(handle_) != 1) {
    auto tried = tried_;
    read_results(); // an answer may have come before the end
    if (phase_ != phase::dead && tried_ == tried)
      die(last_error());
    return;
  }
  flush();
  read_results();
}

void connection::pin_session() {
  if (auto ok = check_server(PQserverVersion(handle_)); !ok)
    return die(ok.error());
  has_transaction_timeout_ = PQserverVersion(handle_) >= 170'000;
  PQsetnonblocking(handle_, 1);
  PQenterPipelineMode(handle_);
  pinning_ = true;
  backend_ = PQbackendPID(handle_);
  call pins{&sql::session, {}};
  auto text = [](auto x) { return fmt::format("{}ms", x.count()); };
  pins.args.add(text(opts_.statement_timeout))
    .add(text(opts_.lock_timeout))
    .add("5s")
    .add(static_cast<std::int32_t>(backend_))
    .add(static_cast<std::int32_t>(left_behind_));
  if (!send_calls({{std::move(pins)}, false}))
    return die(last_error());
  flush();
}

void connection::finish_pinning(const reply& pinned) {
  pinning_ = false;
  if (!pinned.ok())
    return die(*pinned.failure);
  const auto& row = pinned.results.front();
  if (row.size() == 0)
    return die(why_no_pooler());
  if (row.boolean(0, 0) && !opts_.standby_will_do)
    return die({errc::unavailable,
                "the server is a standby, and read-only: expected the primary, "
                "or that this one is promoted",
                "25006"});
  if (row.text(0, 1) != "UTF8")
    return die({errc::schema_mismatch,
                fmt::format("the database's encoding is {}, expected UTF8",
                            row.text(0, 1)),
                {}});
  if (row.boolean(0, 2))
    return die(
      {errc::unavailable,
       fmt::format("the session before this one ({}) still waits for a "
                   "synchronous standby",
                   left_behind_),
       {}});
  left_behind_ = 0;
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
  auto kind = awaited_[next_].kind;
  const auto* what = awaited_[next_].what;
  if (status == PGRES_PIPELINE_SYNC) {
    if (kind != expected::sync)
      return die({errc::unavailable,
                  "the server's answer is malformed: it ends early",
                  {}});
    next_ = awaited_.size();
    return finish_pipeline();
  }
  if (kind == expected::sync) // an error of the sync itself
    return die(owned.failure());
  auto& of = awaited_[next_++];
  if (status == PGRES_PIPELINE_ABORTED)
    return;
  if (!owned.ok()) {
    if (of.text)
      own_.forget(*of.text);
    if (!current_.failure) {
      current_.failure = owned.failure();
      current_.failed_call = current_.results.size();
      if (transaction_ && current_.failed_call > 0)
        --current_.failed_call; // begin has a result, too
    }
    return;
  }
  // What users ask for may be of any type, and nobody reads it.
  if (auto ok = owned.check(); !ok && what != &sql::of_user)
    return die(ok.error());
  if (kind == expected::prepared && of.text) {
    own_.add(*of.text, std::move(of.name));
  } else if (kind == expected::closed) {
    own_.closed(of.name);
  } else if (kind == expected::prepared) {
    prepared_.insert(what);
  } else if (kind == expected::result) {
    current_.results.push_back(std::move(owned));
  } else if (auto ok = owned.check_commit(); !ok) {
    current_.failure = ok.error();
    current_.failed_call = current_.results.size();
  }
}

void connection::finish_pipeline() {
  if (pinning_)
    return finish_pinning(current_);
  if (accept_ && !current_.failure)
    return judge();
  accept_ = nullptr;
  if (in_rollback_) {
    in_rollback_ = false;
    if (keeps_answers_)
      current_.results.pop_back(); // that of the rollback
  } else if (current_.failure && current_.failure->sqlstate == "25006") {
    in_rollback_ = true; // as nothing is written there
    return die({errc::unavailable, "the server has become read-only", "25006"});
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
      return die(last_error());
    current_ = std::move(failed);
    return flush();
  }
  if (unreplicated_ && !current_.failure) {
    // Nobody would know what locks that commit has left to the session.
    auto why = *unreplicated_;
    why.code = errc::unavailable;
    return die(std::move(why));
  }
  if (current_.failure && !keeps_answers_)
    current_.results.clear();
  else if ((transaction_ || keeps_answers_) && !current_.results.empty())
    current_.results.erase(current_.results.begin()); // that of begin
  done_ = std::move(current_);
  current_ = {};
  phase_ = phase::idle;
}

/// Everything but the commit has happened: it follows, or the rollback does.
void connection::judge() {
  auto accept = std::exchange(accept_, nullptr);
  std::vector<rows> told{current_.results.begin() + 1, current_.results.end()};
  if (!accept(told)) {
    current_.failure = error{errc::rejected,
                             "what the statements have answered is not what "
                             "was expected",
                             {}};
    current_.failed_call = told.size();
    current_.declined = true;
    return finish_pipeline();
  }
  awaited_.clear();
  next_ = 0;
  if (!queue_call({&sql::commit, {}}, expected::commit) || !queue_sync())
    return die(last_error());
  flush();
}

std::optional<reply> connection::take_reply() {
  return std::exchange(done_, std::nullopt);
}

void connection::abandon(error why) {
  die(std::move(why));
}

void connection::die(error why) {
  if (phase_ == phase::dead || try_without_timeout() || try_next_host(why))
    return;
  if (phase_ == phase::connecting && why.code == errc::unavailable
      && !refusals_.empty())
    why.message = refusals_;
  if (phase_ == phase::working) {
    left_behind_ = backend_;
    reply lost;
    // A failure that the server has told, but for its end: known only if the
    // rollback was already on its way.
    if (in_rollback_)
      lost = std::move(current_);
    else if (accept_) // no commit has been sent
      lost.failure = error{errc::unavailable, why.message, why.sqlstate};
    else
      lost.failure = unreplicated_.value_or(
        error{errc::unknown_fate, why.message, why.sqlstate});
    lost.unreplicated = unreplicated_.has_value();
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
  // One that nobody may set has ended the connection by now, whatever its length.
  auto most = std::min(opts_.statement_timeout, longest_statement);
  // A unit of several statements may take several timeouts.
  auto give_up_at = most.count() > 0 ? clock::now() + 2 * most
                                     : clock::time_point::max();
  while (phase_ == phase::connecting || phase_ == phase::working) {
    std::array ready{pollfd{fd(), events(), 0}, pollfd{end_fd, POLLIN, 0}};
    int patience = -1;
    auto until = phase_ == phase::connecting ? connect_by_ : give_up_at;
    if (until != clock::time_point::max()) {
      auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - clock::now());
      patience = static_cast<int>(
        std::clamp<std::int64_t>(left.count() + 1, 0, 60'000));
    }
    if (poll(ready.data(), ready.size(), patience) != 0) {
      if (ready[1].revents != 0)
        die({errc::stopped, "nobody waits for the connection", {}});
      else
        pump();
    } else if (clock::now() < until) {
      continue; // poll waits for no more than a minute
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
  unreplicated_.reset();
  PQexitPipelineMode(handle_);
  PQsetnonblocking(handle_, 0);
  rows answer{PQexec(handle_, script.c_str())};
  result<void> outcome;
  if (!answer.ok())
    outcome = answer.failure();
  else if (unreplicated_)
    outcome = *unreplicated_;
  if (PQstatus(handle_) != CONNECTION_OK) {
    die(last_error());
    return error{errc::unknown_fate, why_dead_.message, {}};
  }
  PQsetnonblocking(handle_, 1);
  PQenterPipelineMode(handle_);
  return outcome;
}

// -- users' code --------------------------------------------------------------

pg_conn* connection::lend() {
  ensure(phase_ == phase::idle, "what is lent is not in use");
  PQexitPipelineMode(handle_);
  PQsetnonblocking(handle_, 0);
  return handle_;
}

result<connection::transaction_state> connection::take_back() {
  using state = transaction_state;
  listen_to_notices(); // a library may have set its own
  auto refuse = [this](std::string why) {
    error x{errc::unavailable, std::move(why), {}};
    die(x);
    return x;
  };
  if (PQstatus(handle_) != CONNECTION_OK)
    return refuse(last_error().message);
  if (PQbackendPID(handle_) != backend_)
    return refuse("the connection was made anew");
  auto status = PQtransactionStatus(handle_);
  if (status == PQTRANS_ACTIVE || PQexitPipelineMode(handle_) != 1
      || PQsetnonblocking(handle_, 1) != 0 || PQenterPipelineMode(handle_) != 1)
    return refuse("a command is under way on the connection");
  switch (status) {
    case PQTRANS_INTRANS:
      return state::open;
    case PQTRANS_INERROR:
      return state::failed;
    default:
      return state::none;
  }
}

} // namespace gd::pq
