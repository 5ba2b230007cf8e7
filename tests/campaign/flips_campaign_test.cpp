// SPDX-License-Identifier: Apache-2.0
// (g) One bit of one collective is flipped, in what a rank sends or in what it receives: every
// verb, type, reduction, back-end, placement on nodes, group, size, place and bit. The proof finds
// it on every rank that received it, and on no other; where nothing is flipped, it finds nothing.
#include <array>
#include <optional>

#include <comm/collective.hpp>
#include <comm/decorators/proving.hpp>
#include <tests/campaign/campaign.hpp>
#include <tests/support/array.hpp>
#include <tests/support/world.hpp>

namespace shardmark::test::flips_campaign_test {
namespace {

// The bit that is flipped in the next collective.
struct Flip {
  bool of_sent = false;
  int victim = 0;  // in the group
  std::int64_t elem = 0;
  int bit = 0;
  int receiver = -1;  // where only one rank receives the element
};
struct Orders {
  std::optional<Flip> next;
};

void flip_bit(void* data, std::int64_t elem, int bit, Dtype dtype) {
  auto* const byte = static_cast<unsigned char*>(offset(data, elem, dtype)) + bit / 8;
  *byte ^= static_cast<unsigned char>(1U << (bit % 8));
}

class Flipping : public ForwardingCommunicator {
 public:
  Flipping(std::unique_ptr<Communicator> inner, Orders& orders)
      : ForwardingCommunicator(std::move(inner)), orders_(orders) {}

  Ticket start(const Collective& c) override {
    const auto flip = std::exchange(orders_.next, std::nullopt);
    Collective changed = c;
    if (flip && flip->victim == rank() && flip->of_sent) {
      const auto bytes = sent_elems(c, rank(), size()) * dtype_bytes(c.dtype);
      const auto* const from = static_cast<const char*>(c.send);
      sent_.assign(from, from + bytes);
      changed.send = sent_.data();
      flip_bit(sent_.data(), flip->elem, flip->bit, c.dtype);
    }
    if (flip && flip->victim == rank() && !flip->of_sent) received_ = {*flip, c};
    return inner().start(changed);
  }
  void wait(Ticket ticket) override {
    inner().wait(ticket);
    if (const auto done = std::exchange(received_, std::nullopt))
      flip_bit(done->second.recv, done->first.elem, done->first.bit, done->second.dtype);
  }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return std::make_unique<Flipping>(inner().split(color, key), orders_);
  }

 private:
  Orders& orders_;
  std::vector<char> sent_;
  std::optional<std::pair<Flip, Collective>> received_;
};

// The communicators of a back-end: all ranks, and pairs or what is left of them.
struct Setup {
  Setup(const TestedBackend& tested, Reductions reductions)
      : name(tested.name() + " " + std::string(to_string(reductions))),
        options(make_options(reductions)),
        lane(make_world(make_options())),
        proof({reductions}),
        all(std::make_unique<Flipping>(make_world(options, tested), orders), *lane, proof),
        pair(all.split(all.rank() / 2, all.rank())) {}

