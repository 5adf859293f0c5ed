// In the place of serve/, where there is no libmicrohttpd.

#include "args.hpp"

namespace gdctl {

void add_serve(parser& app) {
  auto sub = app.add_command("serve",
                             "Serve a page to look at: not in this build");
  sub.takes_anything();
  sub.describe("This gdctl was built without libmicrohttpd.", {"gdctl top"});
  sub.runs([](const globals&) {
    return fail(bad_usage("serve: this gdctl was built without libmicrohttpd, "
                          "and serves no page: see gdctl top"));
  });
}

} // namespace gdctl
