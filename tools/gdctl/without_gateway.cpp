// In the place of gateway.cpp, where there is no CAF.

#include "service.hpp"

namespace gdctl {

gd::result<std::unique_ptr<service>>
open_gateway(const std::vector<std::string>&, const std::string&) {
  return bad_usage("--gateway: this gdctl was built without CAF, and can only "
                   "work with a --database");
}

gd::result<void> make_secret(const std::string&) {
  return bad_usage("secret: this gdctl was built without CAF, whose gateways "
                   "have secrets");
}

} // namespace gdctl
