// SPDX-License-Identifier: Apache-2.0
// There are three sources. `file`: windows of a file's bytes at random places, read one by one; the
// file is never read whole. `uniform`: independent tokens. `markov`: a random chain in which each
// token has a few equally likely successors, so that the lowest possible loss is known.
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <core/error.hpp>
#include <core/owned_fd.hpp>
#include <core/random.hpp>
#include <io/data/tokens.hpp>

namespace shardmark {
namespace {

// Streams of random words; the number of a step is added to them. Parameters use the streams from 0
// on.
constexpr std::uint64_t uniform_stream = 1'000'000, file_stream = 2'000'000,
                        chain_stream = 3'000'000;
constexpr std::uint64_t table_stream = 4'294'967'295;  // the last stream, which no step reaches

// What all sources draw from, and the tokens of a row: those of a sequence and one more.
class SeededSource : public TokenSource {
 protected:
  explicit SeededSource(const Deck& deck)
      : seed_(deck.data.seed),
        row_(deck.model.sequence + 1),
        vocab_(static_cast<std::uint64_t>(deck.model.vocab)) {}

  const std::uint64_t seed_;
  const std::int64_t row_;
  const std::uint64_t vocab_;
};

class UniformSource : public SeededSource {
 public:
  explicit UniformSource(const Deck& deck) : SeededSource(deck) {}

  void fill(std::int64_t step, std::int64_t first, std::int64_t count, std::int32_t* out) override {
    const std::uint64_t stream = uniform_stream + static_cast<std::uint64_t>(step);
    for (std::int64_t i = 0; i < count * row_; ++i)
      out[i] = static_cast<std::int32_t>(
          mix(seed_, stream, static_cast<std::uint64_t>(first * row_ + i)) % vocab_);
  }
  std::optional<double> entropy_floor() const override {
    return std::log(static_cast<double>(vocab_));
  }
};

class MarkovSource : public SeededSource {
 public:
  explicit MarkovSource(const Deck& deck) : SeededSource(deck) {}

  void fill(std::int64_t step, std::int64_t first, std::int64_t count, std::int32_t* out) override {
    const std::uint64_t stream = chain_stream + static_cast<std::uint64_t>(step);
    for (std::int64_t sample = 0; sample < count; ++sample) {
      std::uint64_t token = 0;
      for (std::int64_t t = 0; t < row_; ++t) {
        const auto at = static_cast<std::uint64_t>((first + sample) * row_ + t);
        const std::uint64_t random = mix(seed_, stream, at);
        token = t == 0 ? random % vocab_ : successor(token, random % branches_);
        out[sample * row_ + t] = static_cast<std::int32_t>(token);
      }
    }
  }
  std::optional<double> entropy_floor() const override {
    return std::log(static_cast<double>(branches_));
  }

 private:
  // The successors of a token are distinct: the steps of its branches around the ring of tokens add
  // up to less than one turn.
  std::uint64_t successor(std::uint64_t token, std::uint64_t branch) const {
    if (branches_ == 1) return token;
    const std::uint64_t random = mix(seed_, table_stream, token);
    const std::uint64_t stride = 1 + (random >> 32) % ((vocab_ - 1) / (branches_ - 1));
    return (random % vocab_ + branch * stride) % vocab_;
  }

  const std::uint64_t branches_ = std::min<std::uint64_t>(4, vocab_);
};

class FileSource : public SeededSource {
 public:
  explicit FileSource(const Deck& deck)
      : SeededSource(deck),
        path_(deck.data.path),
        // O_NONBLOCK: a pipe opens at once, to be refused, instead of waiting for its writer.
        fd_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)),
        bytes_of_row_(static_cast<std::size_t>(row_)) {
    if (!fd_) fail(std::strerror(errno));
    struct stat status {};
    if (::fstat(fd_.get(), &status) != 0) fail("its size cannot be determined");
    if (!S_ISREG(status.st_mode)) fail("is not a regular file");
    bytes_ = status.st_size;
    if (bytes_ <= row_)
      fail(fmt::format("has {} bytes: must have more than sequence + 1 = {}", bytes_, row_));
  }

  void fill(std::int64_t step, std::int64_t first, std::int64_t count, std::int32_t* out) override {
    const std::uint64_t stream = file_stream + static_cast<std::uint64_t>(step);
    const auto windows = static_cast<std::uint64_t>(bytes_ - row_ + 1);
    for (std::int64_t sample = 0; sample < count; ++sample) {
      const auto start = mix(seed_, stream, static_cast<std::uint64_t>(first + sample)) % windows;
      read_row(static_cast<std::int64_t>(start));
      out = std::copy(bytes_of_row_.begin(), bytes_of_row_.end(), out);
    }
  }
  std::optional<double> entropy_floor() const override { return std::nullopt; }

 private:
  void read_row(std::int64_t start) {
    for (std::size_t done = 0; done < bytes_of_row_.size();) {
      const ssize_t n = ::pread(fd_.get(), bytes_of_row_.data() + done, bytes_of_row_.size() - done,
                                start + static_cast<std::int64_t>(done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail(std::strerror(errno));
      if (n == 0) fail("became shorter while it was read");
      done += static_cast<std::size_t>(n);
    }
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw DeckError(
        fmt::format("data.path = \"{}\": {}: give a file that stays readable", path_, why));
  }

  std::string path_;
  OwnedFd fd_;
  std::vector<unsigned char> bytes_of_row_;
  std::int64_t bytes_ = 0;
};

}  // namespace

std::unique_ptr<TokenSource> make_token_source(const Deck& deck) {
  switch (deck.data.source) {
    case DataSource::file: return std::make_unique<FileSource>(deck);
    case DataSource::markov: return std::make_unique<MarkovSource>(deck);
    case DataSource::uniform: return std::make_unique<UniformSource>(deck);
    case DataSource::none: break;
  }
  throw DeckError(deck.path + ": data: missing: give the section that says what to train on");
}

}  // namespace shardmark
