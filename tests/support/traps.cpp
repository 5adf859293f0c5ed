#include <support/traps.hpp>

#include <support/database.hpp>

#include <string>

namespace gd::test {

void define_traps(temporary_database& db) {
  db.rows("create table trapped (what text)");
  auto define = [&](const std::string& head, const std::string& type,
                    const std::string& value) {
    db.rows("create function " + head + " returns " + type
            + " language plpgsql as $$ begin insert into trapped values"
              " ('"
            + head + "'); return " + value + "; end $$");
  };
  define("same(gen_durable_status, gen_durable_status)", "bool",
         "$1::text = $2::text");
  define("other(gen_durable_status, gen_durable_status)", "bool",
         "$1::text <> $2::text");
  db.rows("create operator = (leftarg = gen_durable_status, rightarg ="
          " gen_durable_status, function = same)");
  db.rows("create operator <> (leftarg = gen_durable_status, rightarg ="
          " gen_durable_status, function = other)");
  define("joined(bigint, bigint)", "text", "''");
  db.rows("create operator || (leftarg = bigint, rightarg = bigint, function ="
          " joined)");
  define("member(jsonb, jsonb)", "jsonb", "'[]'");
  db.rows("create operator -> (leftarg = jsonb, rightarg = jsonb, function ="
          " member)");
  define("array_to_string(text[], text)", "text", "''");
  define("jsonb_build_object(text, bigint)", "jsonb", "'{}'");
  define("jsonb_build_object(text, bigint, text, bigint)", "jsonb", "'{}'");
  define("format(text, text)", "text", "''");
  define("format(text, text, int)", "text", "''");
  define("format(text, text, int, text)", "text", "''");
  define("format(text, text, text, int, text)", "text", "''");
  define("format(text, text, text, text, int, text)", "text", "''");
  define("format(text, bigint, text, text, text, text, bigint)", "text", "''");
}

} // namespace gd::test