  std::string name;
  CommOptions options;
  Orders orders;
  std::unique_ptr<Communicator> lane;
  Proof proof;
  ProvingCommunicator all;
  std::unique_ptr<Communicator> pair;
  std::int64_t step = 0;
};

bool is_integer(Dtype dtype) {
  return dtype == Dtype::uint8 || dtype == Dtype::int8 || dtype == Dtype::int32 ||
         dtype == Dtype::int64;
}

// A collective of one rank with its buffers.
struct Call {
  Call(Collective shape, std::uint64_t salt, const Communicator& comm, const CommOptions& options)
      : c(shape), counts(2 * static_cast<std::size_t>(comm.size())) {
    const int size = comm.size();
    if (c.parts != nullptr) {  // what rank a sends to rank b
      const auto part = [&](int a, int b) {
        const auto at = static_cast<std::uint64_t>(a * size + b);
        return static_cast<std::int64_t>(mix(salt, 5, at) %
                                         static_cast<std::uint64_t>(c.elems / size + 1));
      };
      for (int r = 0; r < size; ++r) {
        counts[static_cast<std::size_t>(r)] = part(comm.rank(), r);
        counts[static_cast<std::size_t>(size + r)] = part(r, comm.rank());
      }
      c.parts = counts.data();
    }
    send.emplace(c.dtype, std::max<std::int64_t>(1, sent_elems(c, comm.rank(), size)));
    recv.emplace(c.dtype, std::max(c.elems, received_elems(c, comm.rank(), size)));
    for (std::int64_t i = 0; i < send->elems(); ++i) {
      const std::uint64_t bits =
          mix(salt, static_cast<std::uint64_t>(comm.rank()), static_cast<std::uint64_t>(i));
      // Sums of 4 ranks fit in int8, and sums of values in [1/2, 1] do not cancel.
      send->set(i, is_integer(c.dtype) ? static_cast<double>(bits % 31)
                                       : 0.5 + static_cast<double>(bits >> 12) * 0x1p-53);
    }
    c.send = send->at(0), c.recv = recv->at(0), c.name = "some.array";
    scratch = bring_scratch(c, size, options);
  }
  Collective c;
  std::vector<std::int64_t> counts;
  std::optional<Array> send, recv;
  std::vector<std::byte> scratch;
};

struct Verb {
  Op op;
  Reduction reduction;
  bool parts = false;
};
constexpr Verb verbs[] = {
    {Op::all_gather, Reduction::none},    {Op::broadcast, Reduction::none},
    {Op::all_to_all, Reduction::none},    {Op::all_to_all, Reduction::none, true},
    {Op::reduce_scatter, Reduction::sum}, {Op::reduce_scatter, Reduction::average},
    {Op::all_reduce, Reduction::sum},     {Op::all_reduce, Reduction::average},
    {Op::all_reduce, Reduction::max},     {Op::reduce, Reduction::sum}};

class Flips {
 public:
  explicit Flips(Campaign& campaign) : c_(campaign) {
    for (const TestedBackend& tested : tested_backends())
      for (const Reductions reductions : backend_reductions)
        setups_.push_back(std::make_unique<Setup>(tested, reductions));
  }

  void run_case() {
    Setup& s = *c_.one_of(setups_);
    const Verb verb = c_.one_of(verbs);
    Communicator& comm = c_.random(4) == 0 ? *s.pair : s.all;
    const bool grouped = &comm != &s.all;
    const Dtype dtype = c_.one_of(all_dtypes);
    // A maximum may be another rank's.
    const bool of_sent = verb.reduction != Reduction::max && c_.random(3) == 0;
    // The proof allows the library's own sums in floating point to differ by rounding, and any sum
    // may round away what a rank sends. So such flips must be larger than rounding.
    const bool sums = verb.reduction == Reduction::sum || verb.reduction == Reduction::average;
    const bool rounded =
        sums && !is_integer(dtype) && (of_sent || s.options.reductions == Reductions::native);
    const std::int64_t most = rounded ? 1000 : c_.random(64) == 0 ? 60000 : 1000;
    // All ranks draw the same numbers, so these must not depend on the size of a rank's group.
    const std::int64_t root = c_.random(1 << 20), victim = c_.random(1 << 20);
    const std::int64_t elem = c_.random(1 << 30), per_rank = 1 + c_.random(1 + c_.random(most));
    const int width = 8 * static_cast<int>(dtype_bytes(dtype));
    const int lowest = rounded ? width - (dtype == Dtype::fp64   ? 12
                                          : dtype == Dtype::fp16 ? 6
                                                                 : 9)
                       : of_sent && verb.reduction == Reduction::average
                           ? 2
                           : 0;  // a quotient is rounded
    const int bit = lowest + static_cast<int>(c_.random(width - lowest));
    const bool flips = c_.random(16) != 0;

    const int size = comm.size();
    Collective shape;
    shape.op = verb.op, shape.dtype = dtype, shape.reduction = verb.reduction;
    shape.elems = per_rank * size;
    if (verb.op == Op::broadcast || verb.op == Op::reduce)
      shape.root = static_cast<int>(root % size);
    std::int64_t none = 0;
    if (verb.parts) shape.parts = &none;
    Call call(shape, static_cast<std::uint64_t>(elem), comm, s.options);
    const Flip flip = choose(call.c, comm, of_sent, static_cast<int>(victim % size), elem, bit);
    c_.run_case(s.name + (grouped ? ", pairs: " : ": ") + describe(call.c) + " of " +
                    std::to_string(shape.elems) + " x " + std::string(to_string(dtype)) + ", " +
                    std::string(to_string(verb.reduction)) + (flips ? ", flips" : ", no flip") +
                    " bit " + std::to_string(bit) + " of element " + std::to_string(flip.elem) +
                    (of_sent ? " sent by " : " received by ") + std::to_string(flip.victim),
                [&] {
                  if (flips && flip.elem >= 0) s.orders.next = flip;
                  const std::size_t before = s.proof.failures().size();
                  ++s.step;
                  s.proof.begin(s.step, mix(9, 9, static_cast<std::uint64_t>(s.step)));
                  run(comm, call.c);
                  s.proof.end();
                  const bool found = s.proof.failures().size() > before;
                  const bool wrong = flips && receives(call.c, comm, flip);
                  EXPECT_EQ(found, wrong);
                  found_ += found ? 1 : 0;
                });
  }
  std::int64_t found() const { return found_; }

