// SPDX-License-Identifier: Apache-2.0
// The proof of collectives: it accepts what every back-end delivers, with arbitrary values and in
// any order of summation, and it finds a single changed bit, on the rank that received it.
#include <limits>
#include <optional>

#include <gtest/gtest.h>

#include <comm/collective.hpp>
#include <comm/decorators/proving.hpp>
#include <core/random.hpp>
#include <tests/support/array.hpp>
#include <tests/support/world.hpp>

namespace shardmark::test::proof_test {
namespace {

bool is_integer(Dtype dtype) {
  return dtype == Dtype::uint8 || dtype == Dtype::int8 || dtype == Dtype::int32 ||
         dtype == Dtype::int64;
}

// Flips a bit of what one rank receives, or puts a value in place of an element.
class Tampering : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;
  int victim = -1, bit = 0;
  std::int64_t elem = 0;
  std::optional<double> instead;
  Ticket start(const Collective& c) override {
    last_ = c;
    return inner().start(c);
  }
  void wait(Ticket ticket) override {
    inner().wait(ticket);
    if (rank() != victim) return;
    auto* const place = static_cast<unsigned char*>(offset(last_.recv, elem, last_.dtype));
    if (instead) {
      Array one(last_.dtype, 1);
      one.set(0, *instead);
      std::memcpy(place, one.at(0), static_cast<std::size_t>(dtype_bytes(last_.dtype)));
      return;
    }
    auto* byte = place + bit / 8;
    *byte ^= static_cast<unsigned char>(1u << (bit % 8));
  }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return std::make_unique<Tampering>(inner().split(color, key));
  }

 private:
  Collective last_;
};

using Way = std::tuple<TestedBackend, Reductions>;

// A communicator whose collectives are proved, with handles to what lies beneath.
class Proving : public ::testing::TestWithParam<Way> {
 protected:
  Proving()
      : options(make_options(std::get<Reductions>(GetParam()))),
        lane(make_world(make_options())),
        proof({options.reductions}) {
    auto inner =
        std::make_unique<Tampering>(make_world(options, std::get<TestedBackend>(GetParam())));
    tampering = inner.get();
    comm = std::make_unique<ProvingCommunicator>(std::move(inner), *lane, proof);
  }

  // Runs one collective on real values in [1/2, 1], whose sums do not cancel.
  void run_one(Communicator& on, Op op, Dtype dtype, Reduction reduction, std::int64_t elems) {
    const int rank = on.rank(), size = on.size();
    Array send(dtype, elems), recv(dtype, elems);
    for (std::int64_t i = 0; i < elems; ++i) send.set(i, value(dtype, rank, i));
    if (sent_at_end && rank == 0) send.set(elems - 1, *sent_at_end);
    Collective c;
    c.op = op, c.dtype = dtype, c.reduction = reduction, c.elems = elems;
    c.root = op == Op::broadcast || op == Op::reduce ? size - 1 : -1;
    c.send = send.at(0), c.recv = recv.at(0);
    c.name = "some.array";
    const auto scratch = bring_scratch(c, size, options);
    run(on, c);
  }

  static double value(Dtype dtype, int rank, std::int64_t i) {
    const std::uint64_t bits =
        mix(1, static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(i));
    const bool integer = is_integer(dtype);
    // Sums over 4 ranks fit in int8: beyond, MPICH's wrap around and some of Open MPI's stop at
    // 127.
    if (integer) return static_cast<double>(bits % 31);
    return 0.5 + static_cast<double>(bits >> 12) * 0x1p-53;
  }

  CommOptions options;
  std::unique_ptr<Communicator> lane;
  Proof proof;
  Tampering* tampering = nullptr;
  std::unique_ptr<ProvingCommunicator> comm;
  std::optional<double> sent_at_end;  // rank 0's last element, if not a value in [1/2, 1]
};

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

struct Verb {
  Op op;
  Reduction reduction;
};
constexpr Verb verbs[] = {{Op::all_gather, Reduction::none},    {Op::broadcast, Reduction::none},
                          {Op::reduce_scatter, Reduction::sum}, {Op::all_reduce, Reduction::sum},
                          {Op::all_reduce, Reduction::average}, {Op::all_reduce, Reduction::max},
                          {Op::reduce, Reduction::sum},         {Op::all_to_all, Reduction::none}};

// A few elements, and several blocks with an odd tail in more than one chunk of the reference.
constexpr std::int64_t elems_per_rank[] = {1, 37, 35003};

