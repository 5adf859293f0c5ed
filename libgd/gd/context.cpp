#include <gd/context.hpp>

#include <gd/store/lease.hpp>

#include <utility>

namespace gd {

undecodable_signal::undecodable_signal(std::string_view name, std::int64_t id,
                                       const error& why)
  : what_("signal " + std::string{name} + " (" + std::to_string(id)
          + "): " + why.message) {
  // nop
}

context_base::entry* context_base::find(std::string_view name, mark as) {
  for (auto& x : inbox_)
    if (x.state != mark::consumed && x.content.name == name) {
      x.state = as;
      return &x;
    }
  return nullptr;
}

raw_signal context_base::plain(const raw_signal& x) const {
  auto out = x;
  if (!cipher_)
    return out;
  auto payload = decrypted(json::raw(x.payload), *cipher_);
  if (!payload)
    throw undecodable_signal{x.name, x.id, payload.error()};
  out.payload = std::move(*payload).text();
  return out;
}

std::optional<raw_signal> context_base::take_raw(std::string_view name) {
  if (auto* x = find(name, mark::consumed))
    return plain(x->content);
  return std::nullopt;
}

std::vector<raw_signal> context_base::peek_all(std::string_view name) {
  std::vector<raw_signal> xs;
  for (auto& x : inbox_)
    if (x.state != mark::consumed && x.content.name == name) {
      x.state = mark::seen;
      xs.push_back(plain(x.content));
    }
  return xs;
}

bool context_base::discard(std::string_view name) {
  return find(name, mark::consumed) != nullptr;
}

const std::string& context_base::lease_token() const noexcept {
  return lease_->token;
}

bool context_base::lease_lost() const noexcept {
  return lease_->lost;
}

std::stop_token context_base::stop_token() const {
  return lease_->stop_token();
}

void context_base::throw_other_enum() const {
  throw foreign_step{"at: expected a step of " + fsm + " v"
                     + std::to_string(fsm_version)
                     + ", got one of another enum"};
}

} // namespace gd
