#include <gd/pq/text.hpp>

#include <fmt/format.h>
#include <libpq-fe.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace gd::pq {

namespace {

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

/// Whatever the session makes of backslashes in plain literals.
std::string literal(std::string_view text) {
  auto out = quoted(text, '\'');
  if (out.find('\\') == std::string::npos)
    return out;
  for (std::size_t i = 0; (i = out.find('\\', i)) != std::string::npos; i += 2)
    out.insert(i, 1, '\\');
  return " E" + out;
}

/// What there is one of for each host, or one port for all, or none.
constexpr std::array of_each_host{"host", "hostaddr", "port"};

/// What libpq makes of a connection string: with what a service or the environment adds.
conninfo as_libpq_reads(const std::string& database) {
  // Told before there is an attempt, which such a mode does not even begin.
  std::array keys{"dbname", "sslmode", static_cast<const char*>(nullptr)};
  std::array values{database.c_str(), "none",
                    static_cast<const char*>(nullptr)};
  auto* refused = PQconnectStartParams(keys.data(), values.data(), 1);
  auto* all = PQconninfo(refused);
  conninfo out;
  for (auto* x = all; x != nullptr && x->keyword != nullptr; ++x)
    if (x->val != nullptr && x->val[0] != '\0')
      out.emplace_back(x->keyword, x->val);
  PQconninfoFree(all);
  PQfinish(refused);
  return out;
}

/// Of those, what we do ourselves, and libpq otherwise than we: options, and several hosts.
conninfo set_elsewhere(const std::string& database) {
  auto all = as_libpq_reads(database);
  bool several = std::any_of(all.begin(), all.end(), [](const auto& x) {
    return (x.first == "host" || x.first == "hostaddr")
           && x.second.find(',') != std::string::npos;
  });
  std::erase_if(all, [several](const auto& x) {
    auto of_hosts = std::find(of_each_host.begin(), of_each_host.end(), x.first)
                    != of_each_host.end();
    return x.first != "options" && !(several && of_hosts);
  });
  return all;
}

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> out;
  for (;;) {
    auto end = std::min(list.find(','), list.size());
    out.emplace_back(list.substr(0, end));
    if (end == list.size())
      return out;
    list.remove_prefix(end + 1);
  }
}

} // namespace

result<void> check_server(int version) {
  constexpr int oldest = 15;
  constexpr int newest = 18;
  auto major = version / 10'000;
  if (major >= oldest && major <= newest)
    return {};
  return error{errc::schema_mismatch,
               fmt::format("the server is PostgreSQL {}, expected {} to {}: {}",
                           major, oldest, newest,
                           major < oldest
                             ? "upgrade the server"
                             : "this program is older than the server: update "
                               "it"),
               {}};
}

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

result<std::vector<conninfo>> read_conninfo(const std::string& database) {
  if (auto ok = check_conninfo(database); !ok)
    return ok.error();
  conninfo all;
  auto* parsed = PQconninfoParse(database.c_str(), nullptr);
  for (auto* x = parsed; x != nullptr && x->keyword != nullptr; ++x)
    if (x->val != nullptr)
      all.emplace_back(x->keyword, x->val);
  PQconninfoFree(parsed);
  for (auto& x : set_elsewhere(database))
    if (std::none_of(all.begin(), all.end(),
                     [&x](const auto& y) { return y.first == x.first; }))
      all.push_back(std::move(x));
  std::vector<conninfo> out;
  for (const auto* name : of_each_host) {
    auto found = std::find_if(all.begin(), all.end(), [name](const auto& x) {
      return x.first == name;
    });
    if (found == all.end())
      continue;
    auto values = split(found->second);
    bool is_port = name == of_each_host.back();
    if (out.empty())
      out.resize(is_port ? 1 : values.size(), all);
    bool for_all = is_port && values.size() == 1;
    if (values.size() != out.size() && !for_all)
      return std::vector<conninfo>{all};
    auto at = found - all.begin();
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i][static_cast<std::size_t>(at)].second = values[for_all ? 0 : i];
  }
  if (out.empty())
    out.push_back(std::move(all));
  return out;
}

std::string host_of(const conninfo& from) {
  std::string out;
  for (const auto* name : of_each_host)
    for (const auto& [keyword, value] : from)
      if (keyword == name && !value.empty())
        out += (out.empty() ? "" : " ") + value;
  return out.empty() ? "the default host" : out;
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

std::string one_line(const char* message) {
  std::string out;
  for (char c : std::string_view{message != nullptr ? message : ""}) {
    bool breaks = c == '\n' || c == '\t'; // libpq indents some lines by a tab
    if (!breaks || (!out.empty() && out.back() != ' '))
      out += breaks ? ' ' : c;
  }
  while (!out.empty() && out.back() == ' ')
    out.pop_back();
  return out;
}

} // namespace gd::pq
