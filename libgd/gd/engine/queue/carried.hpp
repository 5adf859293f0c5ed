#pragma once

#include <gd/effect.hpp>
#include <gd/pq/unit.hpp>
#include <gd/store/store.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace gd {

/// What the outcomes of one transaction carry: the calls behind those that write the
/// outcomes, one for each kind but for users' statements, and what their answers mean. Knows
/// an outcome by its number in the group.
class carried_batch {
public:
  /// Why an outcome cannot be committed now.
  struct objection {
    std::size_t outcome = 0;
    effect_refused what{};
    bool busy = false; ///< it passes by itself
  };

  void add(std::size_t outcome, const store::outcome_row& row);

  bool empty() const noexcept {
    return rows_.empty();
  }
  bool has(std::size_t outcome) const;

  struct settings {
    std::int32_t inbox = 1'000;
    effect_settings session{};
    /// One outcome, that waits for whom strangers have locked.
    bool waits = false;
  };

  /// Inserts, then signals.
  void add_sends(pq::unit& to, const settings& how);
  /// Users' statements, behind all else.
  void add_statements(pq::unit& to, const settings& how);

  /// What the answers object to; empty: all of it has happened.
  std::vector<objection> judge(const std::vector<pq::rows>& answers) const;

  /// Whether a call that has failed is one of these.
  bool owns(int call) const noexcept;
  /// The kind of what a call does.
  effect_kind kind_of(int call) const noexcept;
  /// Whose statement a call is; nullopt: it is not one's alone.
  std::optional<objection> whose(int call) const;
  /// What an outcome is told whose effect has failed, without the server telling which.
  effect_refused of_outcome(std::size_t outcome,
                            std::optional<effect_kind> kind) const;

  struct effect_count {
    std::size_t inserts = 0, signals = 0, statements = 0;
    std::size_t dropped = 0; ///< signals to instances that have ended
  };
  /// What has happened.
  effect_count count(const std::vector<pq::rows>& answers) const;
  /// In which queues there may be something to pick.
  std::set<std::string> queues(const std::vector<pq::rows>& answers) const;

private:
  struct place {
    std::size_t outcome = 0;
    std::size_t number = 0; ///< of its kind, from 1
  };
  struct of_row {
    std::size_t outcome = 0;
    /// Whoever drives the connection asks when the turn may have gone.
    std::shared_ptr<const effects> what;
  };

  void judge_inserts(const std::vector<pq::rows>& answers,
                     std::vector<objection>& to) const;
  void judge_signals(const std::vector<pq::rows>& answers,
                     std::vector<objection>& to) const;
  void judge_statements(const std::vector<pq::rows>& answers,
                        std::vector<objection>& to) const;

  std::vector<of_row> rows_;
  std::vector<store::carried_insert> inserts_;
  std::vector<place> insert_places_;
  std::vector<const sent_signal*> signals_;
  std::vector<place> signal_places_;
  std::vector<const sql_statement*> statements_;
  std::vector<place> statement_places_;
  int inserts_at_ = -1;
  int holders_at_ = -1; ///< of those with a unique key, in their order
  int signals_from_ = -1;
  int signals_at_ = -1;
  int session_at_ = -1;
  int statements_at_ = -1;
};

/// Whether an error of the server passes by itself, so that its outcome waits.
bool passes_by_itself(const error& why);

/// Whether it is of the server as a whole, and not of what it was asked.
bool is_of_server(const error& why);

} // namespace gd
