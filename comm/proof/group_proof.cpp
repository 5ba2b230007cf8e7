// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include <fmt/core.h>

#include <comm/collective.hpp>
#include <comm/local_reduction.hpp>
#include <comm/proof/group_proof.hpp>
#include <core/random.hpp>

namespace shardmark {
namespace {

// Elements that cross at once where contributions are gathered or buffers are read from a device.
constexpr std::int64_t chunk_elems = std::int64_t{1} << 16;
constexpr std::int64_t sum_chunk = std::int64_t{1} << 20;  // values of one all_reduce of folds

bool is_floating(Dtype dtype) {
  return dtype == Dtype::fp32 || dtype == Dtype::fp64 || dtype == Dtype::bf16 ||
         dtype == Dtype::fp16;
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

template<class T>
void add_over_ranks(Communicator& lane, Dtype dtype, T* values, std::int64_t count) {
  for (std::int64_t first = 0; first < count; first += sum_chunk) {
    Collective c;
    c.op = Op::all_reduce, c.dtype = dtype, c.reduction = Reduction::sum;
    c.elems = std::min(sum_chunk, count - first);
    c.send = c.recv = values + first;
    c.name = "proof";
    run(lane, c);
  }
}

}  // namespace

GroupProof::GroupProof(Communicator& lane, Backend backend, ProofOptions options)
    : lane_(lane),
      options_(options),
      rounds_each_sum_(backend == Backend::nccl),
      rank_(lane.rank()),
      size_(lane.size()) {}

void GroupProof::begin(std::int64_t step, std::uint64_t key) {
  step_ = step;
  key_ = key;
  weights_ = draw_weights(key);
}

GroupProof::Kind GroupProof::kind_of(const Collective& c) const {
  if (c.op == Op::all_to_all) return Kind::parts;
  if (!is_reduction(c.op)) return Kind::hashes;
  const bool ours = options_.reductions == Reductions::ordered || !is_floating(c.dtype) ||
                    c.reduction == Reduction::max;
  return ours ? Kind::reference : Kind::blocks;
}

std::uint64_t GroupProof::key_of(std::size_t number, std::int64_t part) const {
  return splitmix64(splitmix64(key_ + number) + static_cast<std::uint64_t>(part));
}

const void* GroupProof::on_host(const void* data, std::int64_t bytes) {
  if (options_.read == nullptr) return data;
  buffer_.resize(static_cast<std::size_t>(bytes));
  options_.read(buffer_.data(), data, bytes);
  return buffer_.data();
}

std::uint64_t GroupProof::hash(const void* data, std::int64_t bytes, std::uint64_t key) {
  ByteFold fold(key);
  const std::int64_t chunk = options_.read == nullptr ? bytes : chunk_elems * 8;
  for (std::int64_t first = 0; first < bytes; first += chunk) {
    const std::int64_t n = std::min(chunk, bytes - first);
    fold.add(on_host(static_cast<const char*>(data) + first, n), n);
  }
  return fold.value();
}

std::uint64_t GroupProof::hash_part(const Collective& c, const void* data, const Part& part,
                                    std::uint64_t key) {
  return hash(offset(data, part.first, c.dtype), part.elems * dtype_bytes(c.dtype), key);
}

void GroupProof::fold(const Collective& c, const void* data, std::int64_t elems, std::int64_t block,
                      BlockSum* out) {
  const std::int64_t chunk =
      options_.read == nullptr ? elems : ceil_div(chunk_elems, block) * block;
  for (std::int64_t first = 0; first < elems; first += chunk) {
    const std::int64_t n = std::min(chunk, elems - first);
    const void* x = on_host(offset(data, first, c.dtype), n * dtype_bytes(c.dtype));
    fold_blocks(c.dtype, x, n, block, weights_, out + first / block);
  }
}

// Combines the contributions of all ranks chunk by chunk, and hashes what this rank is to receive.
std::uint64_t GroupProof::reference(const Collective& c, std::uint64_t key) {
  const std::int64_t bytes = dtype_bytes(c.dtype), part = c.elems / parts(c);
  const std::int64_t own_first = c.op == Op::reduce_scatter ? rank_ * part : 0;
  const std::int64_t own_last = own_first + received_elems(c, rank_, size_);
  ByteFold fold(key);
  std::vector<const void*> rows(static_cast<std::size_t>(size_));
  for (std::int64_t p = 0; p < parts(c); ++p)
    for (std::int64_t first = p * part; first < (p + 1) * part; first += chunk_elems) {
      const std::int64_t n = std::min(chunk_elems, (p + 1) * part - first);
      rows_.resize(static_cast<std::size_t>(n * bytes * (size_ + 1)));
      lane_.exchange(on_host(offset(c.send, first, c.dtype), n * bytes), rows_.data(), n * bytes);
      if (first < own_first || first >= own_last) continue;
      for (int r = 0; r < size_; ++r)
        rows[static_cast<std::size_t>(r)] = rows_.data() + r * n * bytes;
      char* const result = rows_.data() + size_ * n * bytes;
      combine_in_rank_order(c.dtype, c.reduction, rows.data(), size_, result, n);
      fold.add(result, n * bytes);
    }
  return fold.value();
}

std::size_t GroupProof::sent(const Collective& c) {
  const std::size_t number = records_.size();
  Record record{c, std::string(c.name), kind_of(c)};
  record.first_hash = sent_hashes_.size();
  if (c.elems > 0 && record.kind == Kind::hashes) {
    const std::int64_t bytes = c.elems * dtype_bytes(c.dtype);
    std::uint64_t sent_hash = 0;  // if this rank sends nothing
    if (c.op == Op::all_gather) sent_hash = hash(c.send, bytes / size_, key_of(number, rank_));
    if (c.op == Op::broadcast && c.root == rank_)
      sent_hash = hash(c.send, bytes, key_of(number, 0));
    sent_hashes_.push_back(static_cast<std::int64_t>(sent_hash));
  } else if (c.elems > 0 && record.kind == Kind::parts) {
    for (int r = 0; r < size_; ++r)
      sent_hashes_.push_back(static_cast<std::int64_t>(
          hash_part(c, c.send, sent_part(c, r, size_), key_of_part(number, rank_, r))));
  } else if (c.elems > 0 && record.kind == Kind::reference) {
    record.reference = reference(c, key_of(number, 0));
  } else if (c.elems > 0) {
    const std::int64_t part = c.elems / parts(c);
    record.block = block_elems(c.dtype, c.elems);
    record.blocks_per_part = ceil_div(part, record.block);
    record.first_sent = sent_.size();
    sent_.resize(sent_.size() + static_cast<std::size_t>(parts(c) * record.blocks_per_part));
    for (std::int64_t p = 0; p < parts(c); ++p)
      fold(c, offset(c.send, p * part, c.dtype), part, record.block,
           sent_.data() + record.first_sent + p * record.blocks_per_part);
  }
  records_.push_back(std::move(record));
  return number;
}

void GroupProof::received(std::size_t number) {
  Record& record = records_[number];
  const Collective& c = record.c;
  const std::int64_t elems = received_elems(c, rank_, size_);
  if (elems == 0 && (record.kind != Kind::parts || c.elems == 0)) return;
  if (record.kind == Kind::hashes) {
    const std::int64_t parts = c.op == Op::all_gather ? size_ : 1;
    const std::int64_t bytes = c.elems / parts * dtype_bytes(c.dtype);
    for (std::int64_t p = 0; p < parts; ++p)
      record.received_hash +=
          hash(static_cast<const char*>(c.recv) + p * bytes, bytes, key_of(number, p));
  } else if (record.kind == Kind::parts) {
    for (int r = 0; r < size_; ++r)
      record.received_hash +=
          hash_part(c, c.recv, received_part(c, r, size_), key_of_part(number, r, rank_));
  } else if (record.kind == Kind::reference) {
    record.received_hash = hash(c.recv, elems * dtype_bytes(c.dtype), key_of(number, 0));
  } else {
    record.first_received = received_.size();
    received_.resize(received_.size() + static_cast<std::size_t>(record.blocks_per_part));
    fold(c, c.recv, elems, record.block, received_.data() + record.first_received);
  }
}

std::int64_t GroupProof::held_bytes() const {
  return static_cast<std::int64_t>(sent_.size() * sizeof(BlockSum) +
                                   sent_hashes_.size() * sizeof(std::int64_t));
}

// What each rank says of its whole step. One exchange of these is enough where nothing is wrong.
struct GroupProof::Totals {
  std::uint64_t calls = 0;       // the hash of which collectives were made
  std::uint64_t sent = 0;        // the sum of sent hashes
  std::uint64_t received = 0;    // the sum of received hashes
  std::uint64_t sent_parts = 0;  // the same of an all_to_all, whose parts go to one rank each
  std::uint64_t received_parts = 0;
  std::uint64_t wrong_reference = 0;  // results that are not those of the reference
};

void GroupProof::compare(std::vector<ProofFailure>& failures) {
  ByteFold calls(key_);
  Totals own;
  for (const Record& r : records_) {
    const std::array<std::int64_t, 5> call{
        static_cast<std::int64_t>(r.c.op), static_cast<std::int64_t>(r.c.dtype),
        static_cast<std::int64_t>(r.c.reduction), r.c.root, r.c.elems};
    calls.add(call.data(), sizeof call);
    if (hashes(r)) {
      const bool parts = r.kind == Kind::parts;
      const auto sent = std::span(sent_hashes_)
                            .subspan(r.first_hash, static_cast<std::size_t>(parts ? size_ : 1));
      for (const std::int64_t hash : sent)
        (parts ? own.sent_parts : own.sent) += static_cast<std::uint64_t>(hash);
      (parts ? own.received_parts : own.received) += r.received_hash;
    }
    own.wrong_reference += is_wrong_reference(r);
  }
  own.calls = calls.value();
  std::vector<Totals> ranks(static_cast<std::size_t>(size_));
  lane_.exchange(&own, ranks.data(), sizeof own);
  if (same_calls(ranks, failures)) {
    compare_hashes(ranks, failures);
    compare_blocks(failures);
    proved_ += static_cast<std::int64_t>(records_.size());
  }
  records_.clear();
  sent_hashes_.clear();
  sent_.clear();
  received_.clear();
}

bool GroupProof::is_wrong_reference(const Record& record) const {
  return record.kind == Kind::reference && received_elems(record.c, rank_, size_) > 0 &&
         record.received_hash != record.reference;
}

// Folds of different collectives cannot be compared, and comparing them would not end.
bool GroupProof::same_calls(const std::vector<Totals>& ranks,
                            std::vector<ProofFailure>& failures) const {
  for (std::size_t r = 1; r < ranks.size(); ++r)
    if (ranks[r].calls != ranks[0].calls) {
      failures.push_back({step_, fmt::format("rank {} of the group made different collectives from "
                                             "rank 0 of it",
                                             r)});
      return false;
    }
  return true;
}

// Every rank of the group receives all of a gather and of a broadcast, so each rank's sum over the
// step is the sum of what all sent. A part goes to one rank only, so one sum over all ranks is
// compared. Only if a sum is not right, the collectives are compared one by one.
void GroupProof::compare_hashes(const std::vector<Totals>& ranks,
                                std::vector<ProofFailure>& failures) {
  std::uint64_t sent = 0, difference = 0;
  for (const Totals& r : ranks) sent += r.sent, difference += r.sent_parts - r.received_parts;
  const bool right = std::all_of(ranks.begin(), ranks.end(), [&](const Totals& r) {
    return r.received == sent && r.wrong_reference == 0;
  });
  if (right && difference == 0) return;
  add_over_ranks(lane_, Dtype::int64, sent_hashes_.data(),
                 static_cast<std::int64_t>(sent_hashes_.size()));
  for (const Record& record : records_) {
    const std::size_t at =
        record.first_hash + static_cast<std::size_t>(record.kind == Kind::parts ? rank_ : 0);
    if (hashes(record) && record.received_hash != static_cast<std::uint64_t>(sent_hashes_[at]))
      fail(record, "what was received is not what was sent", failures);
    if (is_wrong_reference(record))
      fail(record, "the result is not that of the contributions combined in rank order", failures);
  }
}

void GroupProof::compare_blocks(std::vector<ProofFailure>& failures) {
  if (sent_.empty()) return;
  add_over_ranks(lane_, Dtype::fp64, reinterpret_cast<double*>(sent_.data()),
                 static_cast<std::int64_t>(2 * sent_.size()));
  for (const Record& record : records_)
    if (record.kind == Kind::blocks && received_elems(record.c, rank_, size_) > 0)
      judge_blocks(record, failures);
}

// Contributions that are not finite, or whose sum may overflow, have no sum to compare with: a
// result must not be finite where a contribution is not.
void GroupProof::judge_blocks(const Record& record, std::vector<ProofFailure>& failures) const {
  const Collective& c = record.c;
  const double factor = c.reduction == Reduction::average ? size_ : 1;
  const std::int64_t first = c.op == Op::reduce_scatter ? rank_ * record.blocks_per_part : 0;
  const std::int64_t elems = received_elems(c, rank_, size_);
  for (std::int64_t b = 0; b < record.blocks_per_part; ++b) {
    const BlockSum& want = sent_[record.first_sent + static_cast<std::size_t>(first + b)];
    const BlockSum& have = received_[record.first_received + static_cast<std::size_t>(b)];
    const bool have_finite = std::isfinite(have.magnitude);
    if (!have_finite && !(want.magnitude < largest(c.dtype) / 2)) continue;
    const double bound =
        rounding_bound(c.dtype, size_, record.block, want, have, factor, rounds_each_sum_);
    const double difference = std::abs(want.weighted - factor * have.weighted);
    // The bound is infinite where a contribution is.
    if (have_finite && std::isfinite(difference) && difference <= bound) continue;
    return fail(record,
                fmt::format("elements {} to {} of the result differ from the sum of the "
                            "contributions by {:.3g}, and rounding explains {:.3g}",
                            b * record.block, std::min((b + 1) * record.block, elems) - 1,
                            difference, bound),
                failures);
  }
}

void GroupProof::fail(const Record& record, const std::string& what,
                      std::vector<ProofFailure>& failures) const {
  failures.push_back({step_, fmt::format("{} {}: {}", to_string(record.c.op), record.name, what)});
}

}  // namespace shardmark