 private:
  // Which element of which rank is flipped: the same on all ranks of the group. An element of -1 is
  // one that does not exist.
  Flip choose(const Collective& c, Communicator& comm, bool of_sent, int victim, std::int64_t elem,
              int bit) const {
    Flip f{of_sent, victim, -1, bit};
    if (c.op == Op::broadcast && of_sent) f.victim = c.root;
    if (c.op == Op::reduce && !of_sent) f.victim = c.root;
    const std::int64_t count = of_sent ? sent_elems(c, comm.rank(), comm.size())
                                       : received_elems(c, comm.rank(), comm.size());
    std::array<std::int64_t, 2> mine{comm.rank() == f.victim && count > 0 ? elem % count : -1, -1};
    if (c.op == Op::all_to_all && of_sent && mine[0] >= 0)
      for (int r = 0; r < comm.size(); ++r) {
        const Part part = sent_part(c, r, comm.size());
        if (mine[0] >= part.first && mine[0] < part.first + part.elems) mine[1] = r;
      }
    if (c.op == Op::reduce_scatter && of_sent && mine[0] >= 0)
      mine[1] = mine[0] / (c.elems / comm.size());
    std::vector<std::int64_t> all(2 * static_cast<std::size_t>(comm.size()));
    comm.exchange(mine.data(), all.data(), sizeof mine);
    f.elem = all[2 * static_cast<std::size_t>(f.victim)];
    f.receiver = static_cast<int>(all[2 * static_cast<std::size_t>(f.victim) + 1]);
    return f;
  }

  // Whether this rank receives what was changed.
  bool receives(const Collective& c, const Communicator& comm, const Flip& flip) const {
    if (flip.elem < 0) return false;
    if (!flip.of_sent) return comm.rank() == flip.victim;
    if (c.op == Op::reduce) return comm.rank() == c.root;
    return flip.receiver < 0 || flip.receiver == comm.rank();
  }

  Campaign& c_;
  std::vector<std::unique_ptr<Setup>> setups_;
  std::int64_t found_ = 0;
};

// Ranks end together, so that none waits for another that has seen enough failures.
bool on_all_ranks(bool mine) {
  int all = mine ? 1 : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD),
            "MPI_Allreduce");
  return all == 1;
}

TEST(CampaignFlips, TheProofFindsEveryFlippedBit) {
  constexpr int at_once = 100;
  Campaign campaign("flips", 600, world_rank() == 0);
  Flips flips(campaign);
  while (on_all_ranks(campaign.more()))
    for (int i = 0; i < at_once; ++i) flips.run_case();
  if (world_rank() == 0)
    std::printf("%d ranks; rank 0 found %lld flips\n", world_size(),
                static_cast<long long>(flips.found()));
  EXPECT_GT(flips.found(), 0);
}

}  // namespace
}  // namespace shardmark::test::flips_campaign_test
