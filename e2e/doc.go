// Package e2e tests Ingot from outside: it runs the built program, speaks to
// it over HTTP and through the real cf client, kills it, and looks at what is
// left. It has tests only.
//
//	make test-e2e                      all of it, short form
//	make test-e2e ARGS="-run TestPush" some of it
//	INGOT_SOAK=1 go -C e2e test -run Soak -timeout 60m ./...
//	                                   many more kills
//
// It is a module of its own, so that what only these tests need is not required
// by the product.
//
// INGOT_BIN and CF_BIN name the programs. Without them ingot is built for the
// run, and cf is the one that `make setup-test` puts into .tools/bin.
//
// Tests of apps run on both engines, as sub-tests named after them; those of
// containers are skipped where the server cannot run any, or fail if
// INGOT_REQUIRE_CONTAINERS is 1. What they push is in testdata, or written by the test. Apps outlive a server, so each such test
// deletes its apps in the end and checks that nothing is left of them.
//
// The pages for people are looked at with Chromium, without which that test is
// skipped, or fails if INGOT_REQUIRE_BROWSER is 1. INGOT_SCREENSHOTS names a
// folder for pictures of them.
//
// Every test has its own server, data directory, addresses and CF_HOME, waits
// for events and never for time to pass, and ends the processes it started by
// their id. A server that writes a line of level ERROR to its log, or panics,
// fails the test that started it.
//
// It may import internal/base/db/dbtest, internal/base/db for the names of the databases,
// containertest for what to do where there are no containers, and mailtest for a
// mail server; it must not import the product: what it knows of it is what a user
// can know.
package e2e