TEST_P(Proving, accepts_what_every_verb_delivers) {
  proof.begin(1, 42);
  for (const Verb& verb : verbs)
    for (const Dtype dtype : all_dtypes)
      for (const std::int64_t elems : elems_per_rank)
        run_one(*comm, verb.op, dtype, verb.reduction, elems * comm->size());
  run_one(*comm, Op::all_gather, Dtype::fp32, Reduction::none, 0);
  proof.end();
  for (const ProofFailure& f : proof.failures()) ADD_FAILURE() << f.text;
  EXPECT_EQ(proof.proved(),
            static_cast<std::int64_t>(std::size(verbs) * std::size(all_dtypes)) * 3 + 1);
}

TEST_P(Proving, accepts_collectives_of_groups) {
  const auto pair = comm->split(comm->rank() / 2, comm->rank());
  proof.begin(1, 42);
  run_one(*pair, Op::all_gather, Dtype::fp32, Reduction::none, 12 * pair->size());
  run_one(*comm, Op::all_reduce, Dtype::fp32, Reduction::sum, 12);
  proof.end();
  EXPECT_TRUE(proof.failures().empty());
  EXPECT_EQ(proof.proved(), 2);
}

// A gather, a broadcast and a sum in rank order are exact: the lowest bit counts.
TEST_P(Proving, finds_the_lowest_bit_where_the_result_is_exact) {
  const bool ordered = options.reductions == Reductions::ordered;
  tampering->victim = comm->size() - 1;
  std::int64_t step = 0;
  for (const Verb& verb : verbs)
    for (const Dtype dtype : all_dtypes) {
      const bool sum = verb.reduction == Reduction::sum || verb.reduction == Reduction::average;
      const bool integer = is_integer(dtype);
      if (sum && !integer && !ordered) continue;
      for (const std::int64_t elems : elems_per_rank) {
        tampering->elem = elems - 1;
        ++step;
        proof.begin(step, static_cast<std::uint64_t>(step));
        run_one(*comm, verb.op, dtype, verb.reduction, elems * comm->size());
        proof.end();
        const bool victim = comm->rank() == tampering->victim;
        ASSERT_EQ(proof.failures().size(), victim ? static_cast<std::size_t>(step) : 0)
            << to_string(verb.op) << " of " << elems << " x " << to_string(dtype);
        if (victim) {
          EXPECT_EQ(proof.failures().back().step, step);
          EXPECT_TRUE(proof.failures().back().text.starts_with(std::string(to_string(verb.op)) +
                                                               " some.array: "));
        }
      }
    }
}

// A library may sum in any order, so only what exceeds the bound of rounding is a failure: the
// highest bit of the mantissa in fp32 and fp64, the lowest of the exponent in 16-bit types.
TEST_P(Proving, finds_what_rounding_does_not_explain) {
  if (options.reductions == Reductions::ordered) GTEST_SKIP() << "sums are exact there";
  tampering->victim = comm->size() - 1;
  std::int64_t step = 0;
  for (const Dtype dtype : {Dtype::fp32, Dtype::fp64, Dtype::bf16, Dtype::fp16})
    for (const Verb& verb : verbs) {
      if (verb.reduction != Reduction::sum && verb.reduction != Reduction::average) continue;
      tampering->bit = dtype == Dtype::fp32 ? 22 : dtype == Dtype::fp64 ? 51 : 13;
      for (const std::int64_t elems : elems_per_rank) {
        tampering->elem = elems / 2;
        ++step;
        proof.begin(step, static_cast<std::uint64_t>(step));
        run_one(*comm, verb.op, dtype, verb.reduction, elems * comm->size());
        proof.end();
        const bool victim = comm->rank() == tampering->victim;
        ASSERT_EQ(proof.failures().size(), victim ? static_cast<std::size_t>(step) : 0)
            << to_string(verb.op) << " of " << elems << " x " << to_string(dtype);
      }
    }
}

