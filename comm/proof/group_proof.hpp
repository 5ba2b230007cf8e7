// SPDX-License-Identifier: Apache-2.0
// The proof of the collectives of one group: what each rank sends is folded when a collective
// starts, what it receives is folded when the collective is done, and `compare` brings the folds of
// all ranks together.
//
// - all_gather, broadcast: a keyed hash of each sent part. The hashes that the ranks sent are added
//   (modulo 2^64), and each rank's sum over the parts that it received must be equal.
// - all_to_all: a keyed hash of each sent part. The hashes of the parts for a rank are added over
//   the ranks, and the rank's sum over the parts that it received must be equal.
// - a floating-point sum that the library makes: weighted sums of short blocks. The ranks' sums are
//   added and compared with the blocks of the result, within the bound of rounding.
// - a sum that is made in rank order (`ordered`), sums of integers and maxima: the contributions
//   are gathered on the proof's own lane when the collective starts and combined there; the hash of
//   the result must be equal.
#pragma once

#include <string>
#include <vector>

#include <comm/collective.hpp>
#include <comm/proof/fold.hpp>

namespace shardmark {

/// Copies `bytes` bytes from a buffer of collectives to the host, after all work queued for it.
using ReadBuffer = void (*)(void* to, const void* from, std::int64_t bytes);

/// What the proof has to know about the run.
struct ProofOptions {
  Reductions reductions = Reductions::native;
  ReadBuffer read = nullptr;  // null where the host can read the buffers itself
};

/// A collective that delivered something else than was sent, as one rank sees it.
struct ProofFailure {
  std::int64_t step = 0;
  std::string text;  // "reduce_scatter grad.block3: elements 512 to 767 of the result differ …"
};

/// One group of a run; the same collectives in the same order on all of its ranks.
class GroupProof {
 public:
  /// `lane` is a communicator over the same ranks that nothing else uses while the proof does.
  GroupProof(Communicator& lane, Backend backend, ProofOptions options);

  /// Begins to prove the collectives of `step`; `key` is the same on all ranks.
  void begin(std::int64_t step, std::uint64_t key);

  /// Before `c` is started: folds what this rank sends. Returns the number for `received`.
  /// Collective for sums in rank order, sums of integers and maxima, which wait for all ranks.
  std::size_t sent(const Collective& c);
  /// Whether `sent` waits for all ranks.
  bool waits_for_all(const Collective& c) const {
    return c.elems > 0 && kind_of(c) == Kind::reference;
  }
  /// After it is done, the receive buffer still untouched: folds what this rank received.
  void received(std::size_t number);
  /// The bytes of the sent sums and hashes that wait for `compare`, which are the same on
  /// all ranks.
  std::int64_t held_bytes() const;

  /// Collective; each collective that was sent has been received. Appends what this rank finds
  /// wrong to `failures` and forgets the folds.
  void compare(std::vector<ProofFailure>& failures);

  /// Collectives that were proved so far.
  std::int64_t proved() const { return proved_; }

 private:
  enum class Kind : std::uint8_t { hashes, parts, blocks, reference };
  struct Record {
    Collective c;
    std::string name;
    Kind kind = Kind::hashes;
    std::uint64_t received_hash = 0, reference = 0;
    std::int64_t block = 1, blocks_per_part = 0;  // Kind::blocks
    std::size_t first_sent = 0, first_received = 0;
    std::size_t first_hash = 0;  // Kind::hashes: its only one; Kind::parts: of one per rank
  };
  Kind kind_of(const Collective& c) const;
  static bool hashes(const Record& r) {
    return r.c.elems > 0 && (r.kind == Kind::hashes || r.kind == Kind::parts);
  }
  std::uint64_t key_of(std::size_t number, std::int64_t part) const;
  std::uint64_t hash(const void* data, std::int64_t bytes, std::uint64_t key);
  std::uint64_t hash_part(const Collective& c, const void* data, const Part& part,
                          std::uint64_t key);
  void fold(const Collective& c, const void* data, std::int64_t elems, std::int64_t block,
            BlockSum* out);
  const void* on_host(const void* data, std::int64_t bytes);
  std::uint64_t reference(const Collective& c, std::uint64_t key);
  std::int64_t parts(const Collective& c) const { return c.op == Op::reduce_scatter ? size_ : 1; }
  struct Totals;
  std::uint64_t key_of_part(std::size_t number, int from, int to) const {
    return key_of(number, std::int64_t{from} * size_ + to);
  }
  bool is_wrong_reference(const Record& record) const;
  bool same_calls(const std::vector<Totals>& ranks, std::vector<ProofFailure>& failures) const;
  void compare_hashes(const std::vector<Totals>& ranks, std::vector<ProofFailure>& failures);
  void compare_blocks(std::vector<ProofFailure>& failures);
  void judge_blocks(const Record& record, std::vector<ProofFailure>& failures) const;
  void fail(const Record& record, const std::string& what,
            std::vector<ProofFailure>& failures) const;

  Communicator& lane_;
  ProofOptions options_;
  bool rounds_each_sum_;
  int rank_, size_;
  std::int64_t step_ = 0;
  std::uint64_t key_ = 0;
  Weights weights_{};
  std::vector<Record> records_;
  std::vector<std::int64_t> sent_hashes_;  // by record and, of Kind::parts, receiving rank
  std::vector<BlockSum> sent_, received_;
  std::vector<char> buffer_, rows_;
  std::int64_t proved_ = 0;
};

}  // namespace shardmark
