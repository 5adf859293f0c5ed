#include "support/ledger.hpp"

#include "support/database.hpp"

namespace gd::test {

std::string broken_paths(temporary_database& db) {
  return db.scalar(R"(
    select coalesce(string_agg(format('%s: %s', id, what), ', '), '')
    from (
      select g.id, 'has gaps' as what
      from gen_durable g
      where case when g.history > 0 then g.seq + 1 else 0 end <> (
        select count(*) from gen_durable_ledger l where l.instance_id = g.id and l.seq between 0 and g.seq)
      union all
      select l.instance_id, 'begins elsewhere'
      from gen_durable_ledger l
      join gen_durable_ledger b on b.instance_id = l.instance_id and b.seq = l.seq - 1
      where l.from_step is distinct from b.to_step
      union all
      select g.id, 'ends elsewhere'
      from gen_durable g
      join gen_durable_transitions l on l.instance_id = g.id and l.most_recent
      where (l.seq, l.to_step, l.attempt, l.fsm_version) is distinct from (g.seq, g.step, g.attempt, g.fsm_version)
        or l.sort_key <> g.seq or g.history = 2 and l.state <> g.state or g.history = 1 and l.state is not null
        or g.ledger_step is distinct from g.step
      union all
      select g.id, 'is without history and in a step'
      from gen_durable g
      where coalesce(g.history, 0) = 0 and g.ledger_step is not null
    ) x)");
}

} // namespace gd::test
