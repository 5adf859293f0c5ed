#include "service.hpp"

namespace gdctl {

namespace {

class database_service : public service {
public:
  explicit database_service(gd::client db) : db_(std::move(db)) {
    // nop
  }

  std::vector<gd::result<gd::inserted>>
  insert_all(std::vector<gd::insert> rows) override {
    return db_.insert_all(std::move(rows));
  }
  std::vector<gd::result<gd::signalled>>
  signal_all(std::vector<gd::signal> signals) override {
    return db_.signal_all(std::move(signals));
  }
  gd::result<gd::transitioned> transition(gd::transition what) override {
    return db_.transition(std::move(what));
  }
  gd::result<gd::instance> look_up(const gd::look_up& what) override {
    return db_.look_up(what);
  }
  gd::result<gd::awaited> await_result(const gd::await_result& what) override {
    return db_.await_result(what);
  }
  gd::result<gd::why> why(const gd::why_query& what) override {
    return db_.why(what);
  }
  gd::result<std::vector<gd::ledger_entry>>
  history(const gd::history_query& what) override {
    return db_.history(what);
  }
  gd::result<std::vector<gd::stats_row>> stats() override {
    return db_.stats();
  }
  gd::result<std::optional<std::string>>
  unknown(const gd::filter& names) override {
    return db_.unknown(names);
  }
  gd::result<std::vector<std::optional<std::string>>>
  faults(const std::vector<gd::insert>& rows) override {
    return db_.faults(rows);
  }
  gd::result<std::vector<std::optional<std::string>>>
  faults(const std::vector<gd::signal>& signals) override {
    return db_.faults(signals);
  }

private:
  gd::client db_;
};

} // namespace

gd::result<std::unique_ptr<service>> open_service(const globals& global,
                                                  does what) {
  if (!global.gateway.empty())
    return open_gateway(global.gateway, global.secret);
  auto db = open_database(global, what);
  if (!db)
    return db.error();
  return std::unique_ptr<service>{
    std::make_unique<database_service>(std::move(*db))};
}

gd::result<gd::client> open_database(const globals& global, does what) {
  auto where = global.connection();
  if (!where)
    return where.error();
  where->standby_will_do = what == does::read;
  return gd::client::connect(std::move(*where));
}

int nothing_found(const unknown_name& which) {
  if (!which || !*which)
    return ok;
  return fail({gd::errc::not_found, **which, {}});
}

int fail(const unknown_name& which, gd::error why) {
  if (which && *which)
    why.message = **which;
  return fail(why);
}

} // namespace gdctl
