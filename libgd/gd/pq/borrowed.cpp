#include <gd/pq/borrowed.hpp>

#include <gd/pq/text.hpp>
#include <gd/sql.hpp>

#include <fmt/format.h>
#include <libpq-fe.h>

#include <string_view>
#include <utility>

namespace gd::pq {

borrowed::borrowed(pg_conn* handle, std::string schema)
  : handle_(handle), schema_(std::move(schema)) {
  // nop
}

static error refuse(std::string text) {
  return {errc::invalid_argument, std::move(text), {}};
}

result<void> borrowed::check_connection() const {
  if (handle_ == nullptr)
    return refuse("connection: expected an open one, got none");
  if (PQstatus(handle_) != CONNECTION_OK)
    return error{errc::unavailable, "connection: it is lost", {}};
  if (PQpipelineStatus(handle_) != PQ_PIPELINE_OFF)
    return refuse("connection: expected one that is not in pipeline mode");
  if (auto ok = check_server(PQserverVersion(handle_)); !ok)
    return ok;
  const char* encoding = PQparameterStatus(handle_, "client_encoding");
  if (encoding == nullptr || std::string_view{encoding} != "UTF8")
    return refuse(fmt::format("connection: expected client_encoding UTF8, got "
                              "{}",
                              encoding != nullptr ? encoding : "none"));
  return {};
}

result<void> borrowed::check() const {
  if (auto ok = check_connection(); !ok)
    return ok;
  switch (PQtransactionStatus(handle_)) {
    case PQTRANS_INTRANS:
      return {};
    case PQTRANS_IDLE:
      return refuse("transaction: expected an open one, got none: begin first");
    case PQTRANS_INERROR:
      return refuse("transaction: expected an open one, got one that has "
                    "failed and can only be rolled back");
    default:
      return refuse("connection: expected one with nothing under way, got one "
                    "with a command that has not ended");
  }
}

result<rows> borrowed::run(const call& what) {
  auto text = substitute_schema(what.what->text, schema_);
  bound_params bound{what.args};
  auto* raw = PQexecParams(handle_, text.c_str(), bound.count(), nullptr,
                           bound.data.data(), bound.lengths.data(),
                           bound.formats.data(), 1);
  rows answer{raw};
  if (raw == nullptr || PQstatus(handle_) != CONNECTION_OK)
    return error{errc::unavailable, one_line(PQerrorMessage(handle_)), {}};
  if (!answer.ok())
    return answer.failure();
  if (auto ok = answer.check(); !ok)
    return ok.error();
  return answer;
}

result<void> borrowed::begin() {
  if (auto ok = check_connection(); !ok)
    return ok;
  if (PQtransactionStatus(handle_) != PQTRANS_IDLE)
    return refuse(
      "transaction: expected none, got an open one, which is not to "
      "be rolled back here");
  if (auto done = run({&sql::begin, {}}); !done)
    return done.error();
  return {};
}

result<void> borrowed::commit() {
  auto done = run({&sql::commit, {}});
  if (done)
    return done->check_commit();
  auto why = done.error();
  if (PQstatus(handle_) != CONNECTION_OK)
    why.code = errc::unknown_fate;
  return why;
}

void borrowed::roll_back() noexcept {
  auto status = PQtransactionStatus(handle_);
  if (status == PQTRANS_INTRANS || status == PQTRANS_INERROR)
    PQclear(PQexec(handle_, std::string{sql::rollback.text}.c_str()));
}

} // namespace gd::pq
