#pragma once

namespace gd::test {

class temporary_database;

/// Defines, in the database's schema, functions and operators that fit our types better
/// than PostgreSQL's own. Who runs one leaves a row in the table `trapped`.
void define_traps(temporary_database& db);

} // namespace gd::test
