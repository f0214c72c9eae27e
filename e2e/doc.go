// Package e2e tests Ingot from outside: it runs the built program, calls it over
// HTTP and with the real cf client, kills it, and checks what is left. It has
// only tests.
//
//	make test-e2e                      all of it, short form
//	make test-e2e ARGS="-run TestPush" some of it
//	INGOT_SOAK=1 go -C e2e test -run Soak -timeout 60m ./...
//	                                   many more kills
//
// It is a separate module, so that the product does not require the dependencies
// of these tests.
//
// INGOT_BIN and CF_BIN are the paths of the programs. Without them ingot is built
// for the run, and cf is the one that `make setup-test` installs in .tools/bin.
//
// Tests of apps run on both engines, as sub-tests named after them; those of
// containers are skipped where the server cannot run any, or fail if
// INGOT_REQUIRE_CONTAINERS is 1. The apps are in testdata, or written by the
// test. Apps outlive a server, so each such test deletes its apps at the end and
// checks that nothing is left of them.
//
// The web pages are tested with Chromium; without it these tests are skipped, or
// fail if INGOT_REQUIRE_BROWSER is 1. INGOT_SCREENSHOTS is a folder for
// screenshots. Every page is checked by axe-core, which `make setup-test` downloads.
// A page of the console is a line in consoleScreens and in hostilePages; a test fails
// for a route that is in neither.
//
// Every test has its own server, data directory, addresses and CF_HOME, waits
// for events and never for time to pass, and stops the processes it started by
// their id. A server that logs a line of level ERROR, or panics, fails the test
// that started it.
//
// It may import internal/base/db/dbtest, internal/base/db for the names of the
// databases, containertest for machines without containers, mailtest for a mail
// server, and internal/console for its list of routes. It must
// not import the product: it uses only what a user can use.
package e2e
