// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <span>

#include <comm/collective.hpp>
#include <comm/decorators/faulty.hpp>

namespace shardmark {
namespace {

// The highest bit of the mantissa; for integers the lowest bit.
int flipped_bit(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp32: return 22;
    case Dtype::fp64: return 51;
    case Dtype::bf16: return 6;
    case Dtype::fp16: return 9;
    default: return 0;
  }
}

// Whether the values are parameters, gradients or norms. Flags and lists control what ranks do
// next: if they were corrupted on one rank, the ranks would diverge and wait for each other
// forever.
bool is_data(Dtype dtype) {
  return dtype != Dtype::uint8 && dtype != Dtype::int64;
}

std::span<std::byte> received(const Collective& c, int rank, int size) {
  return {static_cast<std::byte*>(c.recv),
          static_cast<std::size_t>(received_elems(c, rank, size) * dtype_bytes(c.dtype))};
}

}  // namespace

Ticket FaultyCommunicator::inner_ticket(Ticket ticket) const {
  const auto ahead = std::upper_bound(extra_before_.begin(), extra_before_.end(), ticket);
  return ticket + before_ours_ + static_cast<Ticket>(ahead - extra_before_.begin());
}

// Whether the fault can affect `c`. Whether it affects a stale shard is known only when `c` is
// done.
bool FaultyCommunicator::eligible(const Collective& c) const {
  switch (choice_.fault) {
    case CommFault::none: return false;
    case CommFault::extra_call: return c.elems > 0;
    case CommFault::own_call: return rank() == choice_.rank && c.elems > 0;
    case CommFault::fewer_elems: return is_data(c.dtype) && c.elems >= std::int64_t{2} * size();
    case CommFault::skip_wait:
    case CommFault::flip_bit:
      return rank() == choice_.rank && is_data(c.dtype) && received_elems(c, rank(), size()) > 0;
    case CommFault::stale_shard: return false;
  }
  return false;
}

bool FaultyCommunicator::count_and_choose() {
  ++seen_;
  const bool hit = seen_ >= choice_.first && seen_ < choice_.first + choice_.count;
  hits_ += hit;
  return hit;
}

bool FaultyCommunicator::follows_shard(const Collective& c) const {
  return choice_.fault == CommFault::stale_shard && rank() == choice_.rank &&
         c.op == Op::all_gather && c.elems > 0;
}

void FaultyCommunicator::make_extra_call(std::int64_t elems) {
  Collective extra;
  extra.op = Op::all_reduce;
  extra.dtype = Dtype::int32;  // integer reductions need no scratch
  extra.reduction = Reduction::max;
  extra.elems = elems;
  extra.send = extra.recv = &extra_;
  extra.name = "fault extra_call";
  inner().start(extra);
  extra_before_.push_back(last_ + 1);
}

Ticket FaultyCommunicator::start(const Collective& c) {
  const bool hit = eligible(c) && count_and_choose();
  if (hit && choice_.fault == CommFault::extra_call) make_extra_call(1);
  if (hit && choice_.fault == CommFault::own_call) make_extra_call(0);
  Open open{0, c, {}};
  const bool shortens = hit && choice_.fault == CommFault::fewer_elems;
  if (shortens) shorten(open);
  if (hit && choice_.fault == CommFault::skip_wait) {
    const auto recv = received(c, rank(), size());
    open.before.assign(recv.begin(), recv.end());
  }
  const Ticket inner_ticket = inner().start(shortens ? open.less : c);
  open.ticket = ++last_;
  before_ours_ = inner_ticket - last_ - extra_before_.size();
  const bool only_adds =
      choice_.fault == CommFault::extra_call || choice_.fault == CommFault::own_call;
  if (follows_shard(c) || (hit && !only_adds)) open_.push_back(std::move(open));
  return last_;
}

