// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The text of what macros expand to, such as a call with the names that it has in this build, or a
/// version that the build defines. Quotes in a definition would not reach the compiler through
/// every compiler wrapper.
#define SHARDMARK_TEXT_OF(...) SHARDMARK_TEXT_OF_EXPANDED(__VA_ARGS__)
#define SHARDMARK_TEXT_OF_EXPANDED(...) #__VA_ARGS__
