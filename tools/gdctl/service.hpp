#pragma once

#include "common.hpp"

#include <gd/client.hpp>
#include <gd/error.hpp>
#include <gd/instance.hpp>
#include <gd/operate.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gdctl {

/// Who answers what a gateway answers, too: the database, or with --gateway an engine.
class service {
public:
  virtual ~service() = default;

  /// An answer for each, in their order.
  virtual std::vector<gd::result<gd::inserted>>
  insert_all(std::vector<gd::insert> rows) = 0;
  virtual std::vector<gd::result<gd::signalled>>
  signal_all(std::vector<gd::signal> signals) = 0;

  virtual gd::result<gd::transitioned> transition(gd::transition what) = 0;
  virtual gd::result<gd::instance> look_up(const gd::look_up& what) = 0;
  virtual gd::result<gd::awaited>
  await_result(const gd::await_result& what) = 0;
  virtual gd::result<gd::why> why(const gd::why_query& what) = 0;
  virtual gd::result<std::vector<gd::ledger_entry>>
  history(const gd::history_query& what) = 0;
  virtual gd::result<std::vector<gd::stats_row>> stats() = 0;
  /// As `gd::client::unknown`; a gateway, which is not asked for that, knows all.
  virtual gd::result<std::optional<std::string>>
  unknown(const gd::filter& names) = 0;

  /// As `gd::client::faults`; a gateway tells of none: what it inserts it decodes as strictly,
  /// where its program has the machine.
  virtual gd::result<std::vector<std::optional<std::string>>>
  faults(const std::vector<gd::insert>& rows) = 0;
  virtual gd::result<std::vector<std::optional<std::string>>>
  faults(const std::vector<gd::signal>& signals) = 0;

  gd::result<gd::inserted> insert(gd::insert what) {
    std::vector<gd::insert> one;
    one.push_back(std::move(what));
    return std::move(insert_all(std::move(one)).front());
  }
  gd::result<gd::signalled> signal(gd::signal what) {
    std::vector<gd::signal> one;
    one.push_back(std::move(what));
    return std::move(signal_all(std::move(one)).front());
  }
};

/// What a command does: for one that only reads, a hot standby will do.
enum class does : bool { write, read };

/// The one that the command line names.
gd::result<std::unique_ptr<service>> open_service(const globals& global,
                                                  does what = does::write);

/// Sends those, by `send`, in which nothing is wrong as far as nodes have made known: an answer
/// for each, in their order. `force`: whatever is wrong.
template <class Answer, class Request, class F>
std::vector<gd::result<Answer>>
send_sound(service& db, std::vector<Request> rows, bool force, F send) {
  if (force)
    return send(std::move(rows));
  auto faults = db.faults(rows);
  std::vector<gd::result<Answer>> answers(
    rows.size(), faults ? gd::error{gd::errc::unknown_fate, "no answer", {}}
                        : faults.error());
  if (!faults)
    return answers;
  std::vector<std::size_t> positions;
  std::vector<Request> sound;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (auto& fault = (*faults)[i]) {
      answers[i] = gd::error{gd::errc::invalid_argument, std::move(*fault),
                             std::string{gd::unknown_name}};
    } else {
      positions.push_back(i);
      sound.push_back(std::move(rows[i]));
    }
  if (sound.empty())
    return answers;
  auto sent = send(std::move(sound));
  for (std::size_t i = 0; i < sent.size(); ++i)
    answers[positions[i]] = std::move(sent[i]);
  return answers;
}

/// The database, for what no gateway answers.
gd::result<gd::client> open_database(const globals& global,
                                     does what = does::write);

/// Of names that somebody has typed: which of them nobody has.
using unknown_name = gd::result<std::optional<std::string>>;

/// Where nothing was found: says that on stderr, if it is so, and returns the exit code.
int nothing_found(const unknown_name& which);

/// As `fail`: that says more than an error about the same name.
int fail(const unknown_name& which, gd::error why);

/// An engine's gateway at one of these addresses; `secret`: a file, for ports.
gd::result<std::unique_ptr<service>>
open_gateway(const std::vector<std::string>& addresses,
             const std::string& secret);

/// Makes such a file.
gd::result<void> make_secret(const std::string& file);

} // namespace gdctl
