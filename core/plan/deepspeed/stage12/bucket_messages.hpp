// SPDX-License-Identifier: Apache-2.0
// The messages in which a bucket of gradients is sent at stages 1 and 2, and which of their parts
// each rank keeps. A bucket holds whole gradients, and partitions cut across them, so a bucket is a
// sequence of slices, each owned by one rank.
//
// Source: DeepSpeed 0.19's stage_1_and_2.py, average_tensor and what it calls.
#pragma once

#include <vector>

#include <core/plan/partition/flat_groups.hpp>

namespace shardmark {

/// One gradient in the bucket: `at` is its first element there.
struct BucketEntry {
  int param = 0;
  std::int64_t at = 0;
};

/// Elements [at, at + elems) of the bucket, which `owner` keeps, a place among the holders. Of a
/// matrix that Muon updates and several ranks own, `matrix` is the parameter, and all its owners
/// keep the slice.
struct BucketSlice {
  int owner = 0;
  std::int64_t at = 0, elems = 0;
  int matrix = -1;
  Holders holders = Holders::all;
};

/// The root of a message that is all-reduced.
inline constexpr int no_root = -1;

/// One collective. If it has several slices, they are flattened into one tensor.
struct BucketMessage {
  int root = no_root;  // no_root for an all_reduce; otherwise a reduce to this one of the holders
  Holders holders = Holders::all;  // the ranks that add up its gradients
  std::vector<BucketSlice> slices;
  std::vector<int> completes;  // parameters whose last element this message carries
  std::int64_t elems() const;
};

/// The slices in bucket order. Neighbours that the same ranks keep are one slice.
std::vector<BucketSlice> slices_of(const std::vector<BucketEntry>& bucket, const FlatGroups& groups,
                                   const ModelShape& model);

/// Parameters of which `rank` loses the owned slice where gradients add up in partitions of a type
/// of their own. DeepSpeed joins the slice with that of a matrix if `rank` owns the matrix alone
/// and its slice comes next in the bucket, and forgets that the first one had to be added there.
std::vector<int> lost_gradients(const std::vector<BucketEntry>& bucket, const FlatGroups& groups,
                                const ModelShape& model, int rank);

/// Joins slices that follow each other directly, whoever owns them.
std::vector<BucketSlice> joined(const std::vector<BucketSlice>& slices);

/// The messages of a bucket, of the same holders each: one all_reduce of all slices or, if
/// `rooted`, one reduce per owner and one all_reduce of the matrices that several ranks keep, in
/// the order of first appearance. Each is cut once it holds more than `bucket_size` elements.
std::vector<BucketMessage> messages_of(const std::vector<BucketEntry>& bucket,
                                       const FlatGroups& groups, const ModelShape& model,
                                       bool rooted, std::int64_t bucket_size);

}  // namespace shardmark