// Rounding never makes an infinity or a NaN of contributions that are small.
TEST_P(Proving, finds_infinities_and_nans_in_place_of_a_sum) {
  tampering->victim = comm->size() - 1;
  const std::size_t expected = comm->rank() == tampering->victim ? 1 : 0;
  std::int64_t step = 0;
  for (const Dtype dtype : {Dtype::fp32, Dtype::fp64, Dtype::bf16, Dtype::fp16})
    for (const Verb& verb :
         {Verb{Op::reduce_scatter, Reduction::sum}, Verb{Op::all_reduce, Reduction::average}})
      for (const double wrong : {infinity, not_a_number})
        for (const std::int64_t elems : {1, 35003}) {
          tampering->instead = wrong;
          tampering->elem = elems - 1;
          const std::size_t before = proof.failures().size();
          ++step;
          proof.begin(step, static_cast<std::uint64_t>(step));
          run_one(*comm, verb.op, dtype, verb.reduction, elems * comm->size());
          proof.end();
          EXPECT_EQ(proof.failures().size() - before, expected)
              << to_string(verb.op) << " of " << elems << " x " << to_string(dtype) << " with "
              << wrong;
        }
}

// A contribution that is not finite makes a result that is not finite, which is right; a finite
// result in its place is not.
TEST_P(Proving, contributions_that_are_not_finite_have_no_finite_sum) {
  std::int64_t step = 0;
  for (const Dtype dtype : {Dtype::fp32, Dtype::fp64, Dtype::bf16, Dtype::fp16})
    for (const double sent : {infinity, not_a_number})
      for (const bool tampered : {false, true}) {
        const std::int64_t elems = 37 * comm->size();
        sent_at_end = sent;
        tampering->victim = tampered ? 0 : -1;
        tampering->instead = 1;
        tampering->elem = elems - 1;
        const std::size_t before = proof.failures().size();
        ++step;
        proof.begin(step, static_cast<std::uint64_t>(step));
        run_one(*comm, Op::all_reduce, dtype, Reduction::sum, elems);
        proof.end();
        EXPECT_EQ(proof.failures().size() - before, tampered && comm->rank() == 0 ? 1U : 0U)
            << to_string(dtype) << " with " << sent << (tampered ? ", tampered with" : "");
      }
}

TEST_P(Proving, proves_nothing_between_steps) {
  tampering->victim = 0;
  run_one(*comm, Op::all_gather, Dtype::fp32, Reduction::none, 12 * comm->size());
  proof.begin(1, 42);
  proof.end();
  EXPECT_EQ(proof.proved(), 0);
  EXPECT_TRUE(proof.failures().empty());
}

INSTANTIATE_TEST_SUITE_P(Backends, Proving,
                         ::testing::Combine(::testing::ValuesIn(tested_backends()),
                                            ::testing::ValuesIn(backend_reductions)),
                         [](const ::testing::TestParamInfo<Way>& way) {
                           return std::get<0>(way.param).name() + "_" +
                                  std::string(to_string(std::get<1>(way.param)));
                         });

// The bound is never below the error that summation in fp32 really makes, in the worst order.
TEST(RoundingBound, covers_sums_in_any_order) {
  constexpr int size = 64;
  constexpr std::int64_t elems = 256;
  const Weights weights = draw_weights(7);
  std::vector<float> result(elems, 0.0F);
  BlockSum sent;
  for (int r = 0; r < size; ++r) {
    std::vector<float> x(elems);
    for (std::int64_t i = 0; i < elems; ++i)
      x[static_cast<std::size_t>(i)] = static_cast<float>(
          static_cast<double>(
              mix(2, static_cast<std::uint64_t>(r), static_cast<std::uint64_t>(i)) >> 11) *
          0x1p-53);
    BlockSum own;
    fold_blocks(Dtype::fp32, x.data(), elems, elems, weights, &own);
    sent.weighted += own.weighted, sent.magnitude += own.magnitude;
    for (std::size_t i = 0; i < x.size(); ++i) result[i] += x[i];
  }
  BlockSum received;
  fold_blocks(Dtype::fp32, result.data(), elems, elems, weights, &received);
  const double bound = rounding_bound(Dtype::fp32, size, elems, sent, received, 1, false);
  EXPECT_LE(std::abs(sent.weighted - received.weighted), bound);
  EXPECT_LT(bound, 1e-5 * sent.magnitude);
}

TEST(Folds, judge_small_arrays_element_by_element) {
  EXPECT_EQ(block_elems(Dtype::fp32, 1), 1);
  EXPECT_EQ(block_elems(Dtype::fp32, 4096), 1);
  EXPECT_EQ(block_elems(Dtype::fp32, 1 << 20), 256);
  EXPECT_EQ(block_elems(Dtype::bf16, 1 << 20), 64);
  EXPECT_EQ(block_elems(Dtype::fp32, std::int64_t{1} << 40), 1 << 20);
}

}  // namespace
}  // namespace shardmark::test::proof_test
