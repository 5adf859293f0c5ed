// In the place of serve/, where there is no libmicrohttpd.

#include "common.hpp"
#include "pages.hpp"

#include <CLI/CLI.hpp>

namespace gdctl {

void add_serve(CLI::App& app, const globals&, action& chosen) {
  auto* sub = app.add_subcommand("serve",
                                 "Serve a page to look at: not in this build");
  sub->allow_extras();
  describe(*sub, "This gdctl was built without libmicrohttpd.", {"gdctl top"});
  sub->callback([&chosen] {
    chosen = [] {
      return fail(bad_usage("serve: this gdctl was built without "
                            "libmicrohttpd, and serves no page: see gdctl "
                            "top"));
    };
  });
}

} // namespace gdctl
