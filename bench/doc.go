// Bench measures Ingot from the outside: the built program, started as a process
// and called over HTTP.
//
//	make bench ARGS="[-run REGEXP] [-json FILE] [-profile DIR] [-database DATABASE] [-short]"
//
// or the same flags with `go run .` in this folder, which is a separate module.
//
// It is a list of sections, one file each, registered in sections (main.go).
// A section reports figures. Each is compared with a peer or a limit that was
// measured in the same run, so that the ratio is meaningful on any machine, and
// with a goal, if it has one. The exit status is 1 if a goal was missed or a
// section failed.
//
// Machines are noisy, and noise only slows things down. So a rate is the best of
// several rounds, and the rounds of a figure and of its peer alternate, so that a
// slow minute affects both. Times of single events (a start) are given as median
// and worst.
//
// The program measured is built here, with the flags of the Makefile, unless
// INGOT_BIN names one; the small programs are beside it. Every server has its own
// data directory and ports.
//
// A section that pushes apps (testdata/app) deletes them before its server stops,
// also when it fails or is interrupted: instances outlive their server by design,
// and nothing else would stop them. When a goal is missed the section reports
// where the time went: with a profile of an extra round, the server's log (level
// debug) and the app's log.
//
// It may import the standard library, the packages needed to measure a bare peer,
// and clients of peers. It must not import the product: it uses public interfaces
// only. The one exception is the platform's store with its types, for sections
// that need so many rows that creating them through the API would take longer than
// the measurement (routes.go), and with the recorder of series (history.go), which
// nothing but 3,000 running instances would keep busy otherwise.
package main
