#include <gd/network/wire/secret.hpp>

#include <gd/pq/ensure.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace gd::actors {

namespace {

constexpr std::string_view file_form = "64 hexadecimal digits and a line end, "
                                       "as gdctl secret new makes them";
constexpr std::string_view digits = "0123456789abcdef";
constexpr std::size_t file_size = 2 * shared_secret::size + 1;

/// What a greeting begins with: the protocol and its version, 16 bytes.
constexpr std::string_view magic{"gen_durable/1\0\0\0", 16};
constexpr std::size_t nonce_size = 32;
constexpr std::size_t greeting_size = magic.size() + nonce_size;

error bad_file(const std::string& file, const std::string& sentence) {
  return {errc::invalid_argument, "secret " + file + ": " + sentence, {}};
}

error failed(const std::string& file, const std::string& what) {
  return bad_file(file, fmt::format("cannot be {}: {}", what,
                                    std::generic_category().message(errno)));
}

/// Of the file that is open, whatever its name means by now.
result<void> check_file(const descriptor& fd, const std::string& file) {
  struct stat found {};
  if (fstat(fd.get(), &found) != 0)
    return failed(file, "read");
  if (!S_ISREG(found.st_mode))
    return bad_file(file, "expected a regular file, found another kind");
  if (found.st_uid != geteuid() && found.st_uid != 0)
    return bad_file(file, fmt::format("expected a file of user {} or of root, "
                                      "found one of user {}",
                                      geteuid(), found.st_uid));
  if (auto mode = found.st_mode & 07777; (mode & 077) != 0)
    return bad_file(file, fmt::format("expected mode 0600, by which nobody "
                                      "else gets at it, found {:04o}",
                                      mode));
  if (found.st_size != static_cast<off_t>(file_size))
    return bad_file(file, fmt::format("expected {}, found {} bytes", file_form,
                                      found.st_size));
  return {};
}

void fill_with_random(unsigned char* to, std::size_t size) {
  ensure(RAND_bytes(to, static_cast<int>(size)) == 1,
         "the system has random bytes");
}

result<void> write_all(const descriptor& to, std::string_view bytes,
                       const std::string& file) {
  while (!bytes.empty()) {
    auto n = write(to.get(), bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR)
      return failed(file, "written");
    bytes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  }
  if (fsync(to.get()) != 0)
    return failed(file, "written");
  return {};
}

} // namespace

// -- the file -----------------------------------------------------------------

shared_secret::~shared_secret() {
  OPENSSL_cleanse(bytes_.data(), bytes_.size());
}

result<shared_secret> shared_secret::read(const std::string& file) {
  // Neither a link nor a pipe that nobody writes to.
  descriptor fd{open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY
                                     | O_CLOEXEC)};
  if (!fd && errno == ELOOP)
    return bad_file(file, "expected a regular file, found a link");
  if (!fd)
    return failed(file, "read");
  if (auto ok = check_file(fd, file); !ok)
    return ok.error();
  std::array<char, file_size> text{};
  auto n = ::read(fd.get(), text.data(), text.size());
  shared_secret x;
  auto well = n == static_cast<ssize_t>(text.size()) && text.back() == '\n';
  for (std::size_t i = 0; i < 2 * size; ++i) {
    auto digit = digits.find(text[i]);
    well = well && digit != digits.npos;
    x.bytes_[i / 2] = static_cast<unsigned char>(x.bytes_[i / 2] << 4
                                                 | (digit & 0xF));
  }
  OPENSSL_cleanse(text.data(), text.size());
  if (!well)
    return bad_file(file,
                    fmt::format("expected {}, found another text", file_form));
  return x;
}

result<void> shared_secret::make(const std::string& file) {
  descriptor fd{open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                     S_IRUSR | S_IWUSR)};
  if (!fd && errno == EEXIST)
    return error{errc::rejected,
                 "secret " + file + ": is there already, and stays as it is",
                 {}};
  if (!fd)
    return failed(file, "made");
  shared_secret x;
  fill_with_random(x.bytes_.data(), x.bytes_.size());
  std::string text;
  text.reserve(file_size); // no copy is left behind
  for (auto byte : x.bytes_) {
    text += digits[byte >> 4];
    text += digits[byte & 0xF];
  }
  text += '\n';
  auto ok = write_all(fd, text, file);
  OPENSSL_cleanse(text.data(), text.size());
  if (!ok)
    unlink(file.c_str());
  return ok;
}

// -- the handshake ------------------------------------------------------------

bool same_proof(const secret_proof& x, const secret_proof& y) {
  return CRYPTO_memcmp(x.data(), y.data(), x.size()) == 0;
}

