// Package logstest is the test suite that every log store passes ([Run]), and has
// the helpers that tests of logs share.
//
// Only tests may import it.
//
// Imports: base/background, base/background/backgroundtest, base/testkit,
// platform, platform/logs.
package logstest
