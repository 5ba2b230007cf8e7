// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>

#include <core/plan/deepspeed/stage12/bucket_messages.hpp>

namespace shardmark {
namespace {

// Appends slices, and starts a new message after the slice that brings one beyond `most`.
void append_cut(std::vector<BucketMessage>& messages, const BucketMessage& whole,
                std::int64_t most) {
  BucketMessage message{whole.root, whole.holders, {}, {}};
  std::int64_t elems = 0;  // of the message; kept, since there may be tens of thousands of slices
  for (const BucketSlice& s : whole.slices) {
    message.slices.push_back(s);
    elems += s.elems;
    if (elems <= most) continue;
    messages.push_back(std::move(message));
    message = {whole.root, whole.holders, {}, {}};
    elems = 0;
  }
  if (!message.slices.empty()) messages.push_back(std::move(message));
}

// A gradient may travel in several messages; the last of them to leave completes it. Slices and
// entries both cover the bucket without overlapping, so one pass over both finds who carries what.
void find_completed(const std::vector<BucketEntry>& bucket, const ModelShape& model,
                    std::vector<BucketMessage>& messages) {
  struct Carried {
    std::int64_t at, end;
    std::size_t message;
  };
  std::vector<Carried> carried;
  for (std::size_t m = 0; m < messages.size(); ++m)
    for (const BucketSlice& s : messages[m].slices) carried.push_back({s.at, s.at + s.elems, m});
  std::ranges::sort(carried, {}, &Carried::at);
  auto slice = carried.begin();
  for (const BucketEntry& entry : bucket) {
    const std::int64_t end = entry.at + model.params[entry.param].elems;
    while (slice != carried.end() && slice->end <= entry.at) ++slice;
    std::size_t last = 0;
    for (auto s = slice; s != carried.end() && s->at < end; ++s) last = std::max(last, s->message);
    if (slice != carried.end()) messages[last].completes.push_back(entry.param);
  }
}

}  // namespace

std::int64_t BucketMessage::elems() const {
  std::int64_t sum = 0;
  for (const BucketSlice& s : slices) sum += s.elems;
  return sum;
}

std::vector<BucketSlice> joined(const std::vector<BucketSlice>& slices) {
  std::vector<BucketSlice> runs;
  for (const BucketSlice& s : slices) {
    if (!runs.empty() && runs.back().at + runs.back().elems == s.at)
      runs.back().elems += s.elems;
    else
      runs.push_back(s);
  }
  return runs;
}

std::vector<BucketSlice> slices_of(const std::vector<BucketEntry>& bucket, const FlatGroups& groups,
                                   const ModelShape& model) {
  std::vector<BucketSlice> slices;
  for (const BucketEntry& entry : bucket)
    for (const std::vector<OwnedSlice> owners = groups.owners(entry.param);
         const OwnedSlice& owned : owners) {
      const int matrix =
          owners.size() > 1 && model.params[entry.param].hidden_matrix ? entry.param : -1;
      const Holders holders = model.params[entry.param].holders;
      if (!slices.empty() && slices.back().owner == owned.rank && slices.back().matrix == matrix &&
          slices.back().holders == holders)
        slices.back().elems += owned.elems;
      else
        slices.push_back({owned.rank, entry.at + owned.first, owned.elems, matrix, holders});
    }
  return slices;
}

std::vector<int> lost_gradients(const std::vector<BucketEntry>& bucket, const FlatGroups& groups,
                                const ModelShape& model, int rank) {
  std::vector<int> lost;
  int before = -1;  // what the slice before belongs to, if `rank` owns it and it is no matrix
  for (const BucketEntry& entry : bucket)
    for (const std::vector<OwnedSlice> owners = groups.owners(entry.param);
         const OwnedSlice& owned : owners) {
      const bool matrix = model.params[entry.param].hidden_matrix;
      if (before >= 0 && matrix && owned.rank == rank && owners.size() == 1) lost.push_back(before);
      before = owned.rank == rank && !matrix ? entry.param : -1;
    }
  return lost;
}

std::vector<BucketMessage> messages_of(const std::vector<BucketEntry>& bucket,
                                       const FlatGroups& groups, const ModelShape& model,
                                       bool rooted, std::int64_t bucket_size) {
  std::vector<BucketMessage> whole;  // by holders and root, in the order of their first slices
  EnumArray<Holders, std::unordered_map<int, std::size_t>> place;
  for (const BucketSlice& s : slices_of(bucket, groups, model)) {
    const int root = rooted && s.matrix < 0 ? s.owner : no_root;
    const std::size_t i = place[s.holders].try_emplace(root, whole.size()).first->second;
    if (i == whole.size()) whole.push_back({root, s.holders, {}, {}});
    whole[i].slices.push_back(s);
  }
  std::vector<BucketMessage> messages;
  for (const BucketMessage& m : whole) append_cut(messages, m, bucket_size);
  find_completed(bucket, model, messages);
  return messages;
}

}  // namespace shardmark
