#include <gd/engine/queue/carried.hpp>

#include <gd/store/transitions.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gd {

namespace {

const pq::rows& answer_of(const std::vector<pq::rows>& answers, int call) {
  return answers[static_cast<std::size_t>(call)];
}

error busy(std::string text) {
  return {errc::busy, std::move(text), {}};
}

std::optional<error> fault_of(const store::insert_effect_row& x) {
  using store::insert_fault;
  switch (x.fault) {
    case insert_fault::none:
      return std::nullopt;
    case insert_fault::unknown_machine:
      return error{errc::unknown_machine,
                   "fsm: no node has made " + x.detail + " known",
                   {}};
    case insert_fault::version_retired:
      return error{
        errc::version_retired, "version: " + x.detail + " is retired", {}};
    case insert_fault::unknown_step:
      return error{errc::unknown_step, "step: expected one of " + x.detail, {}};
    case insert_fault::not_runnable:
      return error{errc::invalid_argument,
                   "eligible_at_us and delay_us: no function runs in step "
                     + x.detail + ", expected neither",
                   {}};
  }
  return std::nullopt;
}

} // namespace

bool passes_by_itself(const error& why) {
  return why.code == errc::busy || why.code == errc::conflict
         || why.sqlstate == "57014";
}

bool is_of_server(const error& why) {
  auto of_class = std::string_view{why.sqlstate}.substr(0, 2);
  return why.code == errc::unknown_fate || why.sqlstate.empty()
         || (of_class == "57" && why.sqlstate != "57014") || of_class == "58"
         || of_class == "08" || of_class == "53" || why.sqlstate == "25006";
}

// -- the calls ----------------------------------------------------------------

void carried_batch::add(std::size_t outcome, const store::outcome_row& row) {
  const auto& what = *row.carried;
  rows_.push_back({outcome, row.carried});
  for (std::size_t i = 0; i < what.inserts.size(); ++i) {
    inserts_.push_back(
      {&what.inserts[i], i < what.newest.size() ? what.newest[i] : 0});
    insert_places_.push_back({outcome, i + 1});
  }
  for (std::size_t i = 0; i < what.signals.size(); ++i) {
    signals_.push_back(&what.signals[i]);
    signal_places_.push_back({outcome, i + 1});
  }
  for (std::size_t i = 0; i < what.statements.size(); ++i) {
    statements_.push_back(&what.statements[i]);
    statement_places_.push_back({outcome, i + 1});
  }
}

bool carried_batch::has(std::size_t outcome) const {
  return std::any_of(rows_.begin(), rows_.end(),
                     [outcome](auto& x) { return x.outcome == outcome; });
}

void carried_batch::add_sends(pq::unit& to, const settings& how) {
  if (!inserts_.empty()) {
    inserts_at_ = to.add(store::insert_effects(inserts_));
    std::vector<store::carried_insert> keyed;
    for (const auto& x : inserts_)
      if (x.what->unique_key)
        keyed.push_back(x);
    if (!keyed.empty())
      holders_at_ = to.add(store::key_holders(keyed));
  }
  if (signals_.empty())
    return;
  store::row_refs<gd::signal> xs;
  bool named = how.waits;
  for (const auto* x : signals_) {
    xs.add(x->what);
    named = named || x->what.key;
  }
  signals_from_ = to.add(named ? store::lock_named(xs, how.waits)
                               : store::lock_targets(xs));
  signals_at_ = to.add(store::send_signals(xs, how.inbox, named));
}

void carried_batch::add_statements(pq::unit& to, const settings& how) {
  if (statements_.empty())
    return;
  session_at_ = to.add(store::users_session(how.session));
  for (const auto* x : statements_) {
    auto at = to.add(store::users_statement(*x));
    if (statements_at_ < 0)
      statements_at_ = at;
  }
}

// -- what they have come to ---------------------------------------------------

bool carried_batch::owns(int call) const noexcept {
  auto within = [call](int first, int last) {
    return first >= 0 && call >= first && call <= last;
  };
  auto statements = static_cast<int>(statements_.size());
  return within(inserts_at_, std::max(inserts_at_, holders_at_))
         || within(signals_from_, signals_at_)
         || within(session_at_, statements_at_ + statements - 1);
}

effect_kind carried_batch::kind_of(int call) const noexcept {
  if (session_at_ >= 0 && call >= session_at_)
    return effect_kind::sql;
  return signals_from_ >= 0 && call >= signals_from_ ? effect_kind::signal
                                                     : effect_kind::insert;
}

std::optional<carried_batch::objection> carried_batch::whose(int call) const {
  if (statements_at_ < 0 || call < statements_at_)
    return std::nullopt;
  auto i = static_cast<std::size_t>(call - statements_at_);
  if (i >= statements_.size())
    return std::nullopt;
  const auto& at = statement_places_[i];
  return objection{at.outcome, {at.number, effect_kind::sql, {}}};
}

