#pragma once

#include "serve/access.hpp"
#include "serve/http.hpp"
#include "serve/jobs.hpp"
#include "serve/request_pool.hpp"
#include "serve/sampler.hpp"

#include <gd/client.hpp>

#include <string>
#include <variant>

namespace gdctl::serve {

/// What there is to ask for: no file, and nothing else.
class routes final : public handler {
public:
  routes(gd::pq::options database, access who);

  answer refuse(const request& what) override;
  std::variant<answer, later> handle(request what) override;

  /// Answers all that was asked.
  void stop();

private:
  using next = std::variant<answer, later>;

  next look(const request& what, std::string_view path, std::string_view query);
  next verb(const request& what);
  next ready(const request& what);
  next metrics(const request& what);
  answer about(const request& what) const;

  gd::pq::options database_;
  access who_;
  sampler sampler_;
  job_runner runner_;
  request_pool requests_;
};

} // namespace gdctl::serve
