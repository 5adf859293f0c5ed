#pragma once

#include <gd/actors/node/node.hpp>

#include <gd/pq/complaints.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/operate.hpp>
#include <gd/store/store.hpp>

#include <caf/event_based_actor.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gd::actors {

/// Returns rows whose lease is over, and wakes rows whose deadline has passed:
/// two sweeps with jittered intervals and bounded batches. A third deletes instances whose
/// time is over: one node for all.
/// Rows whose unique key might collide by that are returned one by one. Ends the sessions
/// of nodes that are silent for longer than their lease, keeps up which machines are served,
/// tells of what waits for nobody, and works off jobs of operators that nobody works on.
class reaper_actor : public caf::event_based_actor {
public:
  reaper_actor(caf::actor_config& cfg, node_ptr home);

  caf::behavior make_behavior() override;
  const char* name() const override {
    return "gd.reaper";
  }

private:
  using clock = database::clock;

  /// What the unit of a sweep that is under way does: it has one at a time.
  enum class stage : std::uint8_t {
    lock,    ///< whether this node sweeps
    look,    ///< leases that end, and which of those are locked
    batch,   ///< as many rows as one statement moves
    find,    ///< rows whose unique key another may have
    list,    ///< rows that a batch was refused for
    one_row, ///< one of these, by itself
    silent, ///< sessions of silent nodes; old entries of the ledger; known crashes
    excuse,  ///< suspects that are charged with those
    forget,  ///< dedup keys
    end_one, ///< one of these
    served,  ///< which machines are served, and what waits for nobody
    expired, ///< whose time is over, if this node looks for them
    erase,   ///< some of these
    put_off, ///< those of them that cannot be deleted
  };

  struct progress {
    stage under_way = stage::lock;
    clock::time_point began{};
    clock::time_point sent{}; ///< the unit under way
    /// To be returned one by one, the first of them next; and the one under way.
    std::deque<std::int64_t> singles{};
    std::int64_t single = 0;
    /// Those that a batch was refused for are singles, too.
    bool refused = false;
    events::returned returned{};
    bool found = false;
    /// How many intervals the next pause is long.
    std::int32_t pause = 1;
  };

  /// Behind those of the sweeps.
  static constexpr auto job_ticket = static_cast<std::uint64_t>(sweep::expired)
                                     + 1;
  static constexpr std::uint64_t upgrade_ticket = job_ticket + 1;
  static constexpr std::uint64_t note_ticket = upgrade_ticket + 1;

  static std::string_view title(sweep what);
  progress& of(sweep what);
  std::chrono::milliseconds base_interval(sweep what) const;
  std::chrono::milliseconds interval(sweep what);
  bool in_time(sweep what);
  void start(sweep what);
  void run(sweep what);
  void send(sweep what, stage next, pq::unit work);
  void finish(sweep what, const pq::reply& reply);
  void fail(sweep what, const error& why);
  void refuse(sweep what, std::int64_t id, const error& why);
  void note_refused();
  void look_for_locked();
  void read_look(const pq::reply& reply);
  void move_batch(sweep what);
  void read_batch(sweep what, const pq::reply& reply);
  pq::call find_call();
  void find_singles();
  void read_singles(const pq::reply& reply, std::size_t at);
  void return_next(sweep what);
  void read_row(sweep what, const pq::reply& reply);
  void look_for_silent();
  void read_silent(std::vector<store::silent_session> found);
  void exonerate(const std::vector<store::open_crash>& open);
  void exonerate_page();
  void read_exonerated(const pq::reply& reply);
  void end_exonerating();
  void forget();
  void read_forgotten(const pq::reply& reply);
  void end_next();
  void read_end(const pq::reply& reply);
  void look_for_served();
  void begin_job(const store::open_job_row& job);
  void work_on_job();
  void finish_job(const pq::reply& reply);
  void judge_upgrade(const pq::reply& reply);
  void leave_job(const error& why);
  void read_served(const pq::reply& reply);
  void look_for_expired();
  void read_expired(const pq::reply& reply);
  void erase_next();
  void read_erased(const pq::reply& reply);
  void put_off(const std::vector<std::int64_t>& ids);
  void pause(sweep what);
  bool may_look();
  bool has_just_looked();
  bool may_reap();
  bool knows_locks();
  void note_delay(sweep what);
  void remember();

  node_ptr home_;
  /// When the database has last answered so late that others' heartbeats may have
  /// waited, too: for a standby, for example.
  clock::time_point answered_late_{};
  /// Heartbeats wait for a standby; and when the last look that did so was answered.
  bool waits_for_standby_ = false;
  clock::time_point looked_at_{};
  /// Since when it has seen at each interval which rows are locked. Unset: it has not, and
  /// what it finds may just have been let go.
  std::optional<clock::time_point> looking_since_;
  clock::time_point look_due_{};
  /// Rows that strangers have locked, and until when those are left alone that
  /// they have let go since: unset for those that they have not.
  std::map<std::int64_t, std::optional<clock::time_point>> locked_;
  std::array<progress, 3> progress_{};
  /// Of leases that end: where the page ended, who is there, who is locked.
  store::page_end looked_{};
  std::vector<std::int64_t> ending_;
  std::vector<std::int64_t> locked_now_;
  /// Where the last pages of singles ended; nullopt: there are no more of the
  /// kind in this sweep.
  std::optional<std::int64_t> parked_ = 0;
  std::optional<store::page_end> expired_{std::in_place};
  /// Since when nodes have been found silent. They get a heartbeat to say that
  /// they live: a stranger may have held a node's row, or the server stood still.
  std::map<std::string, clock::time_point> silent_since_;
  bool look_soon_ = false;
  /// Those of nodes that were silent for so long.
  std::deque<store::silent_session> silent_;
  std::size_t ended_ = 0;
  /// Processes that a row is known to have ended, where the last page of suspects ended
  /// that may be charged with that, too, and how many were in this sweep.
  std::vector<std::int64_t> open_crashes_;
  store::exonerated_page exonerated_to_{};
  std::size_t exonerated_ = 0;
  /// Where the last page of instances ended of whose histories old entries go: a
  /// page in each sweep.
  store::trimmed_to trimmed_{};
  /// Where the last page of signals ended of which dedup keys are forgotten; and how
  /// many pages of this sweep had some.
  std::int64_t forgotten_ = 0;
  std::int32_t forgotten_pages_ = 0;
  /// What an operator wants to be done with many instances, of which this node does some
  /// at a time. Zero: there is none.
  store::open_job_row job_;
  /// Instances whose time is over: where their last page ended, how many pages of this
  /// sweep there were, whether there may be more, and who of it is still to be deleted, in
  /// groups.
  store::page_end expired_to_{};
  std::int32_t expired_pages_ = 0;
  bool more_expired_ = false;
  std::vector<std::vector<std::int64_t>> to_erase_;
  events::instances_deleted deleted_{};
  /// What nobody serves; and what sweeps cannot do with rows.
  complaints complaints_;
  /// Nodes of which it was told that their sessions cannot be ended.
  std::set<std::string> told_;
};

} // namespace gd::actors
