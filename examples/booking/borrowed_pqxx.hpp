#pragma once

#include <pqxx/pqxx>

#include <libpq-fe.h>

#include <string>

/// libpqxx 6 on a connection that is somebody else's: it is neither made nor closed. With
/// libpqxx 7, `pqxx::connection::seize_raw_connection` and `release_raw_connection` do that.
class borrowed_pqxx : public pqxx::connection_base {
public:
  explicit borrowed_pqxx(PGconn* db) : connection_base(how_), how_(db) {
    init();
  }

  ~borrowed_pqxx() noexcept {
    close();
  }

private:
  class policy : public pqxx::connectionpolicy {
  public:
    explicit policy(PGconn* db) : connectionpolicy(std::string{}), db_(db) {
    }

    handle do_startconnect(handle) override {
      return db_;
    }
    handle do_completeconnect(handle) override {
      return db_;
    }
    handle do_dropconnect(handle) noexcept override {
      return db_;
    }
    handle do_disconnect(handle) noexcept override {
      return nullptr;
    }
    bool is_ready(handle) const noexcept override {
      return true;
    }

  private:
    PGconn* db_;
  };

  policy how_;
};