effect_refused
carried_batch::of_outcome(std::size_t outcome,
                          std::optional<effect_kind> kind) const {
  auto found = std::find_if(rows_.begin(), rows_.end(), [&](const auto& x) {
    return x.outcome == outcome;
  });
  if (found == rows_.end())
    return {};
  const auto& what = *found->what;
  auto last = !what.statements.empty() ? effect_kind::sql
              : !what.signals.empty()  ? effect_kind::signal
                                       : effect_kind::insert;
  auto of = kind.value_or(last);
  auto n = of == effect_kind::insert   ? what.inserts.size()
           : of == effect_kind::signal ? what.signals.size()
                                       : what.statements.size();
  return {kind && n == 1 ? n : 0, of, {}};
}

void carried_batch::judge_inserts(const std::vector<pq::rows>& answers,
                                  std::vector<objection>& to) const {
  if (inserts_at_ < 0)
    return;
  auto rows = store::read<store::insert_effect_row>(
    answer_of(answers, inserts_at_));
  std::vector<store::key_holder_row> holders;
  if (holders_at_ >= 0)
    holders = store::read<store::key_holder_row>(
      answer_of(answers, holders_at_));
  std::size_t keyed = 0;
  for (std::size_t i = 0; i < rows.size() && i < inserts_.size(); ++i) {
    const auto& what = *inserts_[i].what;
    const auto* holder = what.unique_key && keyed < holders.size()
                           ? &holders[keyed++]
                           : nullptr;
    auto object = [&](error why, bool passes = false) {
      const auto& at = insert_places_[i];
      to.push_back(
        {at.outcome, {at.number, effect_kind::insert, std::move(why)}, passes});
    };
    if (auto why = fault_of(rows[i]))
      object(std::move(*why));
    else if (rows[i].made)
      continue;
    else if (holder == nullptr)
      object(busy("the id that was drawn is another's"), true);
    else if (!holder->holder)
      object(busy("unique_key: whoever had it has just left it"), true);
    else if (holder->fsm != what.fsm)
      object(
        of_another_machine(*what.unique_key, *holder->holder, holder->fsm));
  }
}

void carried_batch::judge_signals(const std::vector<pq::rows>& answers,
                                  std::vector<objection>& to) const {
  using store::signal_answer;
  if (signals_at_ < 0)
    return;
  auto rows = store::read<store::signal_row>(answer_of(answers, signals_at_));
  for (std::size_t i = 0; i < rows.size() && i < signals_.size(); ++i) {
    const auto& what = *signals_[i];
    auto target = address_text(what.what.target, what.what.key);
    auto object = [&](errc code, std::string text, bool passes = false) {
      const auto& at = signal_places_[i];
      to.push_back(
        {at.outcome,
         {at.number, effect_kind::signal, {code, std::move(text), {}}},
         passes});
    };
    switch (rows[i].answer) {
      case signal_answer::accepted:
      case signal_answer::duplicate:
        break;
      case signal_answer::no_such_target:
        object(errc::no_such_target, "target: there is no instance " + target);
        break;
      case signal_answer::target_finished:
        if (what.or_fail)
          object(errc::target_finished,
                 fmt::format("target: instance {} is finished", target));
        break;
      case signal_answer::inbox_full:
        object(errc::inbox_full,
               fmt::format("target: the inbox of instance {} is full", target),
               true);
        break;
      case signal_answer::locked:
      case signal_answer::unknown:
        object(
          errc::busy,
          fmt::format("target {}: another transaction holds the row", target),
          true);
    }
  }
}

void carried_batch::judge_statements(const std::vector<pq::rows>& answers,
                                     std::vector<objection>& to) const {
  for (std::size_t i = 0; i < statements_.size(); ++i) {
    const auto& expected = statements_[i]->rows;
    auto got = answers[static_cast<std::size_t>(statements_at_) + i].affected();
    if (!expected || *expected == got)
      continue;
    const auto& at = statement_places_[i];
    to.push_back({at.outcome,
                  {at.number,
                   effect_kind::sql,
                   {errc::rejected,
                    fmt::format("expected {} rows, got {}", *expected, got),
                    {}}}});
  }
}

std::vector<carried_batch::objection>
carried_batch::judge(const std::vector<pq::rows>& answers) const {
  std::vector<objection> out;
  judge_inserts(answers, out);
  judge_signals(answers, out);
  judge_statements(answers, out);
  return out;
}

carried_batch::effect_count
carried_batch::count(const std::vector<pq::rows>& answers) const {
  effect_count out{.inserts = inserts_.size(),
                   .signals = signals_.size(),
                   .statements = statements_.size()};
  if (signals_at_ >= 0)
    for (const auto& x :
         store::read<store::signal_row>(answer_of(answers, signals_at_)))
      if (x.answer == store::signal_answer::target_finished)
        ++out.dropped;
  return out;
}

std::set<std::string>
carried_batch::queues(const std::vector<pq::rows>& answers) const {
  std::set<std::string> out;
  auto add = [&out](std::string& queue) {
    if (!queue.empty())
      out.insert(std::move(queue));
  };
  if (inserts_at_ >= 0)
    for (auto& x :
         store::read<store::insert_effect_row>(answer_of(answers, inserts_at_)))
      if (x.made)
        add(x.queue);
  if (signals_at_ >= 0)
    for (auto& x :
         store::read<store::signal_row>(answer_of(answers, signals_at_)))
      if (x.answer == store::signal_answer::accepted) {
        add(x.woken_queue);
        add(x.runnable_queue);
      }
  return out;
}

} // namespace gd
