#include <gd/error.hpp>

namespace gd {

std::string_view to_string(errc code) noexcept {
  switch (code) {
    case errc::invalid_argument:
      return "invalid_argument";
    case errc::codec:
      return "codec";
    case errc::unknown_machine:
      return "unknown_machine";
    case errc::unknown_step:
      return "unknown_step";
    case errc::unavailable:
      return "unavailable";
    case errc::unknown_fate:
      return "unknown_fate";
    case errc::conflict:
      return "conflict";
    case errc::busy:
      return "busy";
    case errc::rejected:
      return "rejected";
    case errc::sql:
      return "sql";
    case errc::schema_mismatch:
      return "schema_mismatch";
    case errc::no_such_target:
      return "no_such_target";
    case errc::target_finished:
      return "target_finished";
    case errc::inbox_full:
      return "inbox_full";
    case errc::not_found:
      return "not_found";
    case errc::stopped:
      return "stopped";
    case errc::overloaded:
      return "overloaded";
    case errc::machine_differs:
      return "machine_differs";
    case errc::version_retired:
      return "version_retired";
    case errc::transition_conflict:
      return "transition_conflict";
    case errc::not_allowed:
      return "not_allowed";
    case errc::key_of_another_machine:
      return "key_of_another_machine";
    case errc::key_taken:
      return "key_taken";
    case errc::erased:
      return "erased";
    case errc::timed_out:
      return "timed_out";
    case errc::cipher:
      return "cipher";
  }
  return "unknown";
}

bool retryable(errc code) noexcept {
  switch (code) {
    case errc::unavailable:
    case errc::unknown_fate:
    case errc::conflict:
    case errc::busy:
    case errc::overloaded:
    case errc::timed_out:
      return true;
    default:
      return false;
  }
}

std::string to_string(const error& why) {
  std::string text = "gd::";
  text += to_string(why.code);
  text += ": ";
  text += why.message;
  if (!why.sqlstate.empty()) {
    text += " [";
    text += why.sqlstate;
    text += ']';
  }
  return text;
}

errc code_of_sqlstate(std::string_view sqlstate) noexcept {
  if (sqlstate == "40001" || sqlstate == "40P01")
    return errc::conflict;
  if (sqlstate == "55P03")
    return errc::busy;
  if (sqlstate == "MV001")
    return errc::machine_differs;
  if (sqlstate == "MV002")
    return errc::version_retired;
  if (sqlstate == "MV003")
    return errc::transition_conflict;
  if (sqlstate == "MV004")
    return errc::not_allowed;
  if (sqlstate == "MV005")
    return errc::key_of_another_machine;
  if (sqlstate == "MV006")
    return errc::key_taken;
  if (sqlstate == "MV008")
    return errc::not_found;
  auto of_class = sqlstate.substr(0, 2);
  if (of_class == "22" || of_class == "23" || of_class == "54"
      || of_class == "P0")
    return errc::rejected;
  // Full, shutting down, failing, read-only: it may pass.
  if (of_class == "53" || of_class == "57" || of_class == "58"
      || sqlstate == "25006")
    return errc::unavailable;
  return errc::sql;
}

bad_result::bad_result(const error& why)
  : std::logic_error("gd::result: used, but it is an error: "
                     + to_string(why)) {
  // nop
}

bad_result::bad_result()
  : std::logic_error("gd::result: asked for its error, but it has none") {
  // nop
}

namespace detail {

void throw_bad_result(const error* why) {
  if (why != nullptr)
    throw bad_result{*why};
  throw bad_result{};
}

} // namespace detail

} // namespace gd