std::string_view to_string(handshake_fault why) {
  switch (why) {
    case handshake_fault::greeting:
      return "something else than the greeting (gen_durable/1) of a peer that "
             "has the port's secret";
    case handshake_fault::proof:
      return "no proof of the port's secret: it has another one";
  }
  return "nonsense";
}

secret_handshake::secret_handshake(const shared_secret& secret, role mine)
  : secret_(secret),
    mine_(mine),
    greeting_(greeting_size, '\0'),
    wanted_(greeting_size) {
  std::copy(magic.begin(), magic.end(), greeting_.begin());
  fill_with_random(
    reinterpret_cast<unsigned char*>(greeting_.data() + magic.size()),
    nonce_size);
}

std::optional<handshake_fault> secret_handshake::take(std::string_view& bytes,
                                                      std::string& answer) {
  while (!is_over()) {
    auto n = std::min(missing(), bytes.size());
    in_.append(bytes.substr(0, n));
    bytes.remove_prefix(n);
    // Whoever speaks another protocol is known by its first byte.
    if (theirs_.empty()
        && magic.substr(0, in_.size()) != in_.substr(0, magic.size()))
      return handshake_fault::greeting;
    if (missing() > 0)
      return std::nullopt;
    if (theirs_.empty())
      read_greeting(answer);
    else if (!read_proof(answer))
      return handshake_fault::proof;
    in_.clear();
  }
  return std::nullopt;
}

void secret_handshake::read_greeting(std::string& answer) {
  theirs_ = in_;
  wanted_ = std::tuple_size_v<secret_proof>;
  if (mine_ == role::server) {
    answer += greeting_;
  } else {
    auto proof = proof_of(mine_);
    answer.append(proof.data(), proof.size());
  }
}

bool secret_handshake::read_proof(std::string& answer) {
  secret_proof shown{};
  in_.copy(shown.data(), shown.size());
  auto other = mine_ == role::server ? role::client : role::server;
  if (!same_proof(shown, proof_of(other)))
    return false;
  wanted_ = 0;
  if (mine_ == role::server) {
    auto proof = proof_of(mine_);
    answer.append(proof.data(), proof.size());
  }
  return true;
}

secret_proof secret_handshake::proof_of(role whose) const {
  const auto& client = mine_ == role::client ? greeting_ : theirs_;
  const auto& server = mine_ == role::client ? theirs_ : greeting_;
  std::string what{whose == role::client ? "client" : "server"};
  what += client;
  what += server;
  secret_proof x{};
  unsigned size = 0;
  auto made = HMAC(EVP_sha256(), secret_.data(), shared_secret::size,
                   reinterpret_cast<const unsigned char*>(what.data()),
                   what.size(), reinterpret_cast<unsigned char*>(x.data()),
                   &size);
  ensure(made != nullptr && size == x.size(), "HMAC-SHA256 has 32 bytes");
  return x;
}

// -- the client ---------------------------------------------------------------

namespace {

error refused(const std::string& why) {
  return {errc::unavailable, why, {}};
}

} // namespace

result<void> show_secret(const descriptor& to, const shared_secret& secret,
                         std::chrono::milliseconds timeout) {
  using clock = std::chrono::steady_clock;
  secret_handshake mine{secret, secret_handshake::role::client};
  auto until = clock::now() + timeout;
  auto said = mine.greeting();
  std::array<char, greeting_size> some;
  while (true) {
    // The socket's buffer is empty: so little always fits.
    if (send(to.get(), said.data(), said.size(), MSG_NOSIGNAL)
        != static_cast<ssize_t>(said.size()))
      return refused("the peer has hung up before the port's secret was shown");
    said.clear();
    if (mine.is_over())
      return {};
    auto left = std::chrono::ceil<std::chrono::milliseconds>(until
                                                             - clock::now());
    pollfd ready{to.get(), POLLIN, 0};
    if (left.count() <= 0
        || poll(&ready, 1, static_cast<int>(left.count())) == 0)
      return refused("the peer has not shown that it has the port's secret "
                     "within "
                     + std::to_string(timeout.count()) + " ms");
    auto n = recv(to.get(), some.data(), std::min(some.size(), mine.missing()),
                  0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
      continue;
    if (n <= 0)
      return refused("the peer has hung up: expected one that has the same "
                     "secret as this side, and room for it");
    std::string_view heard{some.data(), static_cast<std::size_t>(n)};
    if (auto fault = mine.take(heard, said))
      return refused("the peer has sent " + std::string{to_string(*fault)});
  }
}

} // namespace gd::actors