std::unique_ptr<Communicator> FaultyCommunicator::split(int color, int key) {
  auto group = inner().split(color, key);
  FaultChoice choice = choice_;
  choice.rank = rank() == choice_.rank ? group->rank() : -1;
  return std::make_unique<FaultyCommunicator>(std::move(group), choice);
}

void FaultyCommunicator::deliver(Ticket up_to) {
  for (; !open_.empty() && open_.front().ticket <= up_to; open_.pop_front()) corrupt(open_.front());
}

void FaultyCommunicator::corrupt(const Open& open) {
  if (choice_.fault == CommFault::skip_wait)
    std::memcpy(open.c.recv, open.before.data(), open.before.size());
  if (choice_.fault == CommFault::flip_bit) flip_bit(open.c);
  if (choice_.fault == CommFault::stale_shard) restore_old_shard(open.c);
  if (choice_.fault == CommFault::fewer_elems) deliver_shortened(open);
}

// Where a collective has shards or parts, each of them loses its last element.
void FaultyCommunicator::shorten(Open& open) const {
  const Collective& c = open.c;
  Collective& less = open.less = c;
  less.elems -= size();
  if (c.parts != nullptr) {
    for (int i = 0; i < 2 * size(); ++i)
      open.parts.push_back(std::max<std::int64_t>(0, c.parts[i] - 1));
    less.parts = open.parts.data();
  }
  const std::int64_t size_bytes = dtype_bytes(c.dtype);
  const bool scatters = c.op == Op::reduce_scatter || c.op == Op::all_to_all;
  const std::int64_t whole = c.op == Op::all_gather ? less.elems / size() : less.elems;
  if (c.send != nullptr) {
    for (int p = 0; p < (scatters ? size() : 1); ++p) {
      const std::int64_t first = scatters ? sent_part(c, p, size()).first : 0;
      const std::int64_t elems = scatters ? sent_part(less, p, size()).elems : whole;
      const auto* from = static_cast<const std::byte*>(offset(c.send, first, c.dtype));
      open.sent.insert(open.sent.end(), from, from + elems * size_bytes);
    }
    less.send = open.sent.data();
  }
  open.got.resize(static_cast<std::size_t>(less.elems * size_bytes));
  if (c.recv != nullptr) less.recv = open.got.data();
}

void FaultyCommunicator::deliver_shortened(const Open& open) const {
  const Collective &c = open.c, &less = open.less;
  if (c.recv == nullptr) return;
  const bool gathers = c.op == Op::all_gather || c.op == Op::all_to_all;
  for (int p = 0; p < (gathers ? size() : 1); ++p) {
    const Part all{0, received_elems(less, rank(), size())};
    const Part from = gathers ? received_part(less, p, size()) : all;
    std::memcpy(offset(c.recv, gathers ? received_part(c, p, size()).first : 0, c.dtype),
                offset(less.recv, from.first, c.dtype),
                static_cast<std::size_t>(from.elems * dtype_bytes(c.dtype)));
  }
}

void FaultyCommunicator::flip_bit(const Collective& c) const {
  const std::int64_t middle = received_elems(c, rank(), size()) / 2;
  const int bit = flipped_bit(c.dtype);
  auto* byte = static_cast<std::byte*>(offset(c.recv, middle, c.dtype)) + bit / 8;  // little endian
  *byte ^= std::byte{1} << (bit % 8);
}

void FaultyCommunicator::restore_old_shard(const Collective& c) {
  const std::int64_t shard_elems = c.elems / size();
  auto* shard = static_cast<std::byte*>(offset(c.recv, (size() - 1) * shard_elems, c.dtype));
  const auto bytes = static_cast<std::size_t>(shard_elems * dtype_bytes(c.dtype));
  std::vector<std::byte> now(shard, shard + bytes);
  auto& last = last_shard_[std::string(c.name)];
  if (last.size() == bytes && count_and_choose()) std::memcpy(shard, last.data(), bytes);
  last = std::move(now);
}

}  // namespace shardmark
