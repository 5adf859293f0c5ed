/// The encrypted machine of docs/guide/history-and-retention.md.

#include "../encryption/aes_gcm.hpp"

#include <gd/client.hpp>
#include <gd/machine.hpp>

#include <cstdint>
#include <memory>
#include <string>

// clang-format off
namespace guide {

GD_ENUM(patient_step, admit, treat);

struct patient {
  std::string name;
  std::string diagnosis;
  GD_STATE(patient, name, diagnosis);
};

// [encrypted_by]
gd::machine patients(std::shared_ptr<const gd::cipher> by) { // aes_gcm{{{"2026-11", key}}, "2026-11"}
  using context = gd::context<patient>;
  return gd::define<patient, patient_step>("Patient", 1)
    .encrypted_by(std::move(by))
    .step(patient_step::admit, [](context& ctx) { return gd::next(patient_step::treat, ctx.state); })
    .step(patient_step::treat, [](context& ctx) { return gd::done(ctx.state); });
}
// [/encrypted_by]

// [encrypted]
gd::result<patient> treated(gd::client& client, std::int64_t id, const patient& more, const gd::cipher& by) {
  auto told = client.signal({.target = id, .name = "finding", .payload = gd::encrypted(gd::to_json(more), by)});
  if (!told)
    return told.error();
  auto end = client.await_result({.id = id});
  if (!end)
    return end.error();
  return end->result_as<patient>(by); // without: gd::errc::cipher
}
// [/encrypted]

} // namespace guide
// clang-format on
