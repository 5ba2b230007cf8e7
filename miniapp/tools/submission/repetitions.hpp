// SPDX-License-Identifier: Apache-2.0
// What the runs of one submission say of each other and of the form: five runs are five only if
// each is another run of the same program on the same machine.
#pragma once

#include <string>
#include <vector>

#include <miniapp/tools/submission/submission.hpp>

namespace shardmark {

/// What a report says of the run's identity; two reports of one run have one of them in common.
struct RunMark {
  std::string id;             // as the report has it
  std::vector<double> times;  // of its steps, to the nanosecond: three are enough to know a run by
  std::string proof;          // the random seed that drew the proved steps
};
/// The marks of a run, empty where the report has none.
RunMark run_mark(const SubmittedRun& run);
/// Whether both are the same run, handed in twice.
bool same_run(const RunMark& a, const RunMark& b);

/// For each run, what does not fit to the runs before it or to the form: the same run again; a run
/// at the same time on the same host; another program, library, processor, back-end or number of
/// nodes under the same deck and ranks; a form that names another processor, software or number of
/// nodes. What is missing in a report is left to verify_run.
std::vector<std::vector<std::string>> compare_runs(const Submission& submission);

}  // namespace shardmark
