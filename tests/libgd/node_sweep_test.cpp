#define CAF_SUITE node_sweep

// Nodes that have gone without a word.

#include "libgd/swept.hpp"

#include <gd/engine/sweep/node_sweep.hpp>

#include <caf/test/dsl.hpp>

#include <string>

namespace node_sweep_suite {

namespace {

struct fixture : gd::test::swept_database {
  gd::node_sweep sweep{here, "leases"};

  void add(const std::string& incarnation, const std::string& silent_for) {
    db.rows("insert into gen_durable_nodes (incarnation, node, host, process, "
            "library, lease, slots, queues, machines, seen_at) values ($1, "
            "'n', 'h', 1, '0', interval '1 min', 1, '[]', '[]', now() - "
            "$2::interval)",
            {incarnation, silent_for});
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(node_sweep_tests, fixture)

CAF_TEST(who has been silent for a day is forgotten) {
  add("b/0", "25 h");
  add("c/0", "23 h");
  CAF_CHECK_EQUAL(round(sweep), "forget_nodes | ");
  CAF_CHECK_EQUAL(db.scalar("select string_agg(incarnation, ' ') from "
                            "gen_durable_nodes"),
                  "c/0");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace node_sweep_suite
